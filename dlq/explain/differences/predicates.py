"""Count features and evaluate predicates over a sample of messages. Pure; numpy and pyarrow.

A predicate is a statement about one field of a message: it has a feature (a value, magnitude or
type), is present, or is missing. It applies to a part of the messages only: one about a value to
messages that have the field, one about presence to messages that have the object which contains the
field. Shares are always shares of the messages to which the predicate applies.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dlq.explain.differences.features import (
    BODY,
    COMPLETE,
    ELEMENT,
    INNER_JSON,
    MAGNITUDE,
    MISSING,
    NEWLINE,
    PRESENT,
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

_CACHED = 512
"""Predicates whose messages are cached: each takes a byte for each message of the sample."""


class Predicate(NamedTuple):
    """The path of a field, and the tag of a feature, ``PRESENT`` or ``MISSING``."""

    path: str
    tag: str


@dataclass(frozen=True)
class Counts:
    """The number of messages for which each predicate holds, and to which it applies."""

    holds: Floats
    applies: Floats

    @cached_property
    def shares(self) -> Floats:
        """The share of messages for which each predicate holds, 0 to 1."""
        return np.minimum(self.holds / np.maximum(self.applies, 1e-9), 1.0)


@dataclass(frozen=True, slots=True)
class Occurrences:
    """A sparse matrix: row *i* has the columns ``columns[starts[i]:starts[i + 1]]``."""

    starts: Ints
    columns: Ints

    def of(self, rows: Ints) -> tuple[Ints, Ints]:
        """Return all columns of these rows, and how many each row has."""
        lengths = self.starts[rows + 1] - self.starts[rows]
        ends = np.cumsum(lengths)
        first = np.repeat(self.starts[rows + 1] - ends, lengths)
        return self.columns.take(first + np.arange(len(first))), lengths


@dataclass(frozen=True)
class FeatureTable:
    """The features of each message, as numbers.

    The predicates are numbered: first the features, then each field's presence, then its lack.

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
        """The number of messages."""
        return len(self.features.starts) - 1

    @cached_property
    def message(self) -> Ints:
        """The message of each occurrence in *features*."""
        return np.repeat(np.arange(self.messages), np.diff(self.features.starts))

    @cached_property
    def holders(self) -> Occurrences:
        """The messages that have each feature, ascending."""
        # Small numbers are sorted far more quickly.
        columns = self.features.columns.astype(np.min_scalar_type(len(self.tags)))
        order = np.argsort(columns, kind="stable")
        counts = np.bincount(self.features.columns, minlength=len(self.tags))
        return Occurrences(np.concatenate([[0], np.cumsum(counts)]), self.message[order])

    @cached_property
    def is_predicate(self) -> Flags:
        """For each predicate, true if it can be a condition."""
        is_statement = np.array([tag != COMPLETE for tag in self.tags], bool)
        can_be_missing = np.array(list(map(_can_be_missing, self.paths)), bool)
        return np.concatenate([is_statement, can_be_missing, can_be_missing])

    def counts(self, messages: Ints, weights: Floats) -> Counts:
        """Count these messages for each predicate, by their weights."""
        having, lengths = self.features.of(messages)
        features = np.bincount(having, np.repeat(weights, lengths), minlength=len(self.tags))
        types = np.flatnonzero(self.is_type)
        fields = np.bincount(self.field[types], features[types], minlength=len(self.paths))

        complete = np.where(self.parent >= 0, features[self.parent], weights.sum())
        # An object with too many fields is not complete, but its first fields are known.
        present = np.minimum(fields, complete)
        return Counts(
            holds=np.concatenate([features, present, complete - present]),
            applies=np.concatenate([fields[self.field], complete, complete]),
        )

    def predicate(self, number: int) -> Predicate:
        """Return the predicate with this number."""
        if number < len(self.tags):
            return Predicate(self.paths[self.field[number]], self.tags[number])
        is_lack, field = divmod(number - len(self.tags), len(self.paths))
        return Predicate(self.paths[field], MISSING if is_lack else PRESENT)

    @cached_property
    def field_of(self) -> Ints:
        """The number of the field of each predicate."""
        fields = np.arange(len(self.paths))
        return np.concatenate([self.field, fields, fields])

    def values_of(self, number: int) -> Ints:
        """Return all values of the field that a predicate about a value names.

        Of one about a magnitude, return the magnitudes; of any other, nothing.
        """
        kind = self.predicate(number).tag[:1]
        if kind not in (VALUE, MAGNITUDE):
            return np.zeros(0, np.int64)
        features = np.flatnonzero(self.field == self.field[number])
        is_of_kind = [self.tags[feature].startswith(kind) for feature in features]
        return features[is_of_kind]

    def all_hold(self, numbers: Iterable[int]) -> Flags:
        """Return for each message whether all of these predicates hold."""
        return np.asarray(np.all(list(map(self.holds, numbers)), axis=0))

    @cached_property
    def holds(self) -> Callable[[int], Flags]:
        """Function that returns for each message whether a predicate holds."""
        # All groups ask for the same few predicates.
        return lru_cache(maxsize=_CACHED)(self._holds)

    def applies(self, number: int) -> Flags:
        """Return for each message whether the predicate applies to it."""
        field = int(self.field_of[number])
        if number < len(self.tags):
            return self.holds(len(self.tags) + field)
        parent = int(self.parent[field])
        return np.ones(self.messages, bool) if parent < 0 else self.holds(parent)

    def _holds(self, number: int) -> Flags:
        is_lack = number >= len(self.tags) + len(self.paths)
        if is_lack:
            return self.applies(number) & ~self.holds(number - len(self.paths))

        features = np.array([number])
        is_presence = number >= len(self.tags)
        if is_presence:
            features = np.flatnonzero(self.is_type & (self.field == self.field_of[number]))
        holders, _ = self.holders.of(features)
        holds = np.zeros(self.messages, bool)
        holds[holders] = True
        return holds


