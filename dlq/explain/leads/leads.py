"""Find the leads of each group: the sets of conditions that set it apart. Pure; numpy.

docs/analysis.md, "Leads", has the rules. Significance is a G-test (S. S. Wilks, 1938) with
Bonferroni's correction for all sets of this size of all groups. ``comparison`` chooses what a group
is compared with, and ``contrast`` ranks the sets.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np

from dlq.explain.findings import LEAST_GROUP, Lead
from dlq.explain.leads.causes import find_causes
from dlq.explain.leads.comparison import Comparisons, Others, Sample, SampledGroup
from dlq.explain.leads.contrast import (
    LEAST_PART,
    MAY_BE_IMPLIED,
    MOST_CONDITIONS,
    Contrast,
    Counted,
    balanced,
)
from dlq.explain.leads.features import (
    ELEMENT,
    INNER_JSON,
    MAGNITUDE,
    SIZE,
    STEP,
    VALUE,
    path_text,
)
from dlq.explain.leads.lead_format import lead_of
from dlq.explain.leads.predicates import Counts, Flags
from dlq.explain.signature.mask import Masks

LEADS = 5
CORRELATED = 3
"""At most so many correlated predicates are shown beside a condition."""

ALPHA = 0.01
"""The probability that a whole report without any cause shows a lead."""

_CONCLUSIVE = 0.97
"""If the others have so little of the sum of both shares, no other set is nearly as good."""

_NEARLY_AS_GOOD = 0.7
_LEAST_GAIN = 1.0
"""Nats that a further condition must tell to be worth it (H. Akaike, 1974)."""

_SAME_MESSAGES = 0.95
"""Predicates are correlated from this Jaccard index on."""

_ALL = 0.99

_NO_WEIGHT = 1e-6
"""What is left of a sum of weights that was subtracted from itself."""

_SAME_COUNTS = 20
_LEAST_PARTS, _MOST_PARTS, _MOST_MESSAGES = 24, 96, 8000
_LEAST_OF_A_VALUE = 20
"""A value that fewer messages have does not count as doing as well as another."""

_MOST_VALUES = 0.4
"""A condition is left out if more of its field's other values do as well."""

_AS_WELL = 0.5
_CLOCK = 0.1
"""A number grows with the time if so few messages of its time have another magnitude, of those
that would by chance."""


def find_leads(sample: Sample, wanted: Iterable[str], masks: Masks) -> dict[str, tuple[Lead, ...]]:
    """Return the leads of the groups with ids *wanted*: at most five each, the strongest first.

    Groups with fewer than ``LEAST_GROUP`` messages in the sample are left out.
    """
    groups = {one.group_id: one for one in sample.groups if len(one.messages) >= LEAST_GROUP}
    context = _Context(sample, len(groups), masks)
    return {one: tuple(_Search(context, groups[one]).leads()) for one in wanted if one in groups}


_Found = tuple[Contrast, Counted]


class _Context:
    """What the searches of all groups share."""

    def __init__(self, sample: Sample, groups: int, masks: Masks) -> None:
        self.sample, self.groups, self.masks = sample, groups, masks
        self.comparisons = Comparisons(sample)
        self.marks = np.random.default_rng(0).random(sample.table.messages)
        number = max(int(sample.table.is_predicate.sum()), 1)
        tests = [2 * groups * MOST_CONDITIONS * math.comb(number, n) for n in range(4)]
        # By the size of a set the evidence, in nats, from which on a difference is significant.
        self.needed = [math.log(max(one, 1) / ALPHA) for one in tests]
        self.causes = find_causes(sample.table, sample.groups, self.needed[1])


