"""Count features and evaluate predicates over a sample of messages. Pure; numpy and pyarrow.

A predicate is a statement about one field of a message: it has a feature (a value, magnitude or
type), is present, or is missing. It applies to a part of the messages only: one about a value to
messages that have the field, one about presence to messages that have the object which contains the
field. Shares are always shares of the messages to which the predicate applies.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_reprocess.analysis.leads.features import (
    BODY,
    COMPLETE,
    ELEMENT,
    INNER_JSON,
    MAGNITUDE,
    NEWLINE,
    NUMBER,
    STEP,
    TAG,
    TYPES,
    VALUE,
)

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Cells = npt.NDArray[np.float32]
"""1 or 0, by predicate and message."""

_LEAST_MESSAGES = 3
"""Values that fewer messages have are dropped: most values are unique ids."""


@dataclass(frozen=True, slots=True)
class Occurrences:
    """A sparse matrix: row *i* has the columns ``columns[starts[i]:starts[i + 1]]``."""

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
class FeatureTable:
    """The features of each message, as numbers.

    Attributes:
        paths: of each field.
        tags: of each feature.
        field: of each feature, the number of its field.
        is_type: of each feature, whether it is a type: each field of a message has exactly one.
        parent: of each field, the feature that says that the object around it was read completely;
            -1 for fields that have no such object.
        features: of each message.
    """

    paths: tuple[str, ...]
    tags: tuple[str, ...]
    field: Ints
    is_type: Flags
    parent: Ints
    features: Occurrences

    @property
    def messages(self) -> int:
        """How many there are."""
        return len(self.features.starts) - 1

    @cached_property
    def holders(self) -> Occurrences:
        """Of each feature the messages that have it, ascending."""
        lengths = np.diff(self.features.starts)
        message = np.repeat(np.arange(self.messages), lengths)
        order = np.argsort(self.features.columns, kind="stable")
        counts = np.bincount(self.features.columns, minlength=len(self.tags))
        return Occurrences(np.concatenate([[0], np.cumsum(counts)]), message[order])

    def types_of(self, field: int) -> Ints:
        """Return the features that are types of a field."""
        return np.flatnonzero(self.is_type & (self.field == field))

    def counts(self, messages: Ints, weights: Floats | None = None) -> Floats:
        """Return for each feature how many of these messages have it, or their total weight."""
        features, position = self.features.of(messages)
        of_each = None if weights is None else weights[position]
        return np.asarray(np.bincount(features, of_each, minlength=len(self.tags)), np.float64)

    def field_counts(self, counts: Floats) -> Floats:
        """Return for each field how many messages have it, given the counts of the features."""
        types = np.flatnonzero(self.is_type)
        sums = np.bincount(self.field[types], counts[types], minlength=len(self.paths))
        return np.asarray(sums, np.float64)


def feature_table(lines: pa.StringArray) -> FeatureTable:
    """Build the table from the texts of ``features_of``, one per message."""
    split = pc.split_pattern(lines, NEWLINE)
    encoded: Any = split.values.dictionary_encode()  # pyarrow's stubs lack this
    codes = encoded.indices.to_numpy().astype(np.int64)
    starts = split.offsets.to_numpy().astype(np.int64)
    parts = pc.split_pattern(encoded.dictionary, TAG, max_splits=1)
    path, tag = pc.list_element(parts, 0), pc.list_element(parts, 1)
    is_type = pc.is_in(tag, pa.array(TYPES)).to_numpy(zero_copy_only=False)
    is_complete = pc.is_in(tag, pa.array([COMPLETE])).to_numpy(zero_copy_only=False)
    is_common = np.bincount(codes, minlength=len(tag)) >= _LEAST_MESSAGES
    is_kept = is_type | is_complete | is_common
    occurs = is_kept[codes]
    kept_before = np.concatenate([[0], np.cumsum(occurs)])
    new_codes = np.cumsum(is_kept) - 1
    paths = path.filter(pa.array(is_kept)).dictionary_encode()
    names = tuple(paths.dictionary.to_pylist())
    field = paths.indices.to_numpy().astype(np.int64)
    tags = tuple(tag.filter(pa.array(is_kept)).to_pylist())
    return FeatureTable(
        paths=names,
        tags=tags,
        field=field,
        is_type=is_type[is_kept],
        parent=_parents(names, field, tags),
        features=Occurrences(kept_before[starts], new_codes[codes[occurs]]),
    )


class Kind(Enum):
    """What a predicate says about its field."""

    TAG = "has this value, magnitude or type"
    PRESENT = "is present"
    MISSING = "is missing"


class Predicate(NamedTuple):
    """A predicate, with the path of its field; *tag* is empty unless *kind* is TAG."""

    kind: Kind
    path: str
    tag: str


@dataclass(frozen=True, slots=True)
class Counts:
    """Of each predicate, for how many messages it holds and to how many it applies."""

    holds: Floats
    applies: Floats

    @property
    def shares(self) -> Floats:
        """Of each predicate the share of messages for which it holds, 0 to 1."""
        return np.clip(self.holds / np.maximum(self.applies, 1e-9), 0.0, 1.0)


class Predicates:
    """All predicates of a sample, numbered: features first, then present, then missing fields."""

    def __init__(self, table: FeatureTable) -> None:
        """Number the predicates over the features of *table*."""
        self._table = table
        self._tags, self._fields = len(table.tags), len(table.paths)
        # The whole body, and JSON in a text, cannot be missing.
        is_in_object = np.array(
            [
                not path.endswith(INNER_JSON) and (STEP in path or not path.startswith(BODY))
                for path in table.paths
            ],
            bool,
        )
        is_statement = np.array([tag != COMPLETE for tag in table.tags], bool)
        self.is_predicate: Flags = np.concatenate([is_statement, is_in_object, is_in_object])
        nothing = np.zeros(self._fields, bool)
        self.is_present: Flags = np.concatenate([np.zeros(self._tags, bool), ~nothing, nothing])
        is_number = np.array([tag == NUMBER for tag in table.tags], bool)
        is_magnitude = np.array([tag[:1] == MAGNITUDE for tag in table.tags], bool)
        number_of = np.full(self._fields, -1)
        number_of[table.field[is_number]] = np.flatnonzero(is_number)
        self._magnitudes = np.flatnonzero(is_magnitude & (number_of[table.field] >= 0))
        self._numbers = number_of[table.field[self._magnitudes]]

    def counts(self, features: Floats, weight: float) -> Counts:
        """Count what holds for messages with these counts of features and this total weight."""
        table = self._table
        fields = table.field_counts(features)
        complete = np.where(table.parent >= 0, features[table.parent], weight)
        # An object with too many fields is not complete, but its first fields are known.
        present = np.minimum(fields, complete)
        with_field = fields[table.field]
        # A magnitude applies to numbers only: that a field is a number is another predicate.
        with_field[self._magnitudes] = np.maximum(
            features[self._numbers], features[self._magnitudes]
        )
        return Counts(
            np.concatenate([features, present, complete - present]),
            np.concatenate([with_field, complete, complete]),
        )

    def bound_to_shape(self, is_constant: Flags) -> Flags:
        """Return for each predicate whether the shape of a message may imply it.

        *is_constant* names the values of constant fields: see ``ConstantFields.of``.
        """
        return np.concatenate([is_constant | self._table.is_type, np.ones(2 * self._fields, bool)])

    def predicate(self, number: int) -> Predicate:
        """Return the predicate with this number."""
        table = self._table
        if number < self._tags:
            return Predicate(Kind.TAG, table.paths[table.field[number]], table.tags[number])
        field = (number - self._tags) % self._fields
        is_present = number < self._tags + self._fields
        return Predicate(Kind.PRESENT if is_present else Kind.MISSING, table.paths[field], "")

    def field_of(self, numbers: Ints) -> Ints:
        """Return the number of each predicate's field."""
        fields = (numbers - self._tags) % max(self._fields, 1)
        is_tag = numbers < self._tags
        fields[is_tag] = self._table.field[numbers[is_tag]]
        return fields

    def values_of(self, number: int) -> Ints:
        """Return the values of the field of a value, or the magnitudes of that of a magnitude."""
        table, kind = self._table, self.predicate(number).tag[:1]
        if kind not in (VALUE, MAGNITUDE):
            return np.zeros(0, np.int64)
        features = np.flatnonzero(table.field == table.field[number])
        return features[[table.tags[one][:1] == kind for one in features]]

    def all_hold(self, numbers: Iterable[int]) -> Flags:
        """Return for each message of the sample whether all of these predicates hold."""
        return np.asarray(np.all([self.holds(one) for one in numbers], axis=0))

    def all_apply(self, numbers: Iterable[int]) -> Flags:
        """Return for each message of the sample whether all of these predicates apply to it."""
        return np.asarray(np.all([self.applies(one) for one in numbers], axis=0))

    def holds(self, number: int) -> Flags:
        """Return for each message of the sample whether the predicate holds."""
        if number < self._tags:
            return self._with_any([number])
        has_field = self._with_any(self._table.types_of((number - self._tags) % self._fields))
        if number < self._tags + self._fields:
            return has_field
        return np.asarray(self.applies(number) & ~has_field)

    def applies(self, number: int) -> Flags:
        """Return for each message of the sample whether the predicate applies to it."""
        table = self._table
        if number < self._tags:
            return self._with_any(table.types_of(int(table.field[number])))
        parent = int(table.parent[(number - self._tags) % self._fields])
        return np.ones(table.messages, bool) if parent < 0 else self._with_any([parent])

    def _with_any(self, features: Iterable[int]) -> Flags:
        has = np.zeros(self._table.messages, bool)
        for feature in features:
            has[self._table.holders.row(int(feature))] = True
        return has


def _parents(paths: tuple[str, ...], field: Ints, tags: tuple[str, ...]) -> Ints:
    """Return of each field the number of its object or array, where that is complete; else -1."""
    complete = {paths[field[i]]: i for i, tag in enumerate(tags) if tag == COMPLETE}
    parents = (
        path[:-1] if path.endswith((ELEMENT, INNER_JSON)) else path.rpartition(STEP)[0]
        for path in paths
    )
    return np.array([complete.get(parent, -1) for parent in parents], dtype=np.int64)
