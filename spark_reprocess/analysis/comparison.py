"""Whom a group is compared with: like with like where there is enough of it. Pure; numpy.

A group that is known by its payload differs from other kinds of messages in everything that makes
it a kind of its own; what made it fail shows against messages that are otherwise the same. Where
its own shape occurs in other groups too, only those messages count. Where it does not, what the
shape fixes is compared with messages of similar shapes (at least half of the fields are shared),
and must hold against the nearest of them too; what varies within shapes, a tenant say, is compared
with all others.

A group that is known by its error is compared with messages of the shapes that it has itself, mixed
as it mixes them (direct standardisation, as epidemiology does it), and with all others too, because
the kind of message may be the cause.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from spark_reprocess.analysis.significance import Floats
from spark_reprocess.analysis.trait_table import Flags, Ints, TraitTable

_ENOUGH_NEAR = 10
_MOST = 4000
_SIMILAR = 0.5
_SAME = 2.0
_OWN_SHAPE = 0.25
_BY_CHANCE = 8
"""So many more than the others of its shape may fall into a group without a cause."""
_COVERED = 0.5
_KIND_COUNTS_AS_FIELDS = 2


@dataclass(frozen=True, slots=True)
class SampledGroup:
    """A group and those of its messages that are looked at.

    Attributes:
        messages: their rows in the trait table, in the order of a hash.
        population: how many messages the group has.
        is_by_shape: whether it is known by the shape of its payload, not by an error.
    """

    group_id: str
    messages: Ints
    population: int
    is_by_shape: bool


@dataclass(frozen=True, slots=True)
class Others:
    """Messages that a group is compared with.

    Attributes:
        messages: some of them, for what needs to be looked at one by one.
        weights: how many each of those stands for.
        counts: of each trait, what those that have it weigh.
        weight: of all of them.
        effective: how many equally weighted messages would tell as much (L. Kish, "Survey
            Sampling", 1965): the square of the sum of the weights by the sum of their squares.
    """

    messages: Ints
    weights: Floats
    counts: Floats
    weight: float
    effective: float


class Scope(Enum):
    """Which claims a comparison is for."""

    EVERYTHING = "all"
    FIXED = "what the shape of a message fixes"
    FREE = "what varies within a shape"


@dataclass(frozen=True, slots=True)
class Comparison:
    """One way to compare a group.

    Attributes:
        nearest: those against whom a claim must hold as well, if any.
        are_alike: whether *others* are only those that are like the group.
    """

    others: Others
    scope: Scope
    are_alike: bool
    nearest: Others | None = None


class Comparisons:
    """Finds the others for each group of a sample."""

    def __init__(
        self,
        table: TraitTable,
        groups: Sequence[SampledGroup],
        shapes: Ints,
        names: Sequence[str],
    ) -> None:
        """Take the sample.

        Args:
            table: the traits of its messages.
            groups: every message is in one.
            shapes: of each message the shape of its payload, a place in *names*.
            names: what the shapes are called.
        """
        self._table = table
        self._shapes = shapes
        self._kinds = np.unique([name.partition("{")[0] for name in names], return_inverse=True)[1]
        self._weights = np.zeros(table.messages)
        self._group = np.zeros(table.messages, np.int64)
        for number, group in enumerate(groups):
            self._weights[group.messages] = group.population / len(group.messages)
            self._group[group.messages] = number
        self._numbers = {group.group_id: number for number, group in enumerate(groups)}
        self._counts = table.counts(np.arange(table.messages), self._weights)

    def of(self, group: SampledGroup) -> Iterator[Comparison]:
        """Yield each way to compare *group*; none where there is nobody to compare it with."""
        is_other = np.asarray(self._group != self._numbers[group.group_id])
        if not is_other.any():
            return
        if group.is_by_shape:
            yield from self._by_similarity(group, is_other)
            return
        alike = self._of_the_same_shapes(group, is_other)
        if alike:
            yield Comparison(alike, Scope.EVERYTHING, are_alike=True)
        yield Comparison(self._all(group, is_other), Scope.EVERYTHING, are_alike=False)

    def _by_similarity(self, group: SampledGroup, is_other: Flags) -> Iterator[Comparison]:
        similarity = self._similarity(int(np.bincount(self._shapes[group.messages]).argmax()))
        there = np.bincount(self._shapes[is_other], minlength=len(similarity))
        own = len(group.messages) - _BY_CHANCE
        if there[similarity >= _SAME].sum() >= max(_OWN_SHAPE * own, 1):
            same = self._of_shapes(similarity >= _SAME, is_other)
            yield Comparison(same, Scope.EVERYTHING, are_alike=True)
            return
        similarity[there == 0] = 0
        if there[similarity >= _SIMILAR].sum() >= _ENOUGH_NEAR:
            similar = self._of_shapes(similarity >= _SIMILAR, is_other)
            nearest = self._of_shapes(similarity >= _nearness(similarity, there), is_other)
            yield Comparison(similar, Scope.FIXED, are_alike=True, nearest=nearest)
            yield Comparison(self._all(group, is_other), Scope.FREE, are_alike=False)
        else:
            yield Comparison(self._all(group, is_other), Scope.EVERYTHING, are_alike=False)

    def _all(self, group: SampledGroup, is_other: Flags) -> Others:
        weights = self._weights[is_other]
        own = group.population / len(group.messages) * self._table.counts(group.messages)
        some = _some(np.flatnonzero(is_other))
        counts = np.maximum(self._counts - own, 0.0)
        return Others(some, self._weights[some], counts, weights.sum(), _effective(weights))

    def _of_the_same_shapes(self, group: SampledGroup, is_other: Flags) -> Others | None:
        """Others of the shapes that the group has, mixed likewise; None if they are too few."""
        mix = np.bincount(self._shapes[group.messages], minlength=len(self._kinds))
        there = np.bincount(self._shapes, self._weights * is_other, minlength=len(self._kinds))
        is_common = (mix > 0) & (there > 0)
        if mix[is_common].sum() < _COVERED * len(group.messages):
            return None
        chosen = _some(np.flatnonzero(is_other & is_common[self._shapes]))
        share = np.divide(mix, there, out=np.zeros(len(mix)), where=is_common)
        return self._others(chosen, self._weights[chosen] * share[self._shapes[chosen]])

    def _of_shapes(self, is_chosen: Flags, is_other: Flags) -> Others:
        chosen = _some(np.flatnonzero(is_other & is_chosen[self._shapes]))
        return self._others(chosen, self._weights[chosen])

    def _others(self, chosen: Ints, weights: Floats) -> Others:
        counts = self._table.counts(chosen, weights)
        return Others(chosen, weights, counts, float(weights.sum()), _effective(weights))

    def _similarity(self, shape: int) -> Floats:
        """Jaccard's: of the fields that either shape has, the share that both have.

        What kind of message it is counts like two fields; the shape itself is more than similar.
        """
        fields = self._fields_of_shapes
        is_same_kind = self._kinds == self._kinds[shape]
        shared = fields @ fields[shape] + _KIND_COUNTS_AS_FIELDS * is_same_kind
        sizes = fields.sum(axis=1) + _KIND_COUNTS_AS_FIELDS
        similarity = shared / (sizes + sizes[shape] - shared)
        similarity[shape] = _SAME
        return np.asarray(similarity, np.float64)

    @cached_property
    def _fields_of_shapes(self) -> npt.NDArray[np.float32]:
        """Of each shape the fields that at least half of its messages have."""
        table = self._table
        fields = np.zeros((len(self._kinds), len(table.ways)), np.float32)
        message = np.repeat(np.arange(table.messages), np.diff(table.traits.starts))
        is_kind = table.is_kind[table.traits.columns]
        field = table.field[table.traits.columns[is_kind]]
        places = self._shapes[message[is_kind]] * len(table.ways) + field
        pairs, counts = np.unique(places, return_counts=True)
        shape, field = np.divmod(pairs, len(table.ways))
        is_usual = 2 * counts >= np.bincount(self._shapes, minlength=len(self._kinds))[shape]
        fields[shape[is_usual], field[is_usual]] = 1
        return fields


def _nearness(similarity: Floats, there: Ints) -> float:
    """How similar the nearest shapes are that together have enough messages."""
    order = np.argsort(-similarity, kind="stable")
    enough = int(np.searchsorted(np.cumsum(there[order]), _ENOUGH_NEAR))
    return max(float(similarity[order[min(enough, len(order) - 1)]]), _SIMILAR)


def _some(messages: Ints) -> Ints:
    """At most so many, spread evenly: the messages of each group stand in the order of a hash."""
    return messages[:: -(-len(messages) // _MOST) or 1]


def _effective(weights: Floats) -> float:
    return float(weights.sum() ** 2 / max(float((weights**2).sum()), 1e-300))
