"""Search sets of one to three conditions that set a group's messages apart. Pure; numpy.

The input is a matrix: for each condition and message, whether the condition holds and whether it
applies. All pairs are counted, and all triples that contain one of the best pairs. Decision 0009
says why.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dlq.explain.differences.comparison import Others
from dlq.explain.differences.predicates import Cells, Flags, Floats, Ints

MOST_CONDITIONS = 3

_BEAM = 24
"""Pairs that are extended by a third condition."""

_RANKED = 60
_LEAST_SCORE = 0.1
LEAST_PART = 0.02
_EXCLUSIVE = 0.9
"""If the group has this share of the sum of both shares, the set holds for hardly any others."""

_LONGER = 0.985
"""The score of a set is reduced by this factor for each further condition."""

MAY_BE_IMPLIED = 1 / 3
"""A set that the shape of a group's messages may imply counts for a third."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A set of conditions, and how often it holds.

    Attributes:
        conditions: their rows in the matrix, ascending.
        score: for ranking, see ``balanced``; it grows with the square of the difference.
        own_share: share of the group's messages to which the set applies.
        other_share: the same of the others, weighted.
        evidence: in nats; 0 if the others have it more often.
    """

    conditions: tuple[int, ...]
    score: float
    own_share: float
    other_share: float
    evidence: float

    def without(self, condition: int) -> tuple[int, ...]:
        """Return the other conditions of the set."""
        return tuple(other for other in self.conditions if other != condition)


@dataclass(frozen=True, slots=True)
class Contrast:
    """The conditions, as a matrix over a group's messages and over others.

    Attributes:
        others: the messages that the group is compared with.
        rows: the messages in the matrix: the group's, then the others.
        is_own: whether each message is the group's.
        weights: of the group's messages 1, of each other message its share of all others.
        numbers: the predicate of each condition.
        same: the predicates that hold for just the messages of each condition.
        may_be_implied: whether the shape may imply each condition.
        field: of each condition; two conditions about one field are not combined.
        holds, applies: 1 or 0, by condition and message.
    """

    others: Others
    rows: Ints
    is_own: Flags
    weights: Cells
    numbers: Ints
    same: Sequence[list[int]]
    may_be_implied: Flags
    field: Ints
    holds: Cells
    applies: Cells

    def hold(self, conditions: Sequence[int]) -> Flags:
        """Return for each message whether all of these conditions hold."""
        return np.asarray(self.holds[list(conditions)].all(0))

    def count(self, conditions: Sequence[int], among: Flags) -> Counted:
        """Count one set of conditions among these messages."""
        holds = self.hold(conditions) & among
        applies = np.asarray(self.applies[list(conditions)].all(0)) & among
        counts = np.array(
            [
                self._weight(holds & self.is_own),
                self._weight(applies & self.is_own),
                self._weight(holds & ~self.is_own),
                self._weight(applies & ~self.is_own),
            ]
        )
        own = int((among & self.is_own).sum())
        sets = np.array([conditions])
        return _counted(sets, self._statistics(sets, counts[:, None], own))[0]

    def _weight(self, messages: Flags) -> float:
        return float(self.weights[messages].sum())

    def joint_score(self, held: Flags, conditions: int) -> float:
        """Return the score of several differences together.

        Args:
            held: the messages for which at least one of them holds.
            conditions: the number of conditions of all of them.
        """
        is_other = ~self.is_own
        own_share = self.weights[held & self.is_own].sum() / self.weights[self.is_own].sum()
        other_share = self.weights[held & is_other].sum() / self.weights[is_other].sum()
        score = balanced(np.array([own_share], np.float64), np.array([other_share], np.float64))
        return float(score[0]) * _LONGER ** (conditions - 1)

    def best_values(self, values: Ints, needed: float, most: int) -> list[Counted]:
        """Return those of *values* of one field that explain the most together, *most* at most.

        Those come first that the others have least, as in a decision tree that splits a field of
        many values (L. Breiman, 1984).
        """
        own_weights = self.weights * self.is_own
        other_weights = self.weights * ~self.is_own
        holds = self.holds[values]
        applies = self.applies[values]
        counts = [
            holds @ own_weights,
            applies @ own_weights,
            holds @ other_weights,
            applies @ other_weights,
        ]
        sets = values[:, None]
        statistics = self._statistics(
            sets, np.stack(counts, dtype=np.float64), int(self.is_own.sum())
        )
        counted = _counted(sets, statistics)
        significant = [value for value in counted if value.evidence >= needed]
        significant.sort(key=lambda value: value.other_share / value.own_share)

        by_field = defaultdict[int, list[Counted]](list)
        for value in significant:
            field = self.field[value.conditions[0]]
            by_field[int(field)].append(value)

        choices: list[list[Counted]] = []
        for values_of_field in by_field.values():
            longest = min(len(values_of_field), most)
            choices += [values_of_field[:length] for length in range(2, longest + 1)]
        return max(choices, key=self.score_of_any, default=[])

    def score_of_any(self, values: Sequence[Counted]) -> float:
        """Return the joint score of single conditions."""
        conditions = [value.conditions[0] for value in values]
        held = self.holds[conditions].any(0)
        return self.joint_score(np.asarray(held), len(values))

    def ranked(self, among: Flags, needed: Sequence[float]) -> list[Counted]:
        """Return the sets that make a significant difference among these messages, the best first.

        *needed* is the evidence that a set needs, by its number of conditions.
        """
        own = int((among & self.is_own).sum())
        matrices = self._matrices(among, own)
        singles = np.arange(len(self.field))[:, None]
        counts = [matrix.count_singles() for matrix in matrices]
        significant, _ = self._significant(singles, counts, own, needed)

        can_join = self.field[:, None] != self.field
        pairs = np.argwhere(np.triu(can_join, 1))
        if len(pairs):
            counts = [matrix.count_pairs(pairs) for matrix in matrices]
            significant_pairs, best_pairs = self._significant(pairs, counts, own, needed)

            triples, places = _triples(best_pairs, can_join)
            counts = [matrix.count_triples(best_pairs, places) for matrix in matrices]
            significant_triples, _ = self._significant(triples, counts, own, needed)
            significant += significant_pairs + significant_triples
        return sorted(significant, key=lambda counted: -counted.score)

    def _matrices(self, among: Flags, own: int) -> "list[_Matrix]":
        """Return where conditions hold and apply: of the group's messages, then of the others.

        *own* is the number of the group's messages in *among*.
        """
        holds = self.holds
        applies = self.applies
        weights = self.weights
        if not among.all():
            holds = holds[:, among]
            applies = applies[:, among]
            weights = weights[among]
        return [
            _Matrix(holds[:, :own], weights[:own]),
            _Matrix(applies[:, :own], weights[:own]),
            _Matrix(holds[:, own:], weights[own:]),
            _Matrix(applies[:, own:], weights[own:]),
        ]

    def _significant(
        self, sets: Ints, counts: Sequence[Cells], own: int, needed: Sequence[float]
    ) -> tuple[list[Counted], Ints]:
        """Return the significant ones of *sets*, and of all the best, to be extended."""
        exact_counts = np.stack(counts, dtype=np.float64)
        statistics = self._statistics(sets, exact_counts, own)
        scores = statistics[0]
        best = np.argsort(-scores, kind="stable")[:_RANKED]

        _, share, other_share, nats = statistics[:, best]
        part = exact_counts[1, best] / self.is_own.sum()
        is_large = (share - other_share) * part >= _LEAST_SCORE
        is_exclusive = (share * part >= LEAST_PART) & (share >= _EXCLUSIVE * (share + other_share))
        is_significant = nats >= needed[sets.shape[1]]

        significant = best[(is_large | is_exclusive) & is_significant]
        return _counted(sets[significant], statistics[:, significant]), sets[best[:_BEAM]]

    def _statistics(self, sets: Ints, counts: Floats, own: int) -> Floats:
        """Return the score, own share, other share and evidence of each set, see ``Counted``.

        *counts* has four rows: for how many of the group's messages each set holds, to how many it
        applies, and the same of the others.
        """
        own_holds, own_applies, other_holds, other_applies = counts
        own_share = np.minimum(own_holds / np.maximum(own_applies, 1e-9), 1.0)
        other_share = np.minimum(other_holds / np.maximum(other_applies, 1e-9), 1.0)
        other_messages = other_applies * self.others.effective
        nats = evidence(own_share, own_applies, other_share, other_messages)

        score = balanced(own_share, other_share) * own_applies * _LONGER ** (sets.shape[1] - 1)
        is_implied = self.may_be_implied[sets].any(1)
        score *= np.where(is_implied, MAY_BE_IMPLIED**2, 1.0) / max(own, 1)
        return np.array(
            [score, own_share, other_share, np.where(own_share > other_share, nats, 0.0)]
        )


class _Matrix(NamedTuple):
    """1 or 0 by condition and message, of a part of the messages, and their weights.

    The methods return the weight of the messages for which all conditions of a set have 1.
    """

    cells: Cells
    weights: Cells

    def count_singles(self) -> Cells:
        return self.cells @ self.weights

    def count_pairs(self, pairs: Ints) -> Cells:
        counts = (self.cells * self.weights) @ self.cells.T
        return np.asarray(counts[pairs[:, 0], pairs[:, 1]])

    def count_triples(self, pairs: Ints, places: Ints) -> Cells:
        """Count each pair with each third condition; return the counts at *places*."""
        of_pairs = self.cells[pairs[:, 0]] * self.cells[pairs[:, 1]] * self.weights
        counts = of_pairs @ self.cells.T
        return np.asarray(counts[places[:, 0], places[:, 1]])


def _triples(pairs: Ints, can_join: Flags) -> tuple[Ints, Ints]:
    """Return each set of a pair and a third condition once, and its place: which pair, which third.

    *can_join* says, by condition and condition, whether a set may have both.
    """
    places = np.argwhere(can_join[pairs].all(1))
    triples = np.sort(np.column_stack([pairs[places[:, 0]], places[:, 1]]), axis=1)

    number = len(can_join)
    _, first = np.unique(triples @ [number**2, number, 1], return_index=True)
    return triples[first], places[first]


def _counted(sets: Ints, statistics: Floats) -> list[Counted]:
    pairs = zip(sets.tolist(), statistics.T.tolist(), strict=True)
    return [Counted(tuple(conditions), *numbers) for conditions, numbers in pairs]


def balanced(own: Floats, other: Floats) -> Floats:
    """Return the Jensen-Shannon divergence of two shares, doubled; 0 where *own* is not higher.

    It treats both as if they came from equally many messages, so that the number of others does not
    decide whether a broad or a narrow set is better.
    """
    ones = np.ones_like(own)
    return np.where(own > other, evidence(own, ones, other, ones), 0.0)


def evidence(share_1: Floats, count_1: Floats, share_2: Floats, count_2: Floats) -> Floats:
    """Return half the G statistic, in nats, of two shares of these numbers of messages.

    If there is no difference, the result is above *x* with a probability of about exp(-x) at most.
    """
    shares = np.array([share_1, share_2])
    counts = np.array([count_1, count_2])
    pooled = (shares * counts).sum(0) / np.maximum(counts.sum(0), 1e-9)
    return np.asarray((counts * _divergence(shares, pooled)).sum(0))


def _divergence(share: Floats, other: Floats) -> Floats:
    """Return the Kullback-Leibler divergence of yes-or-no distributions, in nats."""
    other = np.clip(other, 1e-12, 1 - 1e-12)
    return _term(share, other) + _term(1 - share, 1 - other)


def _term(share: Floats, other: Floats) -> Floats:
    return share * np.log(np.maximum(share, 1e-300) / other)
