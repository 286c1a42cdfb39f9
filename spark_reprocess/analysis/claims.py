"""What can be claimed of a group's messages, and how many each claim holds for. Pure; numpy.

Three sorts, in one row of numbers: a field has a trait; a field is there; a field is not there. A
claim is weighed among the messages for which it could hold: a value among those that have the
field, a field among those that have the object in which it would be.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from spark_reprocess.analysis.fixed_fields import fixed_by_shape
from spark_reprocess.analysis.significance import Floats
from spark_reprocess.analysis.trait_table import Flags, Ints, TraitTable
from spark_reprocess.analysis.traits import BODY, INNER_JSON, SEEN, STEP


class Sort(Enum):
    """What a claim says of its field."""

    TAG = "it has this value, magnitude or type"
    PRESENT = "it is there"
    MISSING = "it is not there"


@dataclass(frozen=True, slots=True)
class Held:
    """How many of some messages each claim holds for, and how many it could hold for."""

    had: Floats
    could: Floats


class Claims:
    """All claims that the traits of a sample allow."""

    def __init__(self, table: TraitTable, shapes: Ints) -> None:
        """Take the sample.

        Args:
            table: the traits of its messages.
            shapes: of each message the number of its payload's shape.
        """
        self._table = table
        self._tags, self._fields = len(table.tags), len(table.ways)
        is_place = np.array([_is_place(way) for way in table.ways], bool)
        self.is_claim: Flags = np.concatenate(
            [np.array([tag != SEEN for tag in table.tags], bool), is_place, is_place]
        )
        nothing = np.zeros(self._fields, bool)
        self.is_type: Flags = np.concatenate([table.is_kind, nothing, nothing])
        is_fixed = fixed_by_shape(table, shapes) | table.is_kind
        self.is_fixed: Flags = np.concatenate([is_fixed, ~nothing, ~nothing])

    def __len__(self) -> int:
        return self._tags + 2 * self._fields

    def held(self, counts: Floats, weight: float) -> Held:
        """Tell what holds for messages of this *weight* with these *counts* of traits."""
        table = self._table
        fields = table.field_counts(counts)
        could = np.where(table.home >= 0, counts[table.home], weight)
        # Of an object with too many fields those that came first are known all the same.
        there = np.minimum(fields, could)
        return Held(
            np.concatenate([counts, there, could - there]),
            np.concatenate([fields[table.field], could, could]),
        )

    def said(self, claim: int) -> tuple[Sort, str, str]:
        """Return the claim's sort, the way of its field and, for a TAG, the trait's tag."""
        table = self._table
        if claim < self._tags:
            return Sort.TAG, table.ways[table.field[claim]], table.tags[claim]
        sort = Sort.PRESENT if claim < self._tags + self._fields else Sort.MISSING
        return sort, table.ways[self.field(claim)], ""

    def field(self, claim: int) -> int:
        """Return the number of the field that a claim is about."""
        if claim < self._tags:
            return int(self._table.field[claim])
        return (claim - self._tags) % self._fields

    def holders(self, claim: int) -> Flags:
        """Tell for each message of the sample whether the claim holds."""
        table = self._table
        holds = np.zeros(table.messages, bool)
        if claim < self._tags:
            holds[table.holders.row(claim)] = True
            return holds
        field = self.field(claim)
        for kind in table.kinds_of.row(field):
            holds[table.holders.row(int(kind))] = True
        if claim < self._tags + self._fields:
            return holds
        home = int(table.home[field])
        could = np.full(table.messages, home < 0)
        if home >= 0:
            could[table.holders.row(home)] = True
        return np.asarray(could & ~holds)


def _is_place(way: str) -> bool:
    """Whether something could stand there or not: neither the whole body nor JSON in a text."""
    return not way.endswith(INNER_JSON) and (STEP in way or not way.startswith(BODY))
