"""Which values the shape of a message fixes already. Pure; numpy.

Where a group is known by its shape, a value that every message of a shape has says no more than the
shape: the type of an event, the status that goes with it. A field that varies within shapes (a
tenant, a region) is free to tell something else.
"""

import numpy as np

from spark_reprocess.analysis.trait_table import Flags, Ints, TraitTable
from spark_reprocess.analysis.traits import ARRAY, MAGNITUDE, NULL, NUMBER, OBJECT, VALUE

_PURE = 0.9
_LEAST_MESSAGES = 5


def fixed_by_shape(table: TraitTable, shapes: Ints) -> Flags:
    """Tell for each trait whether messages of one shape nearly always agree on its field's value.

    Args:
        table: the traits of all sampled messages.
        shapes: of each message the number of its shape.
    """
    sort = np.array([_SORTS.get(tag[0], 0) for tag in table.tags], np.int64)
    family = table.field * 2 + sort - 1
    sizes = np.bincount(shapes)
    message = np.repeat(np.arange(table.messages), np.diff(table.traits.starts))
    trait = table.traits.columns
    is_counted = (sort[trait] > 0) & (sizes[shapes[message]] >= _LEAST_MESSAGES)
    pairs, counts = np.unique(
        shapes[message[is_counted]] * len(table.tags) + trait[is_counted], return_counts=True
    )
    shape, trait = np.divmod(pairs, len(table.tags))
    families = len(table.ways) * 2
    place, inverse = np.unique(shape * families + family[trait], return_inverse=True)
    most = np.zeros(len(place), np.int64)
    np.maximum.at(most, inverse, counts)
    agreed = np.bincount(place % families, most, minlength=families)
    is_pure = agreed >= _PURE * np.maximum(_had(table, shapes, sizes), 1)
    return np.asarray((sort > 0) & is_pure[np.where(sort > 0, family, 0)])


# A field that is null, or no value at all, agrees with others that are.
_SORTS = {VALUE: 1, NULL: 1, OBJECT: 1, ARRAY: 1, MAGNITUDE: 2}


def _had(table: TraitTable, shapes: Ints, sizes: Ints) -> Ints:
    """How many messages have each field, and how many a number there.

    Values that are too rare to be traits count too: a field full of them is not fixed.
    """
    counts = table.counts(np.flatnonzero(sizes[shapes] >= _LEAST_MESSAGES))
    is_number = np.array([tag == NUMBER for tag in table.tags], bool)
    numbers = np.bincount(table.field[is_number], counts[is_number], minlength=len(table.ways))
    return np.column_stack([table.field_counts(counts), numbers]).ravel().astype(np.int64)
