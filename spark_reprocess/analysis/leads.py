"""Find the leads of each group: the predicates that set it apart. Pure; numpy.

1. Each predicate is compared: its share in the group with its share in other messages (see
   ``comparison``).
2. It is significant if chance does not explain the difference: G-test with Bonferroni's correction
   for all predicates of all groups.
3. The score is the difference of the two shares.
4. Predicates that hold for nearly the same messages are correlated. The one that is easiest to read
   becomes the lead.
5. A predicate that is usual is not a lead: it holds as often in most other groups.
6. A further lead must still be significant among messages for which the leads before it hold.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from spark_reprocess.analysis.comparison import Comparisons, Others, Sample, SampledGroup
from spark_reprocess.analysis.constant_fields import ConstantFields
from spark_reprocess.analysis.features import ELEMENT, INNER_JSON, STEP, VALUE, path_text
from spark_reprocess.analysis.predicates import (
    Counts,
    Flags,
    Floats,
    Kind,
    Predicate,
    Predicates,
)

LEAST_GROUP = 10
"""Minimum group size. Below it, differences are not significant."""

LEADS = 5
CORRELATED = 3
"""At most so many correlated predicates are shown beside a lead."""

ALPHA = 0.01
"""The probability that a whole report without any cause shows a lead."""

_LEAST_SCORE = 0.25
_CANDIDATES = 40
_SAME_COUNTS = 20
_SAME_MESSAGES = 0.9
"""Predicates with this Jaccard index are correlated."""
_OVERLAP = 0.7
_ALL = 0.99
_VOTERS = 5


@dataclass(frozen=True, slots=True)
class FoundLead:
    """A lead that is not formatted yet.

    Attributes:
        group_share: share of the group's messages for which it holds.
        other_share: share of the messages that the group is compared with.
        score: difference of the shares.
        others_alike: whether the group is compared with messages like its own.
        correlated: predicates that hold for nearly the same messages; at most three.
    """

    predicate: Predicate
    group_share: float
    other_share: float
    score: float
    others_alike: bool
    correlated: tuple[Predicate, ...] = ()


def find_leads(sample: Sample, wanted: Iterable[str]) -> dict[str, tuple[FoundLead, ...]]:
    """Return the leads of the groups with ids *wanted*: at most five each, the strongest first.

    Groups with fewer than ``LEAST_GROUP`` messages in the sample have none.
    """
    groups = {one.group_id: one for one in sample.groups if len(one.messages) >= LEAST_GROUP}
    search = _Search(sample, len(groups))
    return {one: search.leads(groups[one]) if one in groups else () for one in wanted}


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A significant predicate.

    Attributes:
        others: the messages that it was compared with.
        same_counts: predicates that hold for as many messages, here and there; itself first.
        is_last: whether it ranks behind all others, because the group's shape may imply it.
    """

    number: int
    others: Others
    group_share: float
    other_share: float
    pooled_share: float
    score: float
    is_last: bool
    same_counts: tuple[int, ...]


