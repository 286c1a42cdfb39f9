"""Find out which values belong to the shape of a message. Pure; numpy.

A group that is known by its shape has all values that belong to this shape: the type of an event,
or the status that goes with it. Such a value does not explain a failure. A field counts as constant
if enough of the other shapes have one value each in it. A field whose values vary within the other
shapes (a tenant, a region) is not constant, even if one group has a single value in it.
"""

import numpy as np

from spark_reprocess.analysis.features import ARRAY, MAGNITUDE, NULL, OBJECT, VALUE
from spark_reprocess.analysis.predicates import FeatureTable, Flags, Ints

_ONE_VALUE = 0.9
"""A field has one value in a shape if so many of the messages that have it agree."""

_LEAST_MESSAGES = 5
_ENOUGH_SHAPES = 0.3
_VALUES = (VALUE, NULL, OBJECT, ARRAY)
"""Null and containers count as values: messages that have them agree with each other."""


class ConstantFields:
    """For each shape, the features that are values of constant fields.

    Values and magnitudes are counted apart: field *f* has the columns *2 f* and *2 f + 1*.
    """

    def __init__(self, table: FeatureTable, shapes: Ints) -> None:
        """Count the values of the sample.

        Args:
            table: the features of all sampled messages.
            shapes: of each message, the number of its shape.
        """
        is_magnitude = np.array([tag[0] == MAGNITUDE for tag in table.tags], bool)
        self._is_value = np.array([tag[0] in _VALUES for tag in table.tags], bool) | is_magnitude
        self._column: Ints = 2 * table.field + is_magnitude
        self._size = 2 * len(table.paths)
        self._count(table, shapes)
        self._all = self._sums(np.ones(len(self._shape), bool))

    def of(self, shape: int) -> Flags:
        """Return for each feature whether it is a value of a field that is constant elsewhere."""
        own = self._sums(self._shape == shape)
        messages, counted, constant = (a - b for a, b in zip(self._all, own, strict=True))
        is_constant = np.where(
            counted > 0, constant >= _ENOUGH_SHAPES * counted, messages < _LEAST_MESSAGES
        )
        return np.asarray(self._is_value & is_constant[self._column])

    def _count(self, table: FeatureTable, shapes: Ints) -> None:
        """Of each column in each shape, count the messages, and those with the commonest value."""
        message = np.repeat(np.arange(table.messages), np.diff(table.features.starts))
        pairs, counts = np.unique(
            shapes[message] * len(table.tags) + table.features.columns, return_counts=True
        )
        shape, feature = np.divmod(pairs, max(len(table.tags), 1))
        # Each message has one type for each field: values too rare to be features count as well.
        is_type = table.is_type[feature]
        field = shape[is_type] * len(table.paths) + table.field[feature[is_type]]
        fields, which = np.unique(field, return_inverse=True)
        have = np.bincount(which, counts[is_type], minlength=len(fields)).astype(np.int64)
        most = np.zeros(2 * len(fields), np.int64)
        is_value = self._is_value[feature]
        place = shape[is_value] * len(table.paths) + table.field[feature[is_value]]
        found = 2 * np.searchsorted(fields, place) + self._column[feature[is_value]] % 2
        np.maximum.at(most, found, counts[is_value])
        self._shape, self._place = (
            np.repeat(one, 2) for one in np.divmod(fields, max(len(table.paths), 1))
        )
        self._place = 2 * self._place + np.tile([0, 1], len(fields))
        self._have = np.repeat(have, 2)
        self._is_constant = most >= _ONE_VALUE * self._have

    def _sums(self, chosen: Flags) -> tuple[Ints, Ints, Ints]:
        """Of each column: messages, shapes with enough messages, shapes with one value."""
        column, have = self._place[chosen], self._have[chosen]
        is_counted = have >= _LEAST_MESSAGES
        return (
            np.bincount(column, have, minlength=self._size).astype(np.int64),
            np.bincount(column, is_counted, minlength=self._size),
            np.bincount(column, is_counted & self._is_constant[chosen], minlength=self._size),
        )
