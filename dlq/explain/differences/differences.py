"""Find the differences of each group: the sets of conditions that set it apart. Pure; numpy.

docs/analysis.md, "Differences", has the rules. Significance is a G-test (S. S. Wilks, 1938) with
Bonferroni's correction for all sets of this size of all groups. ``comparison`` chooses what a group
is compared with, and ``contrast`` ranks the sets.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dlq.explain.differences.causes import find_causes
from dlq.explain.differences.comparison import Comparisons, Others, SampledGroup, SampledMessages
from dlq.explain.differences.contrast import (
    LEAST_PART,
    MAY_BE_IMPLIED,
    MOST_CONDITIONS,
    Contrast,
    Counted,
    balanced,
)
from dlq.explain.differences.difference_format import difference_of
from dlq.explain.differences.features import (
    ELEMENT,
    INNER_JSON,
    MAGNITUDE,
    SIZE,
    STEP,
    VALUE,
    path_text,
)
from dlq.explain.differences.predicates import Cells, Counts, Flags, Floats, Ints
from dlq.explain.findings import LEAST_GROUP, Difference
from dlq.explain.signature.mask import Masks

DIFFERENCES = 5
CORRELATED = 3
"""At most this number of correlated predicates is shown beside a condition."""

ALPHA = 0.01
"""The probability that a whole report without any cause shows a difference."""

_CONCLUSIVE = 0.97
"""If the group has this share of the sum of both shares, no other set is nearly as good."""

_NEARLY_AS_GOOD = 0.7
_LEAST_GAIN = 1.0
"""Nats of evidence that make a further condition worth it (H. Akaike, 1974)."""

_SAME_MESSAGES = 0.95
"""Predicates are correlated from this Jaccard index on."""

_ALL = 0.99

_NO_WEIGHT = 1e-6
"""A sum of weights from which all its weights were subtracted may differ from 0 by this."""

_SAME_COUNTS = 20
_LEAST_PARTS = 24
_MOST_PARTS = 96
_MOST_MESSAGES = 8000
_LEAST_OF_A_VALUE = 20
"""A value that fewer messages have does not count as doing as well as another."""

_MOST_VALUES = 0.4
"""A condition is left out if more of its field's other values do as well."""

_AS_WELL = 0.5
_CLOCK = 0.1
"""A number grows with the time if few messages of its time have another magnitude: at most this
share of those that would by chance."""


def find_differences(
    sample: SampledMessages, wanted: Iterable[str], masks: Masks, other_groups: int = 0
) -> dict[str, tuple[Difference, ...]]:
    """Return the differences of the groups with ids *wanted*: at most five each, strongest first.

    Groups with fewer than ``LEAST_GROUP`` messages in the sample are left out. *other_groups* are
    those of the report that are searched apart: the correction counts them, too.
    """
    large = [group for group in sample.groups if len(group.messages) >= LEAST_GROUP]
    groups = {group.group_id: group for group in large}
    context = _Context(sample, len(groups) + other_groups, masks)

    differences = {}
    for group_id in wanted:
        if group_id in groups:
            search = _Search(context, groups[group_id])
            differences[group_id] = tuple(search.differences())
    return differences


class _Candidate(NamedTuple):
    """A set of conditions that may be a difference, and the contrast in which it was counted."""

    contrast: Contrast
    counted: Counted


class _Context:
    """State that the searches of all groups share."""

    def __init__(self, sample: SampledMessages, groups: int, masks: Masks) -> None:
        self.sample = sample
        self.groups = groups
        self.masks = masks
        self.comparisons = Comparisons(sample)
        self.marks = np.random.default_rng(0).random(sample.table.messages)

        # By the size of a set the evidence, in nats, from which on a difference is significant.
        self.needed: list[float] = []
        predicates = max(int(sample.table.is_predicate.sum()), 1)
        for size in range(MOST_CONDITIONS + 1):
            tests = 2 * groups * MOST_CONDITIONS * math.comb(predicates, size)
            self.needed.append(math.log(max(tests, 1) / ALPHA))
        self.causes = find_causes(sample.table, sample.groups, self.needed[1])


