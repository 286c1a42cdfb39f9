"""What holds for the same messages as a lead: the account's number beside its name. Pure; numpy."""

from collections.abc import Iterator, Sequence

import numpy as np

from spark_reprocess.analysis.claims import Claims
from spark_reprocess.analysis.comparison import SampledGroup
from spark_reprocess.analysis.lead_choice import SYNONYM, Candidate
from spark_reprocess.analysis.trait_table import Flags
from spark_reprocess.analysis.traits import ELEMENT, INNER_JSON, STEP

SYNONYMS = 3
"""More would say no more: an object that all of them have brings a hundred."""

_LOOKS = 20


def synonyms(
    claims: Claims, group: SampledGroup, lead: Candidate, ranked: Sequence[Candidate]
) -> tuple[int, ...]:
    """Return claims that hold for (nearly) the same messages as *lead*, the plainest first.

    At most three, and each about a place of its own in the message: that the object is there in
    which a field has its value is no news.

    Args:
        claims: what the candidates claim.
        group: whose lead it is.
        lead: one of *ranked*.
        ranked: all candidates of the group.
    """
    rows = np.concatenate([group.messages, lead.comparison.others.messages])
    holds = claims.holders(lead.claim)[rows]
    found: list[int] = []
    ways = [claims.said(lead.claim).way]
    for claim, _ in zip(_likely(lead, ranked), range(_LOOKS), strict=False):
        way = claims.said(claim).way
        if any(_is_same_place(way, other) for other in ways):
            continue
        if _likeness(holds, claims.holders(claim)[rows]) >= SYNONYM:
            found.append(claim)
            ways.append(way)
        if len(found) == SYNONYMS:
            break
    return tuple(found)


def _likely(lead: Candidate, ranked: Sequence[Candidate]) -> Iterator[int]:
    """Claims that may hold for the same messages, because they hold for about as many."""
    yield from lead.as_often
    for one in ranked:
        few, many = sorted((one.group_share, lead.group_share))
        if one.claim != lead.claim and few >= SYNONYM * many:
            yield one.claim
            yield from one.as_often


def _is_same_place(way: str, other: str) -> bool:
    """Whether the one is the other, or inside it."""
    short, long = sorted((way, other), key=len)
    return long.startswith(short) and long[len(short) :][:1] in ("", STEP, ELEMENT, INNER_JSON)


def _likeness(holds: Flags, also: Flags) -> float:
    """Jaccard's."""
    return float((holds & also).sum() / max((holds | also).sum(), 1))