def _can_be_missing(path: str) -> bool:
    # The whole body, its size, and JSON in a text cannot be missing.
    is_whole_body = path.startswith(BODY) and STEP not in path
    return not is_whole_body and not path.endswith(INNER_JSON)


def feature_table(lines: pa.StringArray) -> FeatureTable:
    """Build the table from the texts of ``features_of``, one per message."""
    split = pc.split_pattern(lines, NEWLINE)
    encoded: Any = split.values.dictionary_encode()  # pyarrow's stubs lack this
    codes = encoded.indices.to_numpy().astype(np.int64)
    starts = split.offsets.to_numpy().astype(np.int64)

    parts = pc.split_pattern(encoded.dictionary, TAG, max_splits=1)
    path = pc.list_element(parts, 0)
    tag = pc.list_element(parts, 1)
    is_type = pc.is_in(tag, pa.array(TYPES)).to_numpy(zero_copy_only=False)
    is_complete = pc.is_in(tag, pa.array([COMPLETE])).to_numpy(zero_copy_only=False)
    is_common = np.bincount(codes, minlength=len(tag)) >= _LEAST_MESSAGES
    is_feature = is_type | is_complete | is_common

    # Number the features without those that are dropped.
    is_feature_here = is_feature[codes]
    features_before = np.concatenate([[0], np.cumsum(is_feature_here)])
    numbers = np.cumsum(is_feature) - 1
    features = Occurrences(features_before[starts], numbers[codes[is_feature_here]])

    encoded_paths = path.filter(pa.array(is_feature)).dictionary_encode()
    paths = tuple(encoded_paths.dictionary.to_pylist())
    field = encoded_paths.indices.to_numpy().astype(np.int64)
    tags = tuple(tag.filter(pa.array(is_feature)).to_pylist())
    return FeatureTable(
        paths=paths,
        tags=tags,
        field=field,
        is_type=is_type[is_feature],
        parent=_parents(paths, field, tags),
        features=features,
    )


def _parents(paths: tuple[str, ...], field: Ints, tags: tuple[str, ...]) -> Ints:
    """Return of each field the number of its object or array, where that is complete; else -1."""
    complete = {}
    for feature, tag in enumerate(tags):
        if tag == COMPLETE:
            path = paths[field[feature]]
            complete[path] = feature
    parents = [complete.get(_parent_path(path), -1) for path in paths]
    return np.array(parents, dtype=np.int64)


def _parent_path(path: str) -> str:
    if path.endswith((ELEMENT, INNER_JSON)):
        return path[:-1]
    return path.rpartition(STEP)[0]