class _Search:
    """The search for the leads of one group."""

    def __init__(self, context: _Context, group: SampledGroup) -> None:
        self._context, self._group, self._size = context, group, len(group.messages)
        self._table = context.sample.table
        self._messages = group.messages[:_MOST_MESSAGES]
        self._own = self._table.counts(group.messages, np.ones(self._size))
        self._place = int(context.sample.group_of[group.messages[0]])
        self._left_out = context.causes.left_out(self._place)
        # Messages alike are chosen by the fields that they have: of a field that another group
        # lacks, they cannot tell how often it is there.
        is_value = np.append(~self._table.is_type, np.zeros(2 * len(self._table.paths), bool))
        lacked = context.causes.lacked_by_others(self._place)
        self._is_lacked = lacked[self._table.field_of] & ~is_value
        self._mark = self._table.counts(self._messages, context.marks[self._messages]).holds
        self._left = np.ones(self._table.messages, bool)

    def leads(self) -> Iterator[Lead]:
        compared = [made for given in self._comparisons() if (made := self._compared(*given))]
        chosen, alternatives = self._in_turn(compared)
        if chosen and (values := self._of_one_field(chosen)):
            chosen, alternatives = values, chosen + alternatives
        seen: list[Flags] = []
        for where, one in chosen + alternatives:
            rows, holds = where.rows, self._holds(where, one)
            if all(jaccard(holds[rows], earlier[rows]) < _ALL for earlier in seen):
                seen.append(holds)
                yield self._lead(where, one)
            if len(seen) == LEADS:
                break

    def _in_turn(self, compared: Sequence[Contrast]) -> tuple[list[_Found], list[_Found]]:
        """Return sets, each the best for messages that those before leave, and alternatives."""
        chosen, alternatives = list[_Found](), list[_Found]()
        while len(chosen) < LEADS:
            bests = [(place, best) for place in compared if (best := self._best(place))]
            if not bests:
                break
            where, (lead, others) = max(bests, key=lambda pair: pair[1][0].score)
            chosen.append((where, lead))
            alternatives += [(where, one) for one in others]
            self._left &= ~self._holds(where, lead)
        return chosen, alternatives

    def _of_one_field(self, chosen: Sequence[_Found]) -> list[_Found]:
        """Return values of one field, if they explain more together than the sets *chosen*.

        If two values of a field are causes, the messages of one hide how much the other tells, so
        the best set may be neither. Then the strongest value tells more of the messages left, too.
        """
        where, needed = chosen[0][0], self._context.needed[1]
        is_value = [self._table.predicate(one).tag[0] == VALUE for one in where.numbers.tolist()]
        values = where.best_values(np.flatnonzero(is_value), needed, LEADS)
        left, self._left = self._left[where.rows], np.ones(self._table.messages, bool)
        conditions = sum(len(one.conditions) for _, one in chosen)
        if (
            where.score_of_any(values) > where.joint_score(~left, conditions)
            and where.count(values[0].conditions, left).evidence >= needed
            and all(self._is_lead(where, one) for one in values)
        ):
            return [(where, one) for one in sorted(values, key=lambda one: -one.score)]
        return []

    def _holds(self, where: Contrast, one: Counted) -> Flags:
        return self._table.all_hold(where.numbers[[*one.conditions]])

    def _comparisons(self) -> Iterator[tuple[Others, Flags, Flags]]:
        """Compare with messages alike, and with all others as far as this makes sense.

        Each comparison has the other messages, the predicates to compare, and those that the shape
        of the group's messages may imply.

        A shape implies its *bound* predicates, so those of a group that is known by its shape are
        compared with similar shapes only, and count less. That a field is present is not a lead at
        all: the group's title lists the fields.
        """
        alike = self._alike()
        everybody = self._context.comparisons.all(self._group)
        shapes = self._context.sample.shapes[self._group.messages]
        bound = self._context.comparisons.bound_to(int(np.bincount(shapes).argmax()))
        everything = self._table.is_predicate
        may_be_implied = bound & (self._own.shares >= _ALL)
        if not self._group.is_by_shape:
            if alike:
                yield alike, everything, ~everything
            if everybody:
                yield everybody, everything, bound
        elif alike and alike.have_same_shape:
            yield alike, everything, may_be_implied
        else:
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
        lacking = self._context.causes.lacking(self._place)
        left_out = lacking[self._context.sample.group_of]
        without = self._context.comparisons.alike(self._group, left_out)
        return without or self._context.comparisons.alike(self._group)

    def _counts_of(self, others: Others) -> Counts:
        """Count *others* for each predicate, without the groups that its field is a cause of."""
        rows, weights = others.messages, others.weights
        counts = self._table.counts(rows, weights)
        holds, applies = counts.holds.copy(), counts.applies.copy()

        row_of = self._context.causes.row_of[self._context.sample.group_of[rows]]
        # Many groups are left out of the same predicates. NumPy would sort rows cell by cell.
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

    def _compared(self, others: Others, compared: Flags, implied: Flags) -> Contrast | None:
        """Build the matrix of the conditions that may make a difference; None if there are none."""
        own, theirs = self._own, self._counts_of(others)
        if others.are_alike:
            compared = compared & ~self._is_lacked
        is_frequent = own.holds >= max(LEAST_PART * self._size, 2)
        varies = np.minimum(own.shares, theirs.shares) < 1 - LEAST_PART
        has_no_others = self._left_out.any(axis=0) & (theirs.applies <= _NO_WEIGHT)
        usable = np.flatnonzero(compared & is_frequent & varies & ~has_no_others)
        if not len(usable):
            return None
        gain = balanced(own.shares[usable], theirs.shares[usable]) * own.applies[usable]
        usable = usable[np.argsort(-gain - 1e-3 * own.holds[usable], kind="stable")]
        # Predicates that hold for the same messages are one condition.
        marks = self._mark[usable] + math.pi * own.applies[usable]
        marks = marks + 1j * (theirs.holds[usable] + math.pi * theirs.applies[usable])
        equal = defaultdict[complex, list[int]](list)
        for number, mark in zip(usable.tolist(), marks.round(5).tolist(), strict=True):
            equal[mark].append(number)
        # Few messages are no evidence for a choice among many sets.
        same = list(equal.values())[: min(_MOST_PARTS, _LEAST_PARTS + self._size // 10)]
        conditions, ones = np.array([one[0] for one in same]), np.ones(len(self._messages))
        rows = np.append(self._messages, others.messages)
        holds, applies = (
            np.array([of(one)[rows] for one in conditions.tolist()], np.float32)
            for of in (self._table.holds, self._table.applies)
        )
        # A message of a group that the field is a cause of says nothing about the condition.
        row_of = self._context.causes.row_of[self._context.sample.group_of[rows]]
        is_left_out = self._left_out[:, conditions][row_of].T
        holds[is_left_out] = 0
        applies[is_left_out] = 0
        return Contrast(
            others,
            rows,
            is_own=np.arange(len(rows)) < len(ones),
            weights=np.append(ones, others.weights / others.weights.sum()).astype(np.float32),
            numbers=conditions,
            same=same,
            may_be_implied=implied[conditions],
            field=self._table.field_of[conditions],
            holds=holds,
            applies=applies,
        )

    def _best(self, where: Contrast) -> tuple[Counted, list[Counted]] | None:
        """Return the best set among the messages left, and others that are nearly as good."""
        left = self._left[where.rows]
        if (left & where.is_own).sum() < LEAST_GROUP or not (left & ~where.is_own).any():
            return None
        ranked = where.ranked(left, self._context.needed)
        place = next((n for n, one in enumerate(ranked) if self._is_lead(where, one)), None)
        if place is None:
            return None
        best, others = self._generalized(where, ranked[place]), list[Counted]()
        if best.own_share < _CONCLUSIVE * (best.own_share + best.other_share):
            # Last comes what tells more than the best, but by a condition that is not significant.
            for some, least in ((ranked[place:], None), (ranked[:place], _LEAST_GAIN)):
                others += [
                    other
                    for other in some
                    if other.score >= _NEARLY_AS_GOOD * best.score
                    and other.conditions != best.conditions
                    and self._is_lead(where, other, least)
                ]
        return best, others[:LEADS]

    def _is_lead(self, where: Contrast, one: Counted, least: float | None = None) -> bool:
        """Return whether a set is a lead; *least* nats are needed of a condition, see there."""
        in_all = where.count(one.conditions, np.ones(len(where.rows), bool))
        return (
            in_all.own_share > in_all.other_share
            and all(self._is_needed(where, one, which, least) for which in one.conditions)
            and not any(self._is_clock(where, which) for which in one.conditions)
        )

    def _is_needed(self, where: Contrast, one: Counted, which: int, least: float | None) -> bool:
        """Return whether a condition tells enough among messages with the others of the set.

        That is *least* nats, or else what is significant.
        """
        rest = [other for other in one.conditions if other != which]
        inside = where.count((which,), self._left[where.rows] & where.hold(rest))
        tests = 2 * self._context.groups * len(where.numbers)
        return inside.evidence >= (math.log(tests / ALPHA) if least is None else least)

    def _generalized(self, where: Contrast, one: Counted) -> Counted:
        """Leave out conditions while most other values of the field do as well."""
        while len(one.conditions) > 1:
            breadth = {which: self._breadth(where, one, which) for which in one.conditions}
            widest = max(breadth, key=lambda which: breadth[which])
            if breadth[widest] <= _MOST_VALUES:
                break
            rest = tuple(other for other in one.conditions if other != widest)
            one = where.count(rest, self._left[where.rows])
        return one

    def _breadth(self, where: Contrast, one: Counted, which: int) -> float:
        """Return the share of the other values of a condition's field that do as well as its own.

        The odds of the group among messages with the rest of the set must be nearer to those of the
        condition's value than to those outside of the rest; on a logarithmic scale.
        """
        number = int(where.numbers[which])
        values = self._table.values_of(number)
        left = self._left[where.rows]
        is_in = where.hold([other for other in one.conditions if other != which])
        weights = np.where(where.is_own, 1.0, where.weights * where.others.effective)
        held, other_held = (
            self._table.counts(where.rows[inside], weights[inside]).holds[values]
            for inside in (left & is_in & where.is_own, left & is_in & ~where.is_own)
        )
        out, other_out = (
            weights[left & ~is_in & part].sum() for part in (where.is_own, ~where.is_own)
        )
        odds = np.log((held + 0.5) / (other_held + 0.5))
        outside = math.log((out + 0.5) / (other_out + 0.5))
        is_other = (values != number) & (held + other_held >= _LEAST_OF_A_VALUE)
        enough = outside + _AS_WELL * (odds[values == number] - outside)
        as_well = odds[is_other] >= enough
        # A single other value may be another cause.
        return float(as_well.mean()) if as_well.sum() > 1 else 0.0

    def _is_clock(self, where: Contrast, which: int) -> bool:
        """Return whether the condition is a magnitude of a number that grows with the time."""
        path, tag = self._table.predicate(int(where.numbers[which]))
        if not tag.startswith(MAGNITUDE) or path == SIZE:
            return False
        times = self._context.sample.times[where.rows]
        is_known = (where.applies[which] > 0) & ~np.isnan(times)
        times, holds = times[is_known], where.holds[which, is_known] > 0
        if holds.all() or not holds.any():
            return False
        first, last = np.quantile(times[holds], [0.05, 0.95])
        is_then = (times >= first) & (times <= last)
        return bool((~holds[is_then]).mean() <= _CLOCK * (~holds).mean())

    def _lead(self, where: Contrast, one: Counted) -> Lead:
        rows, own = where.others.messages, self._group.messages
        weights = where.weights[~where.is_own]

        def shares(numbers: Sequence[int]) -> tuple[float, float]:
            holds = self._table.all_hold(numbers)
            return float(holds[own].mean()), float(weights[holds[rows]].sum())

        same = [self._correlated(where, which) for which in one.conditions]
        is_implied = where.may_be_implied[list(one.conditions)].any()
        return lead_of(
            [
                ([self._table.predicate(n) for n in numbers], shares(numbers[:1]))
                for numbers in same
            ],
            shares([numbers[0] for numbers in same]),
            MAY_BE_IMPLIED if is_implied else 1.0,
            self._context.masks,
            others_alike=where.others.are_alike,
        )

    def _correlated(self, where: Contrast, which: int) -> list[int]:
        """Return the predicates that hold for nearly the same messages, the plainest first."""
        rows, mine, applies = where.rows, where.holds[which] > 0, where.applies > 0
        both = applies & applies[which]
        likely = [
            where.same[n][:_SAME_COUNTS]
            for n in np.flatnonzero(where.may_be_implied == where.may_be_implied[which]).tolist()
            if jaccard(mine[both[n]], where.holds[n, both[n]] > 0) >= _SAME_MESSAGES
        ]
        chosen = dict[str, int]()
        for number in sorted(chain(*likely), key=self._plainness):
            path = self._table.predicate(number).path
            is_inside = any(_is_same_place(path, other) for other in chosen)
            if not is_inside and (
                not chosen or jaccard(mine, self._table.holds(number)[rows]) >= _SAME_MESSAGES
            ):
                chosen[path] = number
        return list(chosen.values())[: 1 + CORRELATED]

    def _plainness(self, number: int) -> tuple[bool, bool, bool, int, int, str]:
        """Sort key, the easiest to read first: a value, no link, no number, few steps, short."""
        path, tag = self._table.predicate(number)
        shown, text = path_text(path), tag[1:]
        return (
            not tag.startswith(VALUE),
            "/" in text or "@" in text,
            text.lstrip("-").isdecimal(),
            path.count(STEP),
            len(shown) + len(text),
            shown,
        )


def jaccard(first: Flags, second: Flags) -> float:
    """Return the Jaccard index of two sets of messages: those in both by those in either."""
    return float((first & second).sum() / max((first | second).sum(), 1))


def _is_same_place(path: str, other: str) -> bool:
    """Return whether one field is the other one, or inside it."""
    short, long = sorted((path, other), key=len)
    return long.startswith(short) and long[len(short) :][:1] in ("", STEP, ELEMENT, INNER_JSON)