class _Search:
    def __init__(self, sample: Sample, groups: int) -> None:
        self._sample = sample
        self._predicates = Predicates(sample.table)
        self._constant = ConstantFields(sample.table, sample.shapes)
        self._comparisons = Comparisons(sample)
        tests = 2 * groups * int(self._predicates.is_predicate.sum())
        self._needed = math.log(max(tests, 1) / ALPHA)

    def leads(self, group: SampledGroup) -> tuple[FoundLead, ...]:
        candidates: dict[int, _Candidate] = {}
        for others, is_compared, is_last in self._comparisons_of(group):
            for one in self._candidates(group, others, is_compared, is_last):
                candidates.setdefault(one.number, one)
        ranked = sorted(candidates.values(), key=lambda one: (one.is_last, -one.score))
        return tuple(self._chosen(group, ranked[:_CANDIDATES]))

    def _comparisons_of(self, group: SampledGroup) -> Iterator[tuple[Others, Flags, Flags]]:
        """Yield whom to compare with, which predicates, and which of those rank last."""
        predicates = self._predicates
        own = self._own(group)
        shape = int(np.bincount(self._sample.shapes[group.messages]).argmax())
        bound = predicates.bound_to_shape(self._constant.of(shape), own)
        everything = predicates.is_predicate
        alike, everybody = self._comparisons.alike(group), self._comparisons.all(group)
        if not group.is_by_shape:
            if alike:
                yield alike, everything, ~everything
            if everybody:
                yield everybody, everything, bound
            return
        if alike and alike.have_same_shape:
            yield alike, everything, bound & (own.shares >= _ALL)
            return
        compared = everything & ~predicates.is_present
        is_last = bound & (own.shares >= _ALL)
        if alike:
            yield alike, compared & bound, is_last
            compared = compared & ~bound
        if everybody:
            theirs = predicates.counts(everybody.counts, everybody.weight)
            is_alone = (own.holds >= _ALL * len(group.messages)) & (
                theirs.holds <= (1 - _ALL) * everybody.weight
            )
            yield everybody, compared, is_last | is_alone

    def _own(self, group: SampledGroup) -> Counts:
        counts = self._sample.table.counts(group.messages)
        return self._predicates.counts(counts, float(len(group.messages)))

    def _candidates(
        self, group: SampledGroup, others: Others, is_compared: Flags, is_last: Flags
    ) -> Iterator[_Candidate]:
        own = self._own(group)
        theirs = self._predicates.counts(others.counts, others.weight)
        score = (own.shares - theirs.shares) * own.applies / len(group.messages)
        looked_at = np.flatnonzero(is_compared & (score >= _LEAST_SCORE))
        found = evidence(
            own.shares[looked_at],
            own.applies[looked_at],
            theirs.shares[looked_at],
            theirs.applies[looked_at] * (others.effective / others.weight),
        )
        looked_at = looked_at[found >= self._needed]
        size = len(group.messages)
        order = np.lexsort((-score[looked_at], is_last[looked_at]))
        together: dict[tuple[float, float], list[int]] = {}
        for number in map(int, looked_at[order]):
            key = (float(own.holds[number]), round(float(theirs.holds[number]), 6))
            if len(together) >= _CANDIDATES and key not in together:
                break
            together.setdefault(key, []).append(number)
        for same in together.values():
            same.sort(key=self._plainness)
            number = same[0]
            yield _Candidate(
                number,
                others,
                float(own.holds[number] / size),
                float(theirs.holds[number] / others.weight),
                float(theirs.shares[number]),
                float(score[number]),
                bool(is_last[number]),
                tuple(same[:_SAME_COUNTS]),
            )

    def _chosen(self, group: SampledGroup, ranked: list[_Candidate]) -> Iterator[FoundLead]:
        chosen: list[_Candidate] = []
        while ranked and len(chosen) < LEADS:
            best = ranked[0]
            same = [one for one in ranked if one is best or self._is_correlated(group, best, one)]
            lead = min(same, key=lambda one: self._plainness(one.number))
            ranked = [one for one in ranked if one not in same]
            if self._is_unusual(group, lead) and self._adds(group, lead, chosen):
                chosen.append(lead)
                yield self._found(group, lead, same)

    def _is_correlated(self, group: SampledGroup, best: _Candidate, one: _Candidate) -> bool:
        return (
            one.is_last == best.is_last
            and one.group_share >= _SAME_MESSAGES * best.group_share
            and self._overlap(group, best, one) >= _SAME_MESSAGES
        )

    def _overlap(self, group: SampledGroup, one: _Candidate, other: _Candidate) -> float:
        """Return the Jaccard index, among the messages to which both predicates apply."""
        rows = np.concatenate([group.messages, one.others.messages])
        predicates = self._predicates
        both = rows[predicates.applies(one.number)[rows] & predicates.applies(other.number)[rows]]
        return jaccard(predicates.holds(one.number)[both], predicates.holds(other.number)[both])

    def _is_unusual(self, group: SampledGroup, one: _Candidate) -> bool:
        """Return whether the typical other group differs as well, not only the sum of the others.

        At least half of the difference must be left against the median of the other groups.
        """
        rows = one.others.messages
        if self._predicates.is_present[one.number]:
            rows = np.flatnonzero(self._sample.group_of != self._sample.group_of[group.messages[0]])
        applies = self._predicates.applies(one.number)[rows]
        holds = self._predicates.holds(one.number)[rows]
        groups = self._sample.group_of[rows]
        there = np.bincount(groups[applies])
        share = np.bincount(groups[holds], minlength=len(there))[: len(there)] / np.maximum(
            there, 1
        )
        voters = there >= _VOTERS
        if not voters.any():
            return True
        own = self._predicates.holds(one.number)[group.messages]
        own_share = own.sum() / max(self._predicates.applies(one.number)[group.messages].sum(), 1)
        pooled = one.pooled_share
        return bool(own_share - np.median(share[voters]) >= (own_share - pooled) / 2)

    def _adds(self, group: SampledGroup, one: _Candidate, chosen: Sequence[_Candidate]) -> bool:
        """Return whether the predicate is significant among messages that have the same leads."""
        before = [other for other in chosen if other.is_last == one.is_last]
        if any(self._overlap(group, one, other) >= _OVERLAP for other in before):
            return False
        own, theirs = group.messages, one.others.messages
        weights = one.others.weights
        for other in before:
            holds = self._predicates.holds(other.number)
            own = own[holds[own]]
            weights, theirs = weights[holds[theirs]], theirs[holds[theirs]]
        if not before or not len(theirs):
            return True
        holds = self._predicates.holds(one.number)
        share, other_share = holds[own].mean(), weights[holds[theirs]].sum() / weights.sum()
        effective = weights.sum() ** 2 / (weights**2).sum()
        look = (np.array([value]) for value in (share, len(own), other_share, effective))
        return bool(share > other_share and evidence(*look)[0] >= self._needed)

    def _found(
        self, group: SampledGroup, lead: _Candidate, same: Sequence[_Candidate]
    ) -> FoundLead:
        return FoundLead(
            self._predicates.predicate(lead.number),
            lead.group_share,
            lead.other_share,
            lead.score,
            lead.others.are_alike,
            tuple(map(self._predicates.predicate, self._correlated(group, lead, same))),
        )

    def _correlated(
        self, group: SampledGroup, lead: _Candidate, same: Sequence[_Candidate]
    ) -> list[int]:
        """Return predicates that hold for nearly the same messages, each about another field."""
        rows = np.concatenate([group.messages, lead.others.messages])
        holds = self._predicates.holds(lead.number)[rows]
        likely = [*lead.same_counts[1:]]
        for one in same:
            if one is not lead:
                likely += one.same_counts
        found: list[int] = []
        paths = [self._predicates.predicate(lead.number).path]
        for number in likely:
            path = self._predicates.predicate(number).path
            if any(_is_same_place(path, other) for other in paths):
                continue
            if jaccard(holds, self._predicates.holds(number)[rows]) >= _SAME_MESSAGES:
                found.append(number)
                paths.append(path)
            if len(found) == CORRELATED:
                break
        return found

    def _plainness(self, number: int) -> tuple[bool, bool, bool, int, int, str]:
        """Sort key, the easiest to read first: a value, no link, no number, few steps, short."""
        kind, path, tag = self._predicates.predicate(number)
        shown, text = path_text(path), tag[1:]
        return (
            kind is not Kind.TAG or not tag.startswith(VALUE),
            "/" in text or "@" in text,
            text.lstrip("-").isdecimal(),
            path.count(STEP),
            len(shown) + len(text),
            shown,
        )


