"""Find the leads of each group: the predicates that set it apart. Pure; numpy.

1. The share of the group for which a predicate holds is compared with the share of other messages
   (see ``comparison``). The score is the difference of the two shares; it must be at least 0.25.
   What the shape of the messages may imply counts for a third.
2. The difference must be significant: G-test (S. S. Wilks, 1938), with Bonferroni's correction for
   all predicates of all groups.
3. Predicates that hold for nearly the same messages are correlated. The one that is easiest to read
   becomes the lead; up to three others are shown beside it.
4. What is usual is not a lead: at least half of the difference must be left against the median of
   the other groups.
5. A further lead must be significant among messages that have the same earlier leads as well.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from spark_reprocess.analysis.comparison import (
    Comparisons,
    ConstantFields,
    Others,
    Sample,
    SampledGroup,
)
from spark_reprocess.analysis.features import ELEMENT, INNER_JSON, STEP, VALUE, path_text
from spark_reprocess.analysis.predicates import (
    Counts,
    Flags,
    Floats,
    Ints,
    Kind,
    Predicate,
    Predicates,
)
from spark_reprocess.findings import LEAST_GROUP

LEADS = 5
CORRELATED = 3
"""The most correlated predicates that are shown beside a lead."""

ALPHA = 0.01
"""The probability that a whole report without any cause shows a lead."""

_LEAST_SCORE = 0.25
_CANDIDATES = 40
_SAME_COUNTS = 20
_SAME_MESSAGES = 0.95
"""Predicates are correlated from this Jaccard index on."""

_OVERLAP = 0.7
"""Two leads of a group have a lower Jaccard index than this."""

_MAY_BE_IMPLIED = 1 / 3
"""What the shape of a group's messages may imply counts for a third."""

_ALL = 0.99
_LEAST_MESSAGES = 5
"""Groups with fewer messages to which a predicate applies do not count for what is usual."""

_LEAST_OTHERS = 10


@dataclass(frozen=True, slots=True)
class FoundLead:
    """A lead that is not formatted yet.

    Attributes:
        group_share: share of the group's messages for which it holds.
        other_share: share of the messages that the group is compared with.
        score: difference of the shares; a third of it where the shape may imply the predicate.
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

    Groups with fewer than ``LEAST_GROUP`` messages in the sample are left out.
    """
    groups = {one.group_id: one for one in sample.groups if len(one.messages) >= LEAST_GROUP}
    context = _Context(sample, len(groups))
    return {one: tuple(_Search(context, groups[one]).leads()) for one in wanted if one in groups}


