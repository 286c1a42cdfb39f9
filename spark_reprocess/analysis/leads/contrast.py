"""Search sets of one to three conditions that set a group's messages apart. Pure; numpy.

The input is a matrix: for each condition and message, whether the condition holds and whether it
applies. All pairs are counted, and all triples that contain one of the best pairs. Decision 0009
says why.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spark_reprocess.analysis.leads.predicates import Cells, Flags, Floats, Ints

MOST_CONDITIONS = 3

_BEAM = 24
"""Pairs that are extended by a third condition."""

_RANKED = 60
_LEAST_SCORE = 0.1
LEAST_PART = 0.02
EXCLUSIVE = 0.9
"""A set holds for hardly any others from this share of the group on, in the sum of both shares."""

_LONGER = 0.985
"""The score of a set is reduced by this factor for each further condition."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A set of conditions, and for how many messages it holds.

    Attributes:
        conditions: their rows in the matrix, ascending.
        score: how strongly it sets the group apart, for ranking; see ``balanced``.
        own: messages of the group for which the set holds, and to which it applies.
        others: the same of the others, weighted.
    """

    conditions: tuple[int, ...]
    score: float
    own: tuple[float, float]
    others: tuple[float, float]

    @property
    def own_share(self) -> float:
        """Share of the group's messages to which the set applies."""
        return self.own[0] / max(self.own[1], 1e-9)

    @property
    def other_share(self) -> float:
        """Share of the others to which the set applies."""
        return min(self.others[0] / max(self.others[1], 1e-9), 1.0)


@dataclass(frozen=True, slots=True)
class Contrast:
    """The conditions, as a matrix over a group's messages and over others.

    Attributes:
        field: of each condition; two conditions about one field are not combined, nor is one that
            has -1.
        kind: of each condition; two of one kind apply to the same messages.
        own_holds, own_applies: 1 or 0, by condition and message of the group.
        other_holds, other_applies: the same for the others.
        weights: how many messages each of the others stands for.
        effective: the number of equally weighted others that one others' weight is worth.
    """

    field: Ints
    kind: Ints
    own_holds: Cells
    own_applies: Cells
    other_holds: Cells
    other_applies: Cells
    weights: Cells
    effective: float

    def count(self, conditions: tuple[int, ...], own: Flags, others: Flags) -> Counted:
        """Count one set of conditions among these messages."""
        of = list(conditions)
        mine = self.own_holds[of].all(0) & own, self.own_applies[of].all(0) & own
        rest = self.other_holds[of].all(0) & others, self.other_applies[of].all(0) & others
        held, applied = (float(one.sum()) for one in mine)
        other_held, other_applied = (float(self.weights[one].sum()) for one in rest)
        counts = (held, applied, other_held, other_applied)
        score = _score(np.array([counts]), float(own.sum()), len(of))
        return Counted(conditions, float(score[0]), (held, applied), (other_held, other_applied))

    def ranked(self, own: Flags, others: Flags, needed: Sequence[float]) -> list[Counted]:
        """Return the sets that make a significant difference among these messages, the best first.

        *needed* is the evidence that a set of so many conditions needs, by their number. If it has
        none for pairs, they are not searched.
        """
        mine, rest = own.astype(np.float32), self.weights * others
        # Many conditions apply to the same messages: these are counted once.
        every, kinds = np.arange(len(self.field)), self.kind
        first = np.unique(kinds, return_index=True)[1]
        matrices = (
            (self.own_holds, every, mine),
            (self.own_applies[first], kinds, mine),
            (self.other_holds, every, rest),
            (self.other_applies[first], kinds, rest),
        )
        found = self._significant(
            every[:, None], [(one @ weight)[of] for one, of, weight in matrices], mine, needed
        )[0]
        is_joined = (self.field[:, None] != self.field) & (self.field >= 0)
        pairs = np.argwhere(np.triu(is_joined & is_joined.T, 1))
        if len(needed) > MOST_CONDITIONS and len(pairs):
            products = [
                ((one * weight) @ one.T)[of[pairs[:, 0]], of[pairs[:, 1]]]
                for one, of, weight in matrices
            ]
            more, best = self._significant(pairs, products, mine, needed)
            triples = [
                ((one[of[best[:, 0]]] * one[of[best[:, 1]]] * weight) @ one.T)[:, of]
                for one, of, weight in matrices
            ]
            place = np.argwhere(is_joined[best].all(1))
            sets = np.sort(np.column_stack([best[place[:, 0]], place[:, 1]]), axis=1)
            names = sets @ len(self.field) ** np.arange(3)
            once = np.unique(names, return_index=True)[1]
            sets, place = sets[once], place[once]
            cells = [one[place[:, 0], place[:, 1]] for one in triples]
            found += more + self._significant(sets, cells, mine, needed)[0]
        return sorted(found, key=lambda one: -one.score)

    def _significant(
        self, sets: Ints, cells: Sequence[npt.NDArray[Any]], own: Cells, needed: Sequence[float]
    ) -> tuple[list[Counted], Ints]:
        """Return the significant ones of *sets*, and of all the best, to be extended."""
        conditions, counts = sets.shape[1], np.stack(cells, axis=1).astype(np.float64)
        score = _score(counts, float(own.sum()), conditions)
        best = np.argpartition(-score, _RANKED)[:_RANKED] if len(score) > _RANKED else slice(None)
        sets, score, counts = sets[best], score[best], counts[best]
        share, other = _shares(counts)
        part = counts[:, 1] / max(len(own), 1)
        is_large = ((share - other) * part >= _LEAST_SCORE) | (
            (share * part >= LEAST_PART) & (share >= EXCLUSIVE * (share + other))
        )
        found = evidence(share, counts[:, 1], other, counts[:, 3] * self.effective)
        chosen = np.flatnonzero(is_large & (share > other) & (found >= needed[conditions]))
        numbers = zip(sets[chosen].tolist(), score[chosen], counts[chosen].tolist(), strict=True)
        significant = [
            Counted(tuple(one), float(best), (a, b), (c, d)) for one, best, (a, b, c, d) in numbers
        ]
        return significant, sets[np.argsort(-score, kind="stable")[:_BEAM]]


def _shares(counts: Floats) -> tuple[Floats, Floats]:
    """Return the shares of the group and of the others.

    The columns of *counts*: messages of the group for which it holds, to which it applies; others.
    """
    shares = np.minimum(counts[:, ::2] / np.maximum(counts[:, 1::2], 1e-9), 1.0)
    return shares[:, 0], shares[:, 1]


def _score(counts: Floats, size: float, conditions: int) -> Floats:
    score = balanced(*_shares(counts)) * counts[:, 1]
    return np.asarray(score * (_LONGER ** (conditions - 1) / max(size, 1.0)))


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
    total = np.maximum(count_1 + count_2, 1e-9)
    pooled = (share_1 * count_1 + share_2 * count_2) / total
    return count_1 * _divergence(share_1, pooled) + count_2 * _divergence(share_2, pooled)


def _divergence(share: Floats, other: Floats) -> Floats:
    """Return the Kullback-Leibler divergence of two yes-or-no distributions, in nats."""
    other = np.clip(other, 1e-12, 1 - 1e-12)
    return _term(share, other) + _term(1 - share, 1 - other)


def _term(share: Floats, other: Floats) -> Floats:
    return np.where(share > 0, share * np.log(np.maximum(share, 1e-300) / other), 0.0)
