"""Which values the shape of a message fixes already. Pure; numpy.

Where a group is known by its shape, a value that every message of the shape has may say no more
than the shape: the type of an event, the status that goes with it. Whether it does is seen in the
other shapes: where they too have one value each in that field, it goes with the shape. A field that
varies within the other shapes (a tenant, a region) is free to tell something else.
"""

from dataclasses import dataclass

import numpy as np

from spark_reprocess.analysis.trait_table import Flags, Ints, TraitTable
from spark_reprocess.analysis.traits import ARRAY, MAGNITUDE, NULL, NUMBER, OBJECT, VALUE

_PURE = 0.9
_LEAST_MESSAGES = 5
_OFTEN = 0.3
"""The share of the other shapes from which on being of one value is nothing special."""

# A field that is null, or no value at all, agrees with others that are.
_SORTS = {VALUE: 1, NULL: 1, OBJECT: 1, ARRAY: 1, MAGNITUDE: 2}


@dataclass(frozen=True, slots=True)
class _Family:
    """The values of fields in shapes; a field's values are one family, its magnitudes another.

    Attributes:
        shape, family: one pair for each shape that has the field.
        had: how many of the shape's messages have it.
        is_pure: whether they nearly always agree.
    """

    shape: Ints
    family: Ints
    had: Ints
    is_pure: Flags


class FixedFields:
    """Tells for each shape which traits say no more than the shape."""

    def __init__(self, table: TraitTable, shapes: Ints) -> None:
        """Take the sample.

        Args:
            table: the traits of all sampled messages.
            shapes: of each message the number of its shape.
        """
        sort = np.array([_SORTS.get(tag[0], 0) for tag in table.tags], np.int64)
        self._is_value: Flags = sort > 0
        self._family: Ints = table.field * 2 + sort - 1
        self._seen = _seen(table, shapes, sort, self._family)
        self._families = 2 * len(table.ways)
        everywhere = np.ones(len(self._seen.shape), bool)
        self._had, self._counted, self._pure = self._sums(everywhere)

    def of(self, shape: int) -> Flags:
        """Return for each trait whether a message of *shape* has it because of its shape."""
        had, counted, pure = self._sums(self._seen.shape == shape)
        had, counted, pure = self._had - had, self._counted - counted, self._pure - pure
        is_fixed = np.where(counted > 0, pure >= _OFTEN * counted, had < _LEAST_MESSAGES)
        return np.asarray(self._is_value & is_fixed[self._family * self._is_value])

    def _sums(self, chosen: Flags) -> tuple[Ints, Ints, Ints]:
        """Of each family the messages that have it, the shapes with enough of them, the pure."""
        seen, size = self._seen, self._families
        family, had = seen.family[chosen], seen.had[chosen]
        is_counted = had >= _LEAST_MESSAGES
        return (
            np.bincount(family, had, minlength=size).astype(np.int64),
            np.bincount(family, is_counted, minlength=size),
            np.bincount(family, is_counted & seen.is_pure[chosen], minlength=size),
        )


def _seen(table: TraitTable, shapes: Ints, sort: Ints, families: Ints) -> _Family:
    size = 2 * len(table.ways)
    message = np.repeat(np.arange(table.messages), np.diff(table.traits.starts))
    trait, shape = table.traits.columns, shapes[message]
    # Values that are too rare to be traits count too: a field full of them is not fixed.
    is_number = np.array([tag == NUMBER for tag in table.tags], bool)[trait]
    is_kind = table.is_kind[trait]
    place, had = np.unique(
        np.concatenate(
            [
                shape[is_kind] * size + table.field[trait[is_kind]] * 2,
                shape[is_number] * size + table.field[trait[is_number]] * 2 + 1,
            ]
        ),
        return_counts=True,
    )
    is_value = sort[trait] > 0
    pairs, counts = np.unique(
        shape[is_value] * len(table.tags) + trait[is_value], return_counts=True
    )
    in_shape, which = np.divmod(pairs, max(len(table.tags), 1))
    found = np.searchsorted(place, in_shape * size + families[which])
    found = np.minimum(found, len(place) - 1)
    is_there = place[found] == in_shape * size + families[which]
    most = np.zeros(len(place), np.int64)
    np.maximum.at(most, found[is_there], counts[is_there])
    where, family = np.divmod(place, size)
    return _Family(where, family, had, most >= _PURE * had)