class _Context:
    """What the searches of all groups share."""

    def __init__(self, sample: Sample, groups: int) -> None:
        self.sample = sample
        self.predicates = Predicates(sample.table)
        self.constant = ConstantFields(sample.table, sample.shapes)
        self.comparisons = Comparisons(sample)
        # The evidence, in nats, from which on a difference is significant.
        tests = 2 * groups * int(self.predicates.is_predicate.sum())
        self.needed = math.log(max(tests, 1) / ALPHA)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A significant predicate.

    Attributes:
        number: of the predicate.
        others: the messages that the group was compared with.
        own_share: among the group's messages to which the predicate applies.
        pooled_share: among the others to which it applies.
        group_share: among all messages of the group.
        other_share: among all others.
        same_counts: predicates that hold for as many messages in the group and in the others.
    """

    number: int
    others: Others
    own_share: float
    pooled_share: float
    group_share: float
    other_share: float
    score: float
    may_be_implied: bool
    same_counts: tuple[int, ...]


class _Search:
    """The search for the leads of one group."""

    def __init__(self, context: _Context, group: SampledGroup) -> None:
        self._context, self._predicates = context, context.predicates
        self._group, self._size = group, len(group.messages)
        counts = context.sample.table.counts(group.messages)
        self._own = context.predicates.counts(counts, float(self._size))

    def leads(self) -> Iterator[FoundLead]:
        candidates: dict[int, _Candidate] = {}
        for comparison in self._comparisons():
            for one in self._candidates(*comparison):
                candidates.setdefault(one.number, one)
        left = sorted(candidates.values(), key=lambda one: -one.score)
        left, chosen = left[:_CANDIDATES], list[_Candidate]()
        while left and len(chosen) < LEADS:
            same = [one for one in left if one is left[0] or self._is_correlated(left[0], one)]
            left = [one for one in left if one not in same]
            lead = min(same, key=lambda one: self._plainness(one.number))
            if self._is_unusual(lead) and self._adds_to(lead, chosen):
                chosen.append(lead)
                yield FoundLead(
                    self._predicates.predicate(lead.number),
                    lead.group_share,
                    lead.other_share,
                    lead.score,
                    lead.others.are_alike,
                    tuple(map(self._predicates.predicate, self._correlated(lead, same))),
                )

    def _comparisons(self) -> Iterator[tuple[Others, Flags, Flags]]:
        """Compare with messages alike, and with all others as far as this makes sense.

        Each comparison has the other messages, the predicates to compare, and those that the shape
        of the group's messages may imply.

        The shape of a group that is known by its shape implies its *bound* predicates: which
        fields are present, their types, and the values of constant fields. Against all others
        they would all be significant. So they are compared with similar shapes only, and
        count less. That a field is present is not a lead at all: the group's title lists the
        fields.
        """
        alike = self._context.comparisons.alike(self._group)
        everybody = self._context.comparisons.all(self._group)
        shapes = self._context.sample.shapes[self._group.messages]
        is_constant = self._context.constant.of(int(np.bincount(shapes).argmax()))
        bound = self._predicates.bound_to_shape(is_constant)
        everything = self._predicates.is_predicate
        may_be_implied = bound & (self._own.shares >= _ALL)
        if not self._group.is_by_shape:
            if alike:
                yield alike, everything, ~everything
            if everybody:
                yield everybody, everything, bound
        elif alike and alike.have_same_shape:
            yield alike, everything, may_be_implied
        else:
            compared = everything & ~self._predicates.is_present
            if alike:
                yield alike, compared & bound, may_be_implied
                compared = compared & ~bound
            if everybody:
                # What holds for all of the group and for nobody else, its shape may imply.
                theirs = self._predicates.counts(everybody.counts, everybody.weight)
                is_in_all = self._own.holds >= _ALL * self._size
                is_exclusive = is_in_all & (theirs.holds <= (1 - _ALL) * everybody.weight)
                yield everybody, compared, may_be_implied | is_exclusive

    def _candidates(
        self, others: Others, compared: Flags, may_be_implied: Flags
    ) -> Iterator[_Candidate]:
        """Yield the significant predicates; of those with the same counts, the plainest."""
        own = self._own
        theirs = self._predicates.counts(others.counts, others.weight)
        score = (own.shares - theirs.shares) * own.applies / self._size
        enough = np.flatnonzero(compared & (score >= _LEAST_SCORE))
        effective = theirs.applies * (others.effective / others.weight)
        found = evidence(
            own.shares[enough], own.applies[enough], theirs.shares[enough], effective[enough]
        )
        enough = enough[found >= self._context.needed]
        score = np.where(may_be_implied, score * _MAY_BE_IMPLIED, score)
        ranked = enough[np.argsort(-score[enough], kind="stable")]
        for same in self._with_same_counts(ranked, theirs):
            number = same[0]
            yield _Candidate(
                number,
                others,
                own_share=float(own.shares[number]),
                pooled_share=float(theirs.shares[number]),
                group_share=float(own.holds[number] / self._size),
                other_share=float(theirs.holds[number] / others.weight),
                score=float(score[number]),
                may_be_implied=bool(may_be_implied[number]),
                same_counts=tuple(same[1:_SAME_COUNTS]),
            )

    def _with_same_counts(self, ranked: Ints, theirs: Counts) -> Iterable[list[int]]:
        """Put predicates together that hold for as many messages in the group and elsewhere.

        They nearly always hold for the same messages: an id and a name, or the fields of an object.
        """
        together: dict[tuple[float, float], list[int]] = {}
        for number in map(int, ranked):
            key = (float(self._own.holds[number]), round(float(theirs.holds[number]), 6))
            if key in together or len(together) < _CANDIDATES:
                together.setdefault(key, []).append(number)
        for same in together.values():
            same.sort(key=self._plainness)
        return together.values()

    def _is_correlated(self, best: _Candidate, one: _Candidate) -> bool:
        return (
            one.may_be_implied == best.may_be_implied
            and one.group_share >= _SAME_MESSAGES * best.group_share
            and self._overlap(best, one) >= _SAME_MESSAGES
        )

    def _overlap(self, one: _Candidate, other: _Candidate) -> float:
        """Return the Jaccard index, among the messages to which both predicates apply."""
        rows = self._rows(one)
        predicates = self._predicates
        both = rows[predicates.applies(one.number)[rows] & predicates.applies(other.number)[rows]]
        return jaccard(predicates.holds(one.number)[both], predicates.holds(other.number)[both])

    def _rows(self, one: _Candidate) -> Ints:
        return np.concatenate([self._group.messages, one.others.messages])

    def _is_unusual(self, one: _Candidate) -> bool:
        """Return whether the median of the other groups differs too, not only their sum.

        At least half of the difference must be left. That a field is present must be unusual among
        all other groups, also where the group is compared with a part of them.
        """
        sample, rows = self._context.sample, one.others.messages
        if self._predicates.is_present[one.number]:
            rows = np.flatnonzero(sample.group_of != sample.group_of[self._group.messages[0]])
        groups, count = sample.group_of[rows], len(sample.groups)
        applies = np.bincount(groups[self._predicates.applies(one.number)[rows]], minlength=count)
        holds = np.bincount(groups[self._predicates.holds(one.number)[rows]], minlength=count)
        is_counted = applies >= _LEAST_MESSAGES
        if not is_counted.any():
            return True
        median = np.median(holds[is_counted] / applies[is_counted])
        return bool(one.own_share - median >= (one.own_share - one.pooled_share) / 2)

    def _adds_to(self, one: _Candidate, leads: Sequence[_Candidate]) -> bool:
        """Return whether the predicate adds something to each of these leads."""
        return all(
            self._overlap(one, lead) < _OVERLAP and self._is_significant_given(lead, one)
            for lead in leads
            if lead.may_be_implied == one.may_be_implied
        )

    def _is_significant_given(self, lead: _Candidate, one: _Candidate) -> bool:
        """Return whether the predicate is significant among messages that are alike in the lead.

        Messages with and without the lead are compared apart. If there are too few others to
        compare most of the group with, the predicate counts as significant.
        """
        own, others, weights = self._group.messages, one.others.messages, one.others.weights
        holds, with_lead = self._predicates.holds(one.number), self._predicates.holds(lead.number)
        total, alone = 0.0, 0
        for part in (with_lead, ~with_lead):
            mine, chosen = own[part[own]], part[others]
            if chosen.sum() < _LEAST_OTHERS:
                alone += len(mine)
            elif len(mine):
                weight = weights[chosen]
                share = holds[mine].mean()
                other_share = weight[holds[others[chosen]]].sum() / weight.sum()
                effective = weight.sum() ** 2 / (weight**2).sum()
                if share > other_share:
                    arrays = (np.array([x]) for x in (share, len(mine), other_share, effective))
                    total += float(evidence(*arrays)[0])
        return alone > self._size / 2 or total >= self._context.needed

    def _correlated(self, lead: _Candidate, same: Sequence[_Candidate]) -> list[int]:
        """Return predicates that hold for nearly the same messages, each about another field."""
        likely = list(lead.same_counts)
        for one in same:
            if one is not lead:
                likely += (one.number, *one.same_counts)
        rows = self._rows(lead)
        holds = self._predicates.holds(lead.number)[rows]
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
