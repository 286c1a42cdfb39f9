"""Search sets of one to three conditions that set a group's messages apart. Pure; numpy.

The input is a matrix: for each condition and message, whether the condition holds and whether it
applies. All pairs are counted, and all triples that contain one of the best pairs. Decision 0009
says why.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dlq.explain.leads.comparison import Others
from dlq.explain.leads.predicates import Cells, Flags, Floats, Ints

MOST_CONDITIONS = 3

_BEAM = 24
"""Pairs that are extended by a third condition."""

_RANKED = 60
_LEAST_SCORE = 0.1
LEAST_PART = 0.02
_EXCLUSIVE = 0.9
"""A set holds for hardly any others from this share of the group on, in the sum of both shares."""

_LONGER = 0.985
"""The score of a set is reduced by this factor for each further condition."""

MAY_BE_IMPLIED = 1 / 3
"""What the shape of a group's messages may imply counts for a third."""


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


@dataclass(frozen=True, slots=True)
class Contrast:
    """The conditions, as a matrix over a group's messages and over others.

    Attributes:
        others: the messages that the group is compared with.
        rows: the messages in the matrix: the group's, then the others.
        is_own: of each message, whether it is the group's.
        weights: of each message: 1 for the group's, of the others their share of all others.
        numbers: of each condition its predicate.
        same: of each condition the predicates that hold for just these messages.
        may_be_implied: of each condition, whether the shape may imply it.
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
        cells = [one[list(conditions)].all(0) & among for one in (self.holds, self.applies)]
        parts = self.is_own, ~self.is_own
        counts = [float(self.weights[one & part].sum()) for part in parts for one in cells]
        own = int((among & self.is_own).sum())
        sets = np.array([conditions])
        return _counted(sets, self._statistics(sets, np.array(counts)[:, None], own))[0]

    def joint_score(self, held: Flags, conditions: int) -> float:
        """Return the score of several leads of so many conditions that hold for *held* together."""
        own, other = (
            np.array([self.weights[held & part].sum() / self.weights[part].sum()], np.float64)
            for part in (self.is_own, ~self.is_own)
        )
        return float(balanced(own, other)[0]) * _LONGER ** (conditions - 1)

    def best_values(self, values: Ints, needed: float, most: int) -> list[Counted]:
        """Return those of *values* of one field that explain the most together, *most* at most.

        Those come first that the others have least, as in a decision tree that splits a field of
        many values (L. Breiman, 1984).
        """
        weights = [self.weights * part for part in (self.is_own, ~self.is_own)]
        counts = [one[values] @ of for of in weights for one in (self.holds, self.applies)]
        cells, sets, own = np.stack(counts, dtype=np.float64), values[:, None], self.is_own.sum()
        counted = _counted(sets, self._statistics(sets, cells, int(own)))
        counted = [one for one in counted if one.evidence >= needed]
        counted.sort(key=lambda one: one.other_share / one.own_share)
        of_field = defaultdict[int, list[Counted]](list)
        for one in counted:
            of_field[int(self.field[one.conditions[0]])].append(one)
        choices = [
            some[:n] for some in of_field.values() for n in range(2, min(len(some), most) + 1)
        ]
        return max(choices, key=self.score_of_any, default=[])

    def score_of_any(self, values: Sequence[Counted]) -> float:
        """Return the joint score of single conditions."""
        held = self.holds[[one.conditions[0] for one in values]].any(0)
        return self.joint_score(np.asarray(held), len(values))

    def ranked(self, among: Flags, needed: Sequence[float]) -> list[Counted]:
        """Return the sets that make a significant difference among these messages, the best first.

        *needed* is the evidence that a set of so many conditions needs, by their number.
        """
        own = int((among & self.is_own).sum())
        holds, applies, weights = (
            one if among.all() else one[..., among]
            for one in (self.holds, self.applies, self.weights)
        )
        matrices = [
            (cells[:, part], weights[part])
            for part in (slice(own), slice(own, None))
            for cells in (holds, applies)
        ]
        singles = [one @ weight for one, weight in matrices]
        found = self._significant(np.arange(len(self.field))[:, None], singles, own, needed)[0]
        is_joined = self.field[:, None] != self.field
        pairs = np.argwhere(np.triu(is_joined, 1))
        if len(pairs):
            products = [
                ((one * weight) @ one.T)[pairs[:, 0], pairs[:, 1]] for one, weight in matrices
            ]
            more, best = self._significant(pairs, products, own, needed)
            triples = [
                (one[best[:, 0]] * one[best[:, 1]] * weight) @ one.T for one, weight in matrices
            ]
            place = np.argwhere(is_joined[best].all(1))
            sets = np.sort(np.column_stack([best[place[:, 0]], place[:, 1]]), axis=1)
            number = len(self.field)
            once = np.unique(sets @ [number**2, number, 1], return_index=True)[1]
            cells = [one[place[once, 0], place[once, 1]] for one in triples]
            found += more + self._significant(sets[once], cells, own, needed)[0]
        return sorted(found, key=lambda one: -one.score)

    def _significant(
        self, sets: Ints, cells: Sequence[npt.NDArray[Any]], own: int, needed: Sequence[float]
    ) -> tuple[list[Counted], Ints]:
        """Return the significant ones of *sets*, and of all the best, to be extended."""
        counts = np.stack(cells, dtype=np.float64)
        statistics = self._statistics(sets, counts, own)
        best = np.argsort(-statistics[0], kind="stable")[:_RANKED]
        _, share, other, nats = statistics[:, best]
        part = counts[1, best] / self.is_own.sum()
        is_large = ((share - other) * part >= _LEAST_SCORE) | (
            (share * part >= LEAST_PART) & (share >= _EXCLUSIVE * (share + other))
        )
        significant = best[is_large & (nats >= needed[sets.shape[1]])]
        return _counted(sets[significant], statistics[:, significant]), sets[best[:_BEAM]]

    def _statistics(self, sets: Ints, counts: Floats, own: int) -> Floats:
        """Return of each set score, own share, other share and evidence, see ``Counted``.

        *counts* has of the group and of the others, for how many messages it holds and applies.
        """
        share, other = np.minimum(counts[::2] / np.maximum(counts[1::2], 1e-9), 1.0)
        nats = evidence(share, counts[1], other, counts[3] * self.others.effective)
        score = balanced(share, other) * counts[1] * _LONGER ** (sets.shape[1] - 1)
        is_implied = self.may_be_implied[sets].any(1)
        score *= np.where(is_implied, MAY_BE_IMPLIED**2, 1.0) / max(own, 1)
        return np.array([score, share, other, np.where(share > other, nats, 0.0)])


def _counted(sets: Ints, statistics: Floats) -> list[Counted]:
    pairs = zip(sets.tolist(), statistics.T.tolist(), strict=True)
    return [Counted(tuple(conditions), *numbers) for conditions, numbers in pairs]


def balanced(own: Floats, other: Floats) -> Floats:
    """Return the Jensen-Shannon divergence of two shares, doubled; 0 where *own* is not higher.

    It treats both as if they came from equally many messages, so that the number of others does not
    decide whether a broad or a narrow set is better.
    """
    one = np.ones_like(own)
    return np.where(own > other, evidence(own, one, other, one), 0.0)


def evidence(share_1: Floats, count_1: Floats, share_2: Floats, count_2: Floats) -> Floats:
    """Return half the G statistic, in nats, of two shares of so many messages each.

    If there is no difference, the result is above *x* with a probability of about exp(-x) at most.
    """
    shares, counts = np.array([share_1, share_2]), np.array([count_1, count_2])
    pooled = (shares * counts).sum(0) / np.maximum(counts.sum(0), 1e-9)
    return np.asarray((counts * _divergence(shares, pooled)).sum(0))


def _divergence(share: Floats, other: Floats) -> Floats:
    """Return the Kullback-Leibler divergence of yes-or-no distributions, in nats."""
    other = np.clip(other, 1e-12, 1 - 1e-12)
    return _term(share, other) + _term(1 - share, 1 - other)


def _term(share: Floats, other: Floats) -> Floats:
    return share * np.log(np.maximum(share, 1e-300) / other)