class _Search:
    """The search for the differences of one group."""

    def __init__(self, context: _Context, group: SampledGroup) -> None:
        self._context = context
        self._group = group
        self._size = len(group.messages)
        self._table = context.sample.table
        self._messages = group.messages[:_MOST_MESSAGES]
        self._own = self._table.counts(group.messages, np.ones(self._size))
        self._mark = self._table.counts(self._messages, context.marks[self._messages]).holds
        self._left = np.ones(self._table.messages, bool)

        self._number = int(context.sample.group_of[group.messages[0]])
        self._left_out = context.causes.left_out(self._number)
        # Messages alike are chosen by the fields that they have. So they cannot show how often a
        # field that another group lacks is there.
        is_value = np.append(~self._table.is_type, np.zeros(2 * len(self._table.paths), bool))
        lacked = context.causes.lacked_by_others(self._number)
        self._is_lacked = lacked[self._table.field_of] & ~is_value

    def differences(self) -> Iterator[Difference]:
        contrasts = []
        for others, compared, implied in self._comparisons():
            contrast = self._contrast(others, compared, implied)
            if contrast is not None:
                contrasts.append(contrast)

        chosen, alternatives = self._in_turn(contrasts)
        values = self._of_one_field(chosen) if chosen else []
        if values:
            alternatives = chosen + alternatives
            chosen = values

        seen: list[Flags] = []
        for candidate in chosen + alternatives:
            rows = candidate.contrast.rows
            holds = self._holds(candidate)
            if all(jaccard(holds[rows], earlier[rows]) < _ALL for earlier in seen):
                seen.append(holds)
                yield self._difference(candidate)
            if len(seen) == DIFFERENCES:
                break

    def _in_turn(self, contrasts: Sequence[Contrast]) -> tuple[list[_Candidate], list[_Candidate]]:
        """Return sets, each the best for messages that those before leave, and alternatives."""
        chosen = list[_Candidate]()
        alternatives = list[_Candidate]()
        while len(chosen) < DIFFERENCES:
            bests = list(filter(None, map(self._best, contrasts)))
            if not bests:
                break
            difference, *others = max(bests, key=lambda candidates: candidates[0].counted.score)
            chosen.append(difference)
            alternatives += others
            self._left &= ~self._holds(difference)
        return chosen, alternatives

    def _of_one_field(self, chosen: Sequence[_Candidate]) -> list[_Candidate]:
        """Return values of one field, if they explain more together than the sets *chosen*.

        If two values of a field are causes, the messages of one hide how much the other tells, so
        the best set may be neither. Then the strongest value tells more of the messages left, too.
        """
        contrast = chosen[0].contrast
        needed = self._context.needed[1]
        numbers = contrast.numbers.tolist()
        is_value = [self._table.predicate(number).tag[0] == VALUE for number in numbers]
        values = contrast.best_values(np.flatnonzero(is_value), needed, DIFFERENCES)

        left = self._left[contrast.rows]
        self._left = np.ones(self._table.messages, bool)
        conditions = sum(len(candidate.counted.conditions) for candidate in chosen)
        if (
            contrast.score_of_any(values) > contrast.joint_score(~left, conditions)
            and contrast.count(values[0].conditions, left).evidence >= needed
            and all(self._is_difference(contrast, value) for value in values)
        ):
            values.sort(key=lambda value: -value.score)
            return [_Candidate(contrast, value) for value in values]
        return []

    def _holds(self, candidate: _Candidate) -> Flags:
        numbers = candidate.contrast.numbers[[*candidate.counted.conditions]]
        return self._table.all_hold(numbers)

    def _comparisons(self) -> Iterator[tuple[Others, Flags, Flags]]:
        """Compare with messages alike, and with all others as far as this makes sense.

        Each comparison has the other messages, the predicates to compare, and those that the shape
        of the group's messages may imply.

        A shape implies its *bound* predicates, so those of a group that is known by its shape are
        compared with similar shapes only, and count less. That a field is present is not a
        difference at all: the group's title lists the fields.
        """
        alike = self._alike()
        everybody = self._context.comparisons.all(self._group)
        shapes = self._context.sample.shapes[self._group.messages]
        most_frequent_shape = int(np.bincount(shapes).argmax())
        bound = self._context.comparisons.bound_to(most_frequent_shape)
        everything = self._table.is_predicate

        if not self._group.is_by_shape:
            if alike:
                yield alike, everything, ~everything
            if everybody:
                yield everybody, everything, bound
            return

        may_be_implied = bound & (self._own.shares >= _ALL)
        if alike and alike.have_same_shape:
            yield alike, everything, may_be_implied
            return

        is_present = np.zeros(len(everything), bool)
        is_present[len(self._table.tags) : -len(self._table.paths)] = True
        compared = everything & ~is_present
        if alike:
            yield alike, compared & bound, may_be_implied
            compared = compared & ~bound
        if everybody:
            # What holds for all of the group and for nobody else, its shape may imply.
            theirs = self._table.counts(everybody.messages, everybody.weights).holds
            is_in_all = self._own.holds >= _ALL * self._size
            is_exclusive = is_in_all & (theirs <= (1 - _ALL) * everybody.weights.sum())
            yield everybody, compared, may_be_implied | is_exclusive

    def _alike(self) -> Others | None:
        """Return the messages alike, if possible without groups that lack a field and so fail.

        Messages alike are weighted by shape, and each such group is a shape of its own: if only
        some conditions left it out, the shapes would not count as much as they should.
        """
        lacking = self._context.causes.lacking(self._number)
        left_out = lacking[self._context.sample.group_of]
        without = self._context.comparisons.alike(self._group, left_out)
        return without or self._context.comparisons.alike(self._group)

    def _counts_of(self, others: Others) -> Counts:
        """Count *others* for each predicate, without the groups that its field is a cause of."""
        rows = others.messages
        weights = others.weights
        counts = self._table.counts(rows, weights)
        holds = counts.holds.copy()
        applies = counts.applies.copy()

        row_of = self._context.causes.row_of[self._context.sample.group_of[rows]]
        # Many groups are left out of the same predicates. As bytes, equal rows are found far more
        # quickly: NumPy would sort them cell by cell.
        packed = np.packbits(self._left_out, axis=1)
        as_bytes = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
        _, first, mask_of = np.unique(as_bytes, return_index=True, return_inverse=True)
        masks = self._left_out[first]
        for number in np.flatnonzero(masks.any(axis=1)).tolist():
            is_masked = (mask_of == number)[row_of]
            part = self._table.counts(rows[is_masked], weights[is_masked])
            left_out = masks[number]
            holds[left_out] -= part.holds[left_out]
            applies[left_out] -= part.applies[left_out]
        return Counts(np.maximum(holds, 0.0), np.maximum(applies, 0.0))

    def _contrast(self, others: Others, compared: Flags, implied: Flags) -> Contrast | None:
        """Build the matrix of the conditions that may make a difference; None if there are none."""
        if others.are_alike:
            compared = compared & ~self._is_lacked
        theirs = self._counts_of(others)
        usable = self._usable(theirs, compared)
        if not len(usable):
            return None

        same = self._conditions(usable, theirs)
        numbers = np.array([predicates[0] for predicates in same])
        rows = np.append(self._messages, others.messages)
        holds = _cells(self._table.holds, numbers, rows)
        applies = _cells(self._table.applies, numbers, rows)
        # A message of a group that the field is a cause of says nothing about the condition.
        row_of = self._context.causes.row_of[self._context.sample.group_of[rows]]
        is_left_out = self._left_out[:, numbers][row_of].T
        holds[is_left_out] = 0
        applies[is_left_out] = 0

        own_weights = np.ones(len(self._messages))
        other_weights = others.weights / others.weights.sum()
        return Contrast(
            others,
            rows,
            is_own=np.arange(len(rows)) < len(self._messages),
            weights=np.append(own_weights, other_weights).astype(np.float32),
            numbers=numbers,
            same=same,
            may_be_implied=implied[numbers],
            field=self._table.field_of[numbers],
            holds=holds,
            applies=applies,
        )

    def _usable(self, theirs: Counts, compared: Flags) -> Ints:
        """Return the predicates that may make a difference, the most promising first."""
        own = self._own
        is_frequent = own.holds >= max(LEAST_PART * self._size, 2)
        varies = np.minimum(own.shares, theirs.shares) < 1 - LEAST_PART
        has_no_others = self._left_out.any(axis=0) & (theirs.applies <= _NO_WEIGHT)
        usable = np.flatnonzero(compared & is_frequent & varies & ~has_no_others)

        gain = balanced(own.shares[usable], theirs.shares[usable]) * own.applies[usable]
        return usable[np.argsort(-gain - 1e-3 * own.holds[usable], kind="stable")]

    def _conditions(self, usable: Ints, theirs: Counts) -> list[list[int]]:
        """Return the predicates of each condition: those that hold for the same messages."""
        own_marks = self._mark[usable] + math.pi * self._own.applies[usable]
        their_marks = theirs.holds[usable] + math.pi * theirs.applies[usable]
        marks = own_marks + 1j * their_marks

        by_mark = defaultdict[complex, list[int]](list)
        for number, mark in zip(usable.tolist(), marks.round(5).tolist(), strict=True):
            by_mark[mark].append(number)
        # Few messages are no evidence for a choice among many sets.
        most = min(_MOST_PARTS, _LEAST_PARTS + self._size // 10)
        return list(by_mark.values())[:most]

    def _best(self, contrast: Contrast) -> list[_Candidate]:
        """Return the best set among the messages left, then others that are nearly as good."""
        left = self._left[contrast.rows]
        if (left & contrast.is_own).sum() < LEAST_GROUP or not (left & ~contrast.is_own).any():
            return []

        ranked = contrast.ranked(left, self._context.needed)
        first = 0
        while first < len(ranked) and not self._is_difference(contrast, ranked[first]):
            first += 1
        if first == len(ranked):
            return []

        best = self._generalized(contrast, ranked[first])
        others = list[Counted]()
        if best.own_share < _CONCLUSIVE * (best.own_share + best.other_share):
            others += self._nearly_as_good(contrast, best, ranked[first:])
            # Last the sets with more evidence than the best, but with a condition that is not
            # significant.
            others += self._nearly_as_good(contrast, best, ranked[:first], _LEAST_GAIN)
        return [_Candidate(contrast, counted) for counted in (best, *others[:DIFFERENCES])]

    def _nearly_as_good(
        self,
        contrast: Contrast,
        best: Counted,
        ranked: Sequence[Counted],
        least_nats: float | None = None,
    ) -> Iterator[Counted]:
        for other in ranked:
            is_good = other.score >= _NEARLY_AS_GOOD * best.score
            is_other = other.conditions != best.conditions
            if is_good and is_other and self._is_difference(contrast, other, least_nats):
                yield other

    def _is_difference(
        self, contrast: Contrast, counted: Counted, least_nats: float | None = None
    ) -> bool:
        """Return whether a set is a difference; *least_nats* as for ``_is_needed``."""
        in_all = contrast.count(counted.conditions, np.ones(len(contrast.rows), bool))
        if in_all.own_share <= in_all.other_share:
            return False
        for condition in counted.conditions:
            if not self._is_needed(contrast, counted, condition, least_nats):
                return False
        return not any(self._is_clock(contrast, condition) for condition in counted.conditions)

    def _is_needed(
        self, contrast: Contrast, counted: Counted, condition: int, least_nats: float | None
    ) -> bool:
        """Return whether a condition adds enough evidence, among messages with the set's others.

        Enough is *least_nats*; with None it is what is significant.
        """
        has_rest = contrast.hold(counted.without(condition))
        inside = contrast.count((condition,), self._left[contrast.rows] & has_rest)
        tests = 2 * self._context.groups * len(contrast.numbers)
        needed = math.log(tests / ALPHA) if least_nats is None else least_nats
        return inside.evidence >= needed

    def _generalized(self, contrast: Contrast, counted: Counted) -> Counted:
        """Leave out conditions while most other values of the field do as well."""
        while len(counted.conditions) > 1:
            breadth = {}
            for condition in counted.conditions:
                breadth[condition] = self._breadth(contrast, counted, condition)
            widest = max(breadth, key=breadth.__getitem__)
            if breadth[widest] <= _MOST_VALUES:
                break
            counted = contrast.count(counted.without(widest), self._left[contrast.rows])
        return counted

    def _breadth(self, contrast: Contrast, counted: Counted, condition: int) -> float:
        """Return the share of the other values of a condition's field that do as well as its own.

        The odds of the group among messages with the rest of the set must be nearer to those of the
        condition's value than to those outside of the rest; on a logarithmic scale.
        """
        number = int(contrast.numbers[condition])
        values = self._table.values_of(number)
        left = self._left[contrast.rows]
        has_rest = contrast.hold(counted.without(condition))
        own = left & contrast.is_own
        other = left & ~contrast.is_own
        weights = np.where(contrast.is_own, 1.0, contrast.weights * contrast.others.effective)

        def count_values(messages: Flags) -> Floats:
            counts = self._table.counts(contrast.rows[messages], weights[messages])
            return np.asarray(counts.holds[values])

        own_counts = count_values(own & has_rest)
        other_counts = count_values(other & has_rest)
        odds = np.log((own_counts + 0.5) / (other_counts + 0.5))
        own_outside = weights[own & ~has_rest].sum()
        other_outside = weights[other & ~has_rest].sum()
        odds_outside = math.log((own_outside + 0.5) / (other_outside + 0.5))

        is_other_value = (values != number) & (own_counts + other_counts >= _LEAST_OF_A_VALUE)
        enough = odds_outside + _AS_WELL * (odds[values == number] - odds_outside)
        does_as_well = odds[is_other_value] >= enough
        # A single other value may be another cause.
        return float(does_as_well.mean()) if does_as_well.sum() > 1 else 0.0

    def _is_clock(self, contrast: Contrast, condition: int) -> bool:
        """Return whether the condition is a magnitude of a number that grows with the time."""
        path, tag = self._table.predicate(int(contrast.numbers[condition]))
        if not tag.startswith(MAGNITUDE) or path == SIZE:
            return False

        all_times = self._context.sample.times[contrast.rows]
        is_dated = (contrast.applies[condition] > 0) & ~np.isnan(all_times)
        times = all_times[is_dated]
        holds = contrast.holds[condition, is_dated] > 0
        if holds.all() or not holds.any():
            return False

        first, last = np.quantile(times[holds], [0.05, 0.95])
        is_then = (times >= first) & (times <= last)
        return bool((~holds[is_then]).mean() <= _CLOCK * (~holds).mean())

    def _difference(self, candidate: _Candidate) -> Difference:
        contrast, counted = candidate
        conditions = []
        plainest = []
        for condition in counted.conditions:
            numbers = self._correlated(contrast, condition)
            predicates = list(map(self._table.predicate, numbers))
            conditions.append((predicates, self._shares(contrast, numbers[:1])))
            plainest.append(numbers[0])

        is_implied = contrast.may_be_implied[list(counted.conditions)].any()
        return difference_of(
            conditions,
            self._shares(contrast, plainest),
            MAY_BE_IMPLIED if is_implied else 1.0,
            self._context.masks,
            others_alike=contrast.others.are_alike,
        )

    def _shares(self, contrast: Contrast, numbers: Sequence[int]) -> tuple[float, float]:
        """Return the shares of the group and of the others for which all these predicates hold."""
        holds = self._table.all_hold(numbers)
        own_share = holds[self._group.messages].mean()
        other_weights = contrast.weights[~contrast.is_own]
        other_share = other_weights[holds[contrast.others.messages]].sum()
        return float(own_share), float(other_share)

    def _correlated(self, contrast: Contrast, condition: int) -> list[int]:
        """Return the predicates that hold for nearly the same messages, the plainest first."""
        holds = contrast.holds > 0
        applies = contrast.applies > 0
        may_be_implied = contrast.may_be_implied
        likely: list[int] = []
        for other in np.flatnonzero(may_be_implied == may_be_implied[condition]).tolist():
            both = applies[other] & applies[condition]
            if jaccard(holds[condition, both], holds[other, both]) >= _SAME_MESSAGES:
                likely += contrast.same[other][:_SAME_COUNTS]

        chosen = dict[str, int]()
        for number in sorted(likely, key=self._plainness):
            path = self._table.predicate(number).path
            if any(_is_same_place(path, other_path) for other_path in chosen):
                continue
            holds_here = self._table.holds(number)[contrast.rows]
            if not chosen or jaccard(holds[condition], holds_here) >= _SAME_MESSAGES:
                chosen[path] = number
        return list(chosen.values())[: 1 + CORRELATED]

    def _plainness(self, number: int) -> tuple[bool, bool, bool, int, int, str]:
        """Sort key, the easiest to read first: a value, no link, no number, few steps, short."""
        path, tag = self._table.predicate(number)
        shown_path = path_text(path)
        text = tag[1:]
        return (
            not tag.startswith(VALUE),
            "/" in text or "@" in text,
            text.lstrip("-").isdecimal(),
            path.count(STEP),
            len(shown_path) + len(text),
            shown_path,
        )


def _cells(flags_of: Callable[[int], Flags], numbers: Ints, rows: Ints) -> Cells:
    return np.array([flags_of(number)[rows] for number in numbers.tolist()], np.float32)


def jaccard(first: Flags, second: Flags) -> float:
    """Return the Jaccard index of two sets of messages: those in both by those in either."""
    return float((first & second).sum() / max((first | second).sum(), 1))


def _is_same_place(path: str, other: str) -> bool:
    """Return whether one field is the other one, or inside it."""
    short, long = sorted((path, other), key=len)
    return long.startswith(short) and long[len(short) :][:1] in ("", STEP, ELEMENT, INNER_JSON)
