"""The search for leads: which claims set a group apart, and say something new each. Pure; numpy.

What passes ``significance`` is ranked by what it tells. What only repeats the shape by which the
group is known counts for less than what does not. A further lead must still hold among messages
that agree on the leads before it, so that five fields that say the same give one lead.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from spark_reprocess.analysis.claims import Claim, Claims, Held, Sort
from spark_reprocess.analysis.comparison import (
    Comparison,
    Comparisons,
    Others,
    SampledGroup,
    Scope,
)
from spark_reprocess.analysis.lead_choice import Candidate, choose, plainness, synonyms
from spark_reprocess.analysis.significance import (
    Floats,
    bits,
    evidence,
    greatest_evidence,
    threshold,
)
from spark_reprocess.analysis.trait_table import Flags, Ints, TraitTable

LEAST_GROUP = 10
"""Of fewer messages there are no leads: a human reads them, and chance has its way with them."""

_LEAST_SHARE = 0.05
_LEAST_MESSAGES = 3
_LEAST_OTHERS = 10.0
_LEAST_BITS = 0.1
_CANDIDATES = 40
_AS_OFTEN = 20
_ALWAYS = 0.99
_HARDLY = 0.01
_ALONE = 0.1
"""A value that all of the group and hardly anybody else has may be one that its shape brings."""
_REPEATED = 0.01
"""What a lead that the group's shape says already counts for: less than any other."""


@dataclass(frozen=True, slots=True)
class FoundLead:
    """A lead before it is worded.

    Attributes:
        others_alike: whether *other_share* is of messages that are like the group.
        synonyms: what holds for the same messages; a few.
    """

    claim: Claim
    group_share: float
    other_share: float
    score: float
    others_alike: bool
    synonyms: tuple[Claim, ...] = ()


def find_leads(
    table: TraitTable,
    groups: Sequence[SampledGroup],
    wanted: Iterable[str],
    shapes: Ints,
    names: Sequence[str],
) -> dict[str, tuple[FoundLead, ...]]:
    """Return the leads of the groups with ids *wanted*, the strongest first, at most five.

    Args:
        table: the traits of all sampled messages.
        groups: every sampled message is in one.
        wanted: ids of groups; those with fewer than ``LEAST_GROUP`` messages in the sample have
            no leads.
        shapes: of each message the shape of its payload, a place in *names*.
        names: what the shapes are called.
    """
    looked_at = {group.group_id: group for group in groups if len(group.messages) >= LEAST_GROUP}
    search = _Search(
        table,
        shapes,
        Claims(table, shapes),
        Comparisons(table, groups, shapes, names),
        2 * len(looked_at),
    )
    return {one: search.leads(looked_at[one]) if one in looked_at else () for one in wanted}


