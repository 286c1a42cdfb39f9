"""The traits of sampled messages as numbers: which message has which trait. Pure; pyarrow, numpy.

Texts become codes once; what follows is counting.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_reprocess.analysis.significance import Floats
from spark_reprocess.analysis.traits import ELEMENT, INNER_JSON, KINDS, NEXT, SEEN, STEP, TAG

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_RARE = 3
"""A value that fewer messages have is no lead, and most values are: ids."""


@dataclass(frozen=True, slots=True)
class Occurrences:
    """For each row the columns that it has: row *i* has ``columns[starts[i]:starts[i + 1]]``."""

    starts: Ints
    columns: Ints

    def of(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return all columns of these rows, and for each the position of its row in *rows*."""
        lengths = self.starts[rows + 1] - self.starts[rows]
        position = np.repeat(np.arange(len(rows)), lengths)
        offset = np.arange(len(position)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        return self.columns[self.starts[rows][position] + offset], position

    def row(self, row: int) -> Ints:
        """Return the columns of one row."""
        return self.columns[self.starts[row] : self.starts[row + 1]]


@dataclass(frozen=True)
class TraitTable:
    """Messages and their traits.

    Attributes:
        ways: the way of each field.
        tags: of each trait.
        field: of each trait the field.
        is_kind: of each trait, whether it says the field's type; every field of a message has one.
        home: of each field the trait that all of what it is in was looked at, -1 where that is
            sure.
        traits: by message.
    """

    ways: tuple[str, ...]
    tags: tuple[str, ...]
    field: Ints
    is_kind: Flags
    home: Ints
    traits: Occurrences

    @property
    def messages(self) -> int:
        """How many messages there are."""
        return len(self.traits.starts) - 1

    @cached_property
    def holders(self) -> Occurrences:
        """By trait the messages that have it, ascending."""
        lengths = np.diff(self.traits.starts)
        message = np.repeat(np.arange(self.messages), lengths)
        order = np.argsort(self.traits.columns, kind="stable")
        counts = np.bincount(self.traits.columns, minlength=len(self.tags))
        return Occurrences(_starts(counts), message[order])

    @cached_property
    def kinds_of(self) -> Occurrences:
        """By field its traits that say its type."""
        kinds = np.flatnonzero(self.is_kind)
        order = np.argsort(self.field[kinds], kind="stable")
        counts = np.bincount(self.field[kinds], minlength=len(self.ways))
        return Occurrences(_starts(counts), kinds[order])

    def counts(self, messages: Ints, weights: Floats | None = None) -> Floats:
        """Return for each trait how many of these messages have it, or what they weigh."""
        traits, position = self.traits.of(messages)
        of_each = None if weights is None else weights[position]
        return np.asarray(np.bincount(traits, of_each, minlength=len(self.tags)), np.float64)

    def field_counts(self, counts: Floats) -> Floats:
        """Return for each field how many messages have it, given the counts of the traits."""
        kinds = np.flatnonzero(self.is_kind)
        sums = np.bincount(self.field[kinds], counts[kinds], minlength=len(self.ways))
        return np.asarray(sums, np.float64)


def trait_table(lines: pa.StringArray) -> TraitTable:
    """Read what ``traits_of`` wrote, one text per message."""
    split = pc.split_pattern(lines, NEXT)
    encoded: Any = split.values.dictionary_encode()  # pyarrow's stubs know less than pyarrow
    codes = encoded.indices.to_numpy().astype(np.int64)
    starts = split.offsets.to_numpy().astype(np.int64)
    parts = pc.split_pattern(encoded.dictionary, TAG, max_splits=1)
    way, tag = pc.list_element(parts, 0), pc.list_element(parts, 1)
    is_kind = pc.is_in(tag, pa.array(KINDS)).to_numpy(zero_copy_only=False)
    is_seen = pc.is_in(tag, pa.array([SEEN])).to_numpy(zero_copy_only=False)
    is_kept = is_kind | is_seen | (np.bincount(codes, minlength=len(tag)) >= _RARE)
    occurs = is_kept[codes]
    kept_before = np.concatenate([[0], np.cumsum(occurs)])
    new_codes = np.cumsum(is_kept) - 1
    ways = way.filter(pa.array(is_kept)).dictionary_encode()
    names = tuple(ways.dictionary.to_pylist())
    field = ways.indices.to_numpy().astype(np.int64)
    tags = tuple(tag.filter(pa.array(is_kept)).to_pylist())
    return TraitTable(
        ways=names,
        tags=tags,
        field=field,
        is_kind=is_kind[is_kept],
        home=_homes(names, field, tags),
        traits=Occurrences(kept_before[starts], new_codes[codes[occurs]]),
    )


def _homes(ways: tuple[str, ...], field: Ints, tags: tuple[str, ...]) -> Ints:
    seen = {ways[field[i]]: i for i, tag in enumerate(tags) if tag == SEEN}
    return np.array([seen.get(_home(way), -1) for way in ways], dtype=np.int64)


def _home(way: str) -> str:
    """The object or array that a field is in."""
    return way[:-1] if way.endswith((ELEMENT, INNER_JSON)) else way.rpartition(STEP)[0]


def _starts(counts: npt.NDArray[np.intp]) -> Ints:
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
