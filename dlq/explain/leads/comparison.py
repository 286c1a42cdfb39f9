"""Choose what a group is compared with: messages, and which of their values count. Pure; numpy.

A group is compared with messages that are otherwise like its own, so that what distinguishes one
kind of message from another is not mistaken for a cause.

- *Alike* are the other messages of the same shape. If there are too few of them, those of the most
  similar shapes are added (Jaccard index of the fields, at least 0.5). A group with messages of
  several shapes is compared shape by shape, in the proportions that it has itself (direct
  standardization).
- *All* are all other messages of the sample.

A group that is known by its shape has all values that belong to this shape, such as the type of an
event: they do not explain a failure. A field counts as constant if enough of the other shapes have
one value each in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dlq.explain.leads.features import ARRAY, NULL, OBJECT, VALUE
from dlq.explain.leads.predicates import FeatureTable, Flags, Floats, Ints

_SIMILAR = 0.5
_ENOUGH = 30
"""Similar shapes are added until there are so many messages to compare with."""

_LEAST_OTHERS = 10
"""Fewer messages of similar shapes are not compared with."""

_OWN_SHAPE = 1 / 3
"""Other messages of the same shape are enough if they are this share of the group, or more."""

_BY_CHANCE = 8
"""By chance, a group may have so many more messages of a shape than all other groups."""

_FEWEST, _MOST, _FOR_EACH = 2000, 8000, 25
"""A group is compared with so many others at most, which depends on its own messages."""

_ONE_VALUE = 0.9
"""A field has one value in a shape if so many of the messages that have it agree."""

_LEAST_MESSAGES = 5
"""Shapes with fewer messages that have a field do not count for whether it is constant."""

_ENOUGH_SHAPES = 0.3
_VALUES = (VALUE, NULL, OBJECT, ARRAY)
"""Starts of values. Messages with null or a container agree with each other."""


@dataclass(frozen=True, slots=True)
class SampledGroup:
    """A group and its messages in the sample.

    Attributes:
        messages: their rows in the table, in the order of a hash.
        population: number of messages in the whole group.
        is_by_shape: whether the signature is the shape of the payload, not an error.
    """

    group_id: str
    messages: Ints
    population: int
    is_by_shape: bool


@dataclass(frozen=True)
class Sample:
    """The sampled messages.

    Attributes:
        groups: each message is in exactly one.
        shapes: of each message, the number of its payload's shape.
        times: when each message first failed, in epoch seconds; NaN where unknown.
    """

    table: FeatureTable
    groups: Sequence[SampledGroup]
    shapes: Ints
    times: Floats

    @cached_property
    def group_of(self) -> Ints:
        """Of each message, the position of its group in *groups*."""
        numbers = np.zeros(self.table.messages, np.int64)
        for number, group in enumerate(self.groups):
            numbers[group.messages] = number
        return numbers

    @cached_property
    def weights(self) -> Floats:
        """Of each message, how many messages of its group it stands for."""
        each = np.array([group.population / len(group.messages) for group in self.groups])
        return each[self.group_of]


@dataclass(frozen=True)
class Others:
    """Messages that a group is compared with.

    Attributes:
        messages: their rows in the feature table; of very many, some.
        weights: how many messages each of these stands for.
        are_alike: whether only messages like the group's are in it.
        have_same_shape: whether they have the same shapes as the group's messages.
    """

    messages: Ints
    weights: Floats
    are_alike: bool = False
    have_same_shape: bool = False

    @cached_property
    def effective(self) -> float:
        """The number of equally weighted messages that would be as informative (Kish)."""
        return float(self.weights.sum() ** 2 / (self.weights**2).sum())


class Comparisons:
    """Finds the messages to compare each group of a sample with."""

    def __init__(self, sample: Sample) -> None:
        """Count the values of each field in the messages of each shape."""
        self._sample, self._shapes = sample, sample.shapes
        self._messages = np.bincount(sample.shapes)
        self._size = len(self._messages)
        self._similar_to: dict[int, Ints] = {}
        table = sample.table
        has_value = np.array([tag.startswith(_VALUES) for tag in table.tags], bool)
        self._fields = len(table.paths)
        pairs, counts = np.unique(
            sample.shapes[table.message] * len(table.tags) + table.features.columns,
            return_counts=True,
        )
        shape, feature = np.divmod(pairs, len(table.tags))
        # Each message has one type for each field: values too rare to be features count as well.
        is_type, is_value = table.is_type[feature], has_value[feature]
        place = shape * self._fields + table.field[feature]
        cells, cell = np.unique(place[is_type], return_inverse=True)
        self._have = np.bincount(cell, counts[is_type], minlength=len(cells))
        most = np.zeros(len(cells), np.int64)
        np.maximum.at(most, np.searchsorted(cells, place[is_value]), counts[is_value])
        self._shape, self._field = np.divmod(cells, self._fields)
        self._is_constant = most >= _ONE_VALUE * self._have
        self._of_all = self._by_field(np.arange(len(cells)))

    def all(self, group: SampledGroup) -> Others | None:
        """Return all messages of other groups, None if there are none."""
        messages = _some(np.flatnonzero(self._is_other(group)), group)
        return Others(messages, self._sample.weights[messages]) if len(messages) else None

    def alike(self, group: SampledGroup, left_out: Flags | None = None) -> Others | None:
        """Return the other messages that are like those of the group, None if they are too few.

        *left_out* says of each message whether it is not to be compared with.
        """
        is_other, size, weights = self._is_other(group), self._size, self._sample.weights
        if left_out is not None:
            is_other &= ~left_out
        mix = np.bincount(self._shapes[group.messages], minlength=size)
        there = np.bincount(self._shapes[is_other], minlength=size)
        weight = np.bincount(self._shapes, weights * is_other, minlength=size)
        factor = np.zeros(size)
        for shape in np.flatnonzero(mix):
            nearest = self._nearest(int(shape), int(mix[shape]), there)
            if len(nearest):
                factor[nearest] += mix[shape] / weight[nearest].sum()
        if not factor.any():
            return None
        messages = _some(np.flatnonzero(is_other & (factor > 0)[self._shapes]), group)
        return Others(
            messages,
            weights[messages] * factor[self._shapes[messages]],
            are_alike=True,
            have_same_shape=bool(((factor > 0) <= (mix > 0)).all()),
        )

    def bound_to(self, shape: int) -> Flags:
        """Return for each predicate whether the shape of a message may imply it.

        It may be a value of a field that is constant in other shapes.
        """
        own = np.flatnonzero(self._shape == shape)
        messages, counted, constant = self._of_all - self._by_field(own)
        is_constant = np.where(
            counted > 0, constant >= _ENOUGH_SHAPES * counted, messages < _LEAST_MESSAGES
        )
        table = self._sample.table
        is_bound = table.is_type | is_constant[table.field]
        return np.append(is_bound, np.ones(2 * self._fields, bool))

    def _by_field(self, cells: Ints) -> Floats:
        """Count by field its messages, the shapes that count, and those where it is constant."""
        field, have = self._field[cells], self._have[cells]
        is_counted = have >= _LEAST_MESSAGES
        counts = have, is_counted, is_counted & self._is_constant[cells]
        return np.array([np.bincount(field, one, minlength=self._fields) for one in counts])

    def _is_other(self, group: SampledGroup) -> Flags:
        is_other = np.ones(self._sample.table.messages, bool)
        is_other[group.messages] = False
        return is_other

    def _nearest(self, shape: int, own: int, there: Ints) -> Ints:
        """Return the shapes to compare messages of *shape* with; none if all are too different."""
        if there[shape] >= max(_OWN_SHAPE * (own - _BY_CHANCE), 1):
            return np.array([shape])
        if shape not in self._similar_to:
            self._similar_to[shape] = self._similar(shape)
        similar = self._similar_to[shape]
        similar = similar[there[similar] > 0]
        messages = np.cumsum(there[similar])
        if not len(similar) or messages[-1] < _LEAST_OTHERS:
            return similar[:0]
        return similar[messages - there[similar] < _ENOUGH]

    def _similar(self, shape: int) -> Ints:
        """Return the shapes that are similar to *shape*, the most similar first."""
        fields = self._fields_of_shapes
        shared, sizes = fields @ fields[shape], fields.sum(axis=1)
        similarity = shared / np.maximum(sizes + sizes[shape] - shared, 1)
        similarity[shape] = 2.0
        order = np.argsort(-similarity, kind="stable")
        return np.asarray(order[similarity[order] >= _SIMILAR], np.int64)

    @cached_property
    def _fields_of_shapes(self) -> npt.NDArray[np.float32]:
        """Of each shape the fields that at least half of its messages have."""
        fields = np.zeros((self._size, self._fields), np.float32)
        is_usual = 2 * self._have >= self._messages[self._shape]
        fields[self._shape[is_usual], self._field[is_usual]] = 1
        return fields


def _some(messages: Ints, group: SampledGroup) -> Ints:
    """Return some of the messages, evenly: those of each group are in the order of a hash."""
    most = min(max(_FEWEST, _FOR_EACH * len(group.messages)), _MOST)
    return messages[:: -(-len(messages) // most) or 1]
