"""Which of the candidates become leads: the best, and those that add to it. Pure; numpy."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spark_reprocess.analysis.claims import Claims, Sort
from spark_reprocess.analysis.comparison import Comparison, SampledGroup
from spark_reprocess.analysis.significance import Floats, evidence, threshold
from spark_reprocess.analysis.trait_table import Flags, Ints
from spark_reprocess.analysis.traits import STEP, VALUE, way_text

LEADS = 5

_FEW = 10
_SAME = 0.7
_NEARLY_AS_GOOD = 0.9
_WORTH = 0.2


@dataclass(frozen=True, slots=True)
class Candidate:
    """A claim that may become a lead.

    Attributes:
        score: what it tells.
        is_defect: whether it is about how a field looks, not about whose message it is.
    """

    claim: int
    comparison: Comparison
    group_share: float
    other_share: float
    score: float
    is_defect: bool


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
        best = ranked[0]
        has = self._holds(best, best)
        equal = [
            one
            for one in ranked
            if one.score >= _NEARLY_AS_GOOD * best.score
            and one.is_defect == best.is_defect
            and _jaccard(has, self._holds(one, best)) >= _SAME
        ]
        return min(equal, key=lambda one: plainness(self.claims, one.claim))

    def adds(self, one: Candidate, chosen: Sequence[Candidate]) -> bool:
        """Whether *one* tells something that the leads before it do not."""
        if one.score < _WORTH * chosen[0].score:
            return False
        # The bad field besides the tenant who sent it: both are worth knowing.
        before = [other for other in chosen if other.is_defect == one.is_defect]
        holds = self._holds(one, one)
        known = [self._holds(other, one) for other in before]
        if any(_jaccard(holds, other) >= _SAME for other in known):
            return False
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

    def _holds(self, one: Candidate, among: Candidate) -> Flags:
        """For which messages a claim holds: those of the group, then those it is compared with."""
        rows = np.concatenate([self.group.messages, among.comparison.others.messages])
        return np.asarray(self.claims.holders(one.claim)[rows])


def plainness(claims: Claims, claim: int) -> tuple[bool, int, bool, bool, int, str]:
    """What a human reads most easily comes first: a value, few steps, no link, no number, short."""
    sort, way, tag = claims.said(claim)
    shown, text = way_text(way), tag[1:]
    return (
        sort is not Sort.TAG or not tag.startswith(VALUE),
        way.count(STEP),
        "://" in text,
        text.lstrip("-").isdecimal(),
        len(shown) + len(text),
        shown,
    )


def _jaccard(one: Flags, other: Flags) -> float:
    return float((one & other).sum() / max((one | other).sum(), 1))
