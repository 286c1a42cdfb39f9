"""Choose the messages that a group is compared with, and the values that count. Pure; numpy.

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

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dlq.explain.differences.features import ARRAY, NULL, OBJECT, VALUE
from dlq.explain.differences.predicates import FeatureTable, Flags, Floats, Ints

_SIMILAR = 0.5
_ENOUGH = 30
"""Similar shapes are added until there are this many messages to compare with."""

_LEAST_OTHERS = 10
"""Fewer messages of similar shapes are not compared with."""

_OWN_SHAPE = 1 / 3
"""Other messages of the same shape are enough if they are this share of the group or more."""

_BY_CHANCE = 8
"""By chance, a group may have this many more messages of a shape than all other groups."""

_FOR_EACH = 25
_FEWEST = 2000
_MOST = 8000
"""A group is compared with at most 25 others for each of its messages, within these bounds."""

_ONE_VALUE = 0.9
"""A field has one value in a shape if this share of the messages that have it agree."""

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
class SampledMessages:
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
        """The position in *groups* of the group of each message."""
        numbers = np.zeros(self.table.messages, np.int64)
        for number, group in enumerate(self.groups):
            numbers[group.messages] = number
        return numbers

    @cached_property
    def weights(self) -> Floats:
        """The number of messages of its group that each message represents."""
        weights = [group.population / len(group.messages) for group in self.groups]
        return np.array(weights)[self.group_of]


@dataclass(frozen=True)
class Others:
    """Messages that a group is compared with.

    Attributes:
        messages: their rows in the feature table; of very many, some.
        weights: the number of messages that each of these represents.
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

    def __init__(self, sample: SampledMessages) -> None:
        """Count the values of each field in the messages of each shape."""
        table = sample.table
        self._sample = sample
        self._shapes = sample.shapes
        self._messages = np.bincount(sample.shapes)
        self._size = len(self._messages)
        self._fields = len(table.paths)
        self._similar_to: dict[int, Ints] = {}

        pairs, counts = np.unique(
            sample.shapes[table.message] * len(table.tags) + table.features.columns,
            return_counts=True,
        )
        shape, feature = np.divmod(pairs, len(table.tags))
        has_value = np.array([tag.startswith(_VALUES) for tag in table.tags], bool)
        is_value = has_value[feature]
        # Each message has one type for each field: values too rare to be features count as well.
        is_type = table.is_type[feature]

        # A cell is a field of a shape.
        cell_of_pair = shape * self._fields + table.field[feature]
        cells, number = np.unique(cell_of_pair[is_type], return_inverse=True)
        self._have = np.bincount(number, counts[is_type], minlength=len(cells))
        most_frequent = np.zeros(len(cells), np.int64)
        cells_of_values = np.searchsorted(cells, cell_of_pair[is_value])
        np.maximum.at(most_frequent, cells_of_values, counts[is_value])

        self._shape, self._field = np.divmod(cells, self._fields)
        self._is_constant = most_frequent >= _ONE_VALUE * self._have
        self._of_all = self._by_field(np.arange(len(cells)))

    def all(self, group: SampledGroup) -> Others | None:
        """Return all messages of other groups, None if there are none."""
        messages = _some(np.flatnonzero(self._is_other(group)), group)
        if not len(messages):
            return None
        return Others(messages, self._sample.weights[messages])

    def alike(self, group: SampledGroup, left_out: Flags | None = None) -> Others | None:
        """Return the other messages that are like those of the group, None if they are too few.

        *left_out* says of each message whether it is not to be compared with.
        """
        weights = self._sample.weights
        is_other = self._is_other(group)
        if left_out is not None:
            is_other &= ~left_out

        own_counts = np.bincount(self._shapes[group.messages], minlength=self._size)
        other_counts = np.bincount(self._shapes[is_other], minlength=self._size)
        other_weights = np.bincount(self._shapes, weights * is_other, minlength=self._size)
        factors = np.zeros(self._size)
        for shape in np.flatnonzero(own_counts):
            nearest = self._nearest(int(shape), int(own_counts[shape]), other_counts)
            if len(nearest):
                factors[nearest] += own_counts[shape] / other_weights[nearest].sum()
        if not factors.any():
            return None

        is_compared = factors > 0
        is_own_shape = own_counts > 0
        messages = _some(np.flatnonzero(is_other & is_compared[self._shapes]), group)
        return Others(
            messages,
            weights[messages] * factors[self._shapes[messages]],
            are_alike=True,
            have_same_shape=bool((is_own_shape | ~is_compared).all()),
        )

    def bound_to(self, shape: int) -> Flags:
        """Return for each predicate whether the shape of a message may imply it.

        It may be a value of a field that is constant in other shapes.
        """
        own_cells = np.flatnonzero(self._shape == shape)
        messages, counted, constant = self._of_all - self._by_field(own_cells)
        is_constant = np.where(
            counted > 0, constant >= _ENOUGH_SHAPES * counted, messages < _LEAST_MESSAGES
        )

        table = self._sample.table
        is_bound = table.is_type | is_constant[table.field]
        return np.append(is_bound, np.ones(2 * self._fields, bool))

    def _by_field(self, cells: Ints) -> Floats:
        """Count by field its messages, the shapes that count, and those where it is constant."""
        field = self._field[cells]
        messages = self._have[cells]
        is_counted = messages >= _LEAST_MESSAGES
        is_constant = is_counted & self._is_constant[cells]
        return np.array(
            [
                np.bincount(field, messages, minlength=self._fields),
                np.bincount(field, is_counted, minlength=self._fields),
                np.bincount(field, is_constant, minlength=self._fields),
            ]
        )

    def _is_other(self, group: SampledGroup) -> Flags:
        is_other = np.ones(self._sample.table.messages, bool)
        is_other[group.messages] = False
        return is_other

    def _nearest(self, shape: int, own_count: int, other_counts: Ints) -> Ints:
        """Return the shapes to compare messages of *shape* with; none if all are too different.

        *own_count* is the number of the group's messages of the shape, *other_counts* that of the
        other messages by shape.
        """
        if other_counts[shape] >= max(_OWN_SHAPE * (own_count - _BY_CHANCE), 1):
            return np.array([shape])

        if shape not in self._similar_to:
            self._similar_to[shape] = self._similar(shape)
        similar = self._similar_to[shape]
        similar = similar[other_counts[similar] > 0]
        counts = other_counts[similar]
        up_to_here = np.cumsum(counts)
        if not len(similar) or up_to_here[-1] < _LEAST_OTHERS:
            return similar[:0]
        return similar[up_to_here - counts < _ENOUGH]

    def _similar(self, shape: int) -> Ints:
        """Return the shapes that are similar to *shape*, the most similar first."""
        fields = self._fields_of_shapes
        shared = fields @ fields[shape]
        sizes = fields.sum(axis=1)
        similarity = shared / np.maximum(sizes + sizes[shape] - shared, 1)
        # The shape itself comes first, before any that is equal in its usual fields.
        similarity[shape] = 2.0
        order = np.argsort(-similarity, kind="stable")
        return np.asarray(order[similarity[order] >= _SIMILAR], np.int64)

    @cached_property
    def _fields_of_shapes(self) -> npt.NDArray[np.float32]:
        """The fields that at least half of the messages of each shape have."""
        fields = np.zeros((self._size, self._fields), np.float32)
        is_usual = 2 * self._have >= self._messages[self._shape]
        fields[self._shape[is_usual], self._field[is_usual]] = 1
        return fields


def _some(messages: Ints, group: SampledGroup) -> Ints:
    """Return some of the messages, evenly: those of each group are in the order of a hash."""
    most = min(max(_FEWEST, _FOR_EACH * len(group.messages)), _MOST)
    step = max(1, math.ceil(len(messages) / most))
    return messages[::step]