@dataclass(frozen=True, slots=True)
class _Search:
    table: TraitTable
    shapes: Ints
    claims: Claims
    comparisons: Comparisons
    families: int

    def leads(self, group: SampledGroup) -> tuple[FoundLead, ...]:
        candidates: dict[int, Candidate] = {}
        odd: set[int] = set()
        for comparison in self.comparisons.of(group):
            for candidate in self._candidates(group, comparison, odd):
                candidates.setdefault(candidate.claim, candidate)
        ranked = sorted(candidates.values(), key=lambda one: -one.score)[:_CANDIDATES]
        chosen = choose(self.claims, group, ranked, self.families * _CANDIDATES)
        return tuple(self._found(one, synonyms(self.claims, group, one, ranked)) for one in chosen)

    def _candidates(
        self, group: SampledGroup, comparison: Comparison, odd: set[int]
    ) -> Iterator[Candidate]:
        claims, size = self.claims, float(len(group.messages))
        own = claims.held(self.table.counts(group.messages), size)
        theirs = claims.held(comparison.others.counts, comparison.others.weight)
        is_fixed = claims.fixed(int(self.shapes[group.messages[0]]), own)
        score = self._scores(own, size, comparison, theirs, is_fixed)
        odd.update(claims.field(int(one)) for one in np.flatnonzero((score > 0) & claims.is_type))
        for claim, *as_often in self._distinct(score, own, theirs):
            share = own.had[claim] / size
            # A value of a field whose very type is odd is that defect again.
            is_defect = claims.field(claim) in odd or claims.said(claim).sort is not Sort.TAG
            is_repeated = group.is_by_shape and share >= _ALWAYS
            is_repeated = is_repeated and bool(is_defect or is_fixed[claim])
            is_alone = group.is_by_shape and share >= _ALWAYS and claims.is_in_body(claim)
            is_alone = is_alone and theirs.had[claim] <= _HARDLY * comparison.others.weight
            yield Candidate(
                claim=claim,
                comparison=comparison,
                group_share=float(share),
                other_share=float(theirs.had[claim] / comparison.others.weight),
                score=float(score[claim])
                * _worth(is_repeated=is_repeated, is_alone=bool(is_alone)),
                is_defect=is_defect,
                is_repeated=is_repeated,
                as_often=tuple(as_often[:_AS_OFTEN]),
            )

    def _distinct(self, score: Floats, own: Held, theirs: Held) -> Iterable[list[int]]:
        """The best claims, those together that hold equally often, the plainest of them first.

        What holds for the same number of messages, here and elsewhere, nearly always holds for the
        same ones: an id and a name, or the hundred fields that one more object brings.
        """
        together: dict[tuple[float, float], list[int]] = {}
        for claim in map(int, np.argsort(-score, kind="stable")):
            key = (float(own.had[claim]), round(float(theirs.had[claim]), 6))
            if score[claim] <= 0 or len(together) >= _CANDIDATES:
                break
            together.setdefault(key, []).append(claim)
        for alike in together.values():
            alike.sort(key=partial(plainness, self.claims))
        return together.values()

    def _scores(
        self, own: Held, size: float, comparison: Comparison, theirs: Held, is_fixed: Flags
    ) -> Floats:
        """What each claim tells in this comparison, 0 where it is no lead."""
        claims, others, nearest = self.claims, comparison.others, comparison.nearest
        needed = self._needed(own, theirs, others)
        score = _told(own, size, theirs, others, needed)
        if nearest is not None:
            near = claims.held(nearest.counts, nearest.weight)
            score = np.maximum(score, _told(own, size, near, nearest, needed))
            score = score * _lasts(own, theirs, near)
        in_scope = {
            Scope.EVERYTHING: claims.is_claim,
            Scope.FIXED: claims.is_claim & is_fixed,
            Scope.FREE: claims.is_claim & ~is_fixed,
        }
        return np.asarray(score * in_scope[comparison.scope], np.float64)

    def _needed(self, own: Held, theirs: Held, others: Others) -> float:
        """The evidence that a lead needs, given how many claims could reach it."""
        enough = theirs.could * (others.effective / others.weight)
        together = own.had + _share(theirs) * enough
        could_be = self.claims.is_claim & (together >= _LEAST_MESSAGES)
        greatest = greatest_evidence(together[could_be], own.could[could_be], enough[could_be])
        return threshold(greatest, self.families)

    def _found(self, one: Candidate, same: Iterable[int]) -> FoundLead:
        return FoundLead(
            self.claims.said(one.claim),
            one.group_share,
            one.other_share,
            one.score,
            one.comparison.are_alike,
            tuple(self.claims.said(other) for other in same),
        )


def _worth(*, is_repeated: bool, is_alone: bool) -> float:
    return _REPEATED if is_repeated else _ALONE if is_alone else 1.0


def _told(own: Held, size: float, theirs: Held, others: Others, needed: float) -> Floats:
    enough = theirs.could * (others.effective / others.weight)
    share, their_share = _share(own), _share(theirs)
    is_looked_at = own.had >= max(_LEAST_MESSAGES, _LEAST_SHARE * size)
    is_looked_at &= (enough >= _LEAST_OTHERS) & (share > their_share)
    chosen = np.flatnonzero(is_looked_at)
    counts = share[chosen], own.could[chosen], their_share[chosen], enough[chosen]
    told = bits(*counts) * own.could[chosen] / size
    holds = (evidence(*counts) >= needed) & (told >= _LEAST_BITS)
    score = np.zeros(len(own.had))
    score[chosen] = np.where(holds, told, 0.0)
    return score


def _lasts(own: Held, theirs: Held, near: Held) -> Flags:
    """Whether at least half of the difference is still there against the nearest messages."""
    share = _share(own)
    return np.asarray(
        (near.could <= 0) | (share - _share(near) >= (share - _share(theirs)) / 2), bool
    )


def _share(held: Held) -> Floats:
    return np.clip(held.had / np.maximum(held.could, 1e-9), 0.0, 1.0)
