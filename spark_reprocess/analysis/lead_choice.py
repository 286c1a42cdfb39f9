"""Which of the candidates become leads: the best, and those that add to it. Pure; numpy.

``synonyms`` finds what holds for the same messages as a lead: the account's number beside its name.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from spark_reprocess.analysis.claims import Claims, Sort
from spark_reprocess.analysis.comparison import Comparison, SampledGroup
from spark_reprocess.analysis.significance import Floats, evidence, threshold
from spark_reprocess.analysis.trait_table import Flags, Ints
from spark_reprocess.analysis.traits import ELEMENT, INNER_JSON, STEP, VALUE, way_text

LEADS = 5

SYNONYMS = 3
"""More would say no more: an object that all of them have brings a hundred."""

_LOOKS = 20
_FEW = 10
_SAME = 0.7
"""From this likeness on, two claims say nearly the same."""
SYNONYM = 0.95
"""From this likeness on, two claims hold for the same messages."""
_NEARLY_AS_GOOD = 0.9
_WORTH = 0.2
_WELL = 0.4
_BROADER = 1.25


@dataclass(frozen=True, slots=True)
class Candidate:
    """A claim that may become a lead.

    Attributes:
        score: what it tells.
        is_defect: whether it is about how a field looks, not about whose message it is.
        is_repeated: whether the shape by which the group is known says it already.
        as_often: claims that hold equally often, here and elsewhere, the plainest first; some.
    """

    claim: int
    comparison: Comparison
    group_share: float
    other_share: float
    score: float
    is_defect: bool
    is_repeated: bool
    as_often: tuple[int, ...] = ()


def choose(
    claims: Claims, group: SampledGroup, ranked: Sequence[Candidate], looks: int
) -> list[Candidate]:
    """Pick the best, then those that still tell something, given the ones before.

    Args:
        claims: what the candidates claim.
        group: whose they are.
        ranked: the candidates, the best first.
        looks: how many candidates of all groups are looked at.
    """
    choice = _Choice(claims, group, threshold(np.array([math.inf]), looks))
    chosen: list[Candidate] = []
    left = list(ranked)
    while left and len(chosen) < LEADS:
        best = choice.plainest(left)
        chosen.append(best)
        left = [one for one in left if one is not best and choice.adds(one, chosen)]
    return chosen


@dataclass(frozen=True, slots=True)
class _Choice:
    claims: Claims
    group: SampledGroup
    needed: float

    def plainest(self, ranked: Sequence[Candidate]) -> Candidate:
        """Of those that say the same as the best, the one that is easiest to read."""
        best = self._broadest(ranked)
        equal = [one for one in ranked if one is best or self._is_as_good(one, best)]
        return min(equal, key=lambda one: plainness(self.claims, one.claim))

    def _broadest(self, ranked: Sequence[Candidate]) -> Candidate:
        """The best, or what it implies and explains more of the group: the tenant, not its shop."""
        best = ranked[0]
        for one in ranked[1:]:
            if (
                one.score >= _WELL * best.score
                and one.group_share >= _BROADER * best.group_share
                and one.is_defect == best.is_defect
                and one.is_repeated == best.is_repeated
                and self._implied(one, best) >= SYNONYM
            ):
                best = one
        return best

    def _implied(self, one: Candidate, other: Candidate) -> float:
        """The share of what *other* holds for that *one* holds for as well, where it could."""
        rows = self._rows(other)
        claims = self.claims
        has = claims.holders(other.claim)[rows] & claims.candidates(one.claim)[rows]
        return float(claims.holders(one.claim)[rows][has].mean()) if has.any() else 0.0

    def _is_as_good(self, one: Candidate, best: Candidate) -> bool:
        if (one.is_defect, one.is_repeated) != (best.is_defect, best.is_repeated):
            return False
        alike = self._likeness(one, best)
        if alike >= SYNONYM:
            return one.group_share >= _NEARLY_AS_GOOD * best.group_share
        return alike >= _SAME and one.score >= _NEARLY_AS_GOOD * best.score

    def adds(self, one: Candidate, chosen: Sequence[Candidate]) -> bool:
        """Whether *one* tells something that the leads before it do not."""
        best = next((other for other in chosen if other.is_repeated == one.is_repeated), one)
        if one.score < _WORTH * best.score:
            return False
        # The bad field besides the tenant who sent it: both are worth knowing.
        before = [other for other in chosen if other.is_defect == one.is_defect]
        if any(self._likeness(one, other) >= _SAME for other in before):
            return False
        holds = self._holds(one, one)
        known = [self._holds(other, one) for other in before]
        stratum = np.zeros(len(holds), np.int64)
        for place, other in enumerate(known):
            stratum += other.astype(np.int64) << place
        return self._holds_within(stratum, holds, one.comparison.others.weights)

    def _holds_within(self, stratum: Ints, holds: Flags, weights: Floats) -> bool:
        """Whether a claim sets the group apart among messages of which the same is known.

        Where nobody else is like that, there is nothing to hold against it.
        """
        own, total, alone = len(self.group.messages), 0.0, 0
        for one in np.unique(stratum[:own]):
            ours = holds[:own][stratum[:own] == one]
            is_theirs = stratum[own:] == one
            weight = weights[is_theirs].sum()
            if is_theirs.sum() < _FEW:
                alone += len(ours)
                continue
            share, other_share = ours.mean(), weights[is_theirs & holds[own:]].sum() / weight
            effective = weight**2 / (weights[is_theirs] ** 2).sum()
            if share > other_share:
                look = (np.array([value]) for value in (share, len(ours), other_share, effective))
                total += float(evidence(*look)[0])
        return alone > own / 2 or total >= self.needed

    def _likeness(self, one: Candidate, other: Candidate) -> float:
        """How alike two claims are (Jaccard), among the messages for which both could hold."""
        rows = self._rows(other)
        claims = self.claims
        both = claims.candidates(one.claim)[rows] & claims.candidates(other.claim)[rows]
        first, second = (
            claims.holders(one.claim)[rows][both],
            claims.holders(other.claim)[rows][both],
        )
        return float((first & second).sum() / max((first | second).sum(), 1))

    def _holds(self, one: Candidate, among: Candidate) -> Flags:
        """For which messages a claim holds: those of the group, then those it is compared with."""
        return np.asarray(self.claims.holders(one.claim)[self._rows(among)])

    def _rows(self, one: Candidate) -> Ints:
        return np.concatenate([self.group.messages, one.comparison.others.messages])


def plainness(claims: Claims, claim: int) -> tuple[bool, bool, bool, int, int, str]:
    """What a human reads most easily comes first: a value, no link, no number, few steps, short."""
    sort, way, tag = claims.said(claim)
    shown, text = way_text(way), tag[1:]
    return (
        sort is not Sort.TAG or not tag.startswith(VALUE),
        "/" in text or "@" in text,
        text.lstrip("-").isdecimal(),
        way.count(STEP),
        len(shown) + len(text),
        shown,
    )


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