def evidence(share_1: Floats, count_1: Floats, share_2: Floats, count_2: Floats) -> Floats:
    """Return half the G statistic, in nats, of two shares of so many messages each.

    If there is no difference, the result is above *x* with a probability of about exp(-x) at most.
    """
    total = np.maximum(count_1 + count_2, 1e-9)
    pooled = (share_1 * count_1 + share_2 * count_2) / total
    return count_1 * _divergence(share_1, pooled) + count_2 * _divergence(share_2, pooled)


def _divergence(share: Floats, other: Floats) -> Floats:
    """Return the Kullback-Leibler divergence of two yes-or-no distributions, in nats."""
    other = np.clip(other, 1e-12, 1 - 1e-12)
    return _term(share, other) + _term(1 - share, 1 - other)


def _term(share: Floats, other: Floats) -> Floats:
    return np.where(share > 0, share * np.log(np.maximum(share, 1e-300) / other), 0.0)


def jaccard(first: Flags, second: Flags) -> float:
    """Return the Jaccard index of two sets of messages: those in both by those in either."""
    return float((first & second).sum() / max((first | second).sum(), 1))


def _is_same_place(path: str, other: str) -> bool:
    """Return whether one field is the other one, or inside it."""
    short, long = sorted((path, other), key=len)
    return long.startswith(short) and long[len(short) :][:1] in ("", STEP, ELEMENT, INNER_JSON)
