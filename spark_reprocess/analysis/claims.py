"""What can be claimed of a group's messages, and how many each claim holds for. Pure; numpy.

Three sorts, in one row of numbers: a field has a trait; a field is there; a field is not there. A
claim is weighed among the messages for which it could hold: a value among those that have the
field, a field among those that have the object in which it would be.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np

from spark_reprocess.analysis.fixed_fields import FixedFields
from spark_reprocess.analysis.significance import Floats
from spark_reprocess.analysis.trait_table import Flags, Ints, TraitTable
from spark_reprocess.analysis.traits import BODY, INNER_JSON, MAGNITUDE, NUMBER, SEEN, STEP

_GENERAL = 0.9
"""What the shape fixes, nearly all of its messages have."""


class Sort(Enum):
    """What a claim says of its field."""

    TAG = "it has this value, magnitude or type"
    PRESENT = "it is there"
    MISSING = "it is not there"


class Claim(NamedTuple):
    """A claim in words that a program reads.

    Attributes:
        way: of its field, as ``traits`` builds it.
        tag: of its trait; empty unless *sort* is TAG.
    """

    sort: Sort
    way: str
    tag: str


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
        self._fixed = FixedFields(table, shapes)
        self._magnitudes, self._numbers = _magnitudes(table)

    def __len__(self) -> int:
        return self._tags + 2 * self._fields

    def held(self, counts: Floats, weight: float) -> Held:
        """Tell what holds for messages of this *weight* with these *counts* of traits."""
        table = self._table
        fields = table.field_counts(counts)
        could = np.where(table.home >= 0, counts[table.home], weight)
        # Of an object with too many fields those that came first are known all the same.
        there = np.minimum(fields, could)
        could_be = fields[table.field]
        # Not among texts: that it is a number at all is another claim.
        numbers = np.maximum(counts[self._numbers], counts[self._magnitudes])
        could_be[self._magnitudes] = numbers
        return Held(
            np.concatenate([counts, there, could - there]),
            np.concatenate([could_be, could, could]),
        )

    def fixed(self, shape: int, own: Held) -> Flags:
        """Tell for each claim whether the shape of a group's messages already makes it.

        Args:
            shape: of the group's messages.
            own: how many of them each claim holds for.
        """
        is_general = own.had[: self._tags] >= _GENERAL * own.could[: self._tags]
        values = self._fixed.of(shape) & is_general | self._table.is_kind
        return np.concatenate([values, np.ones(2 * self._fields, bool)])

    def said(self, claim: int) -> Claim:
        """Spell out a claim."""
        table = self._table
        if claim < self._tags:
            return Claim(Sort.TAG, table.ways[table.field[claim]], table.tags[claim])
        sort = Sort.PRESENT if claim < self._tags + self._fields else Sort.MISSING
        return Claim(sort, table.ways[self.field(claim)], "")

    def is_in_body(self, claim: int) -> bool:
        """Whether it is about a field of the body."""
        return self._table.ways[self.field(claim)].startswith(BODY + STEP)

    def field(self, claim: int) -> int:
        """Return the number of the field that a claim is about."""
        if claim < self._tags:
            return int(self._table.field[claim])
        return (claim - self._tags) % self._fields

    def holders(self, claim: int) -> Flags:
        """Tell for each message of the sample whether the claim holds."""
        table = self._table
        if claim < self._tags:
            return self._having([claim])
        has_field = self._having(table.kinds_of.row(self.field(claim)))
        if claim < self._tags + self._fields:
            return has_field
        return np.asarray(self.candidates(claim) & ~has_field)

    def candidates(self, claim: int) -> Flags:
        """Tell for each message of the sample whether the claim could hold."""
        table = self._table
        if claim < self._tags:
            return self._having(table.kinds_of.row(self.field(claim)))
        home = int(table.home[self.field(claim)])
        return np.ones(table.messages, bool) if home < 0 else self._having([home])

    def _having(self, traits: Iterable[int]) -> Flags:
        has = np.zeros(self._table.messages, bool)
        for trait in traits:
            has[self._table.holders.row(int(trait))] = True
        return has


def _magnitudes(table: TraitTable) -> tuple[Ints, Ints]:
    """The traits that say a magnitude, and of each the trait that its field is a number."""
    numbers = {int(table.field[i]): i for i, tag in enumerate(table.tags) if tag == NUMBER}
    found = [
        (i, numbers[int(table.field[i])])
        for i, tag in enumerate(table.tags)
        if tag.startswith(MAGNITUDE) and int(table.field[i]) in numbers
    ]
    pairs = np.array(found, np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _is_place(way: str) -> bool:
    """Whether something could stand there or not: neither the whole body nor JSON in a text."""
    return not way.endswith(INNER_JSON) and (STEP in way or not way.startswith(BODY))
