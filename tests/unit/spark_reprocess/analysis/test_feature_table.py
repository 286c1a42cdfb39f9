"""Counting features as numbers gives the same as counting the texts."""

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.analysis.leads.features import NEWLINE, TAG, features_of
from spark_reprocess.analysis.leads.predicates import FeatureTable, Occurrences, feature_table

PATHS = ("body", "body\x1fa", "body\x1fa\x1fb", "body\x1fc\x1d", "body\x1fc")
TAGS = ("T", "N", "O", "+", "=x", "=y", "~3")
MESSAGES = st.lists(
    st.lists(st.tuples(st.sampled_from(PATHS), st.sampled_from(TAGS)), min_size=1, unique=True),
    min_size=1,
    max_size=30,
)


def table_of(messages: list[list[tuple[str, str]]]) -> FeatureTable:
    return feature_table(
        pa.array([NEWLINE.join(f"{path}{TAG}{tag}" for path, tag in one) for one in messages])
    )


@given(MESSAGES)
def test_what_is_not_rare_is_counted_and_keeps_its_holders(
    messages: list[list[tuple[str, str]]],
) -> None:
    table = table_of(messages)
    counted = Counter(feature for one in messages for feature in one)
    expected = {one: n for one, n in counted.items() if one[1][0] not in "=~" or n >= 3}

    features = [(table.paths[table.field[i]], tag) for i, tag in enumerate(table.tags)]
    counts = table.counts(np.arange(table.messages))

    assert table.messages == len(messages)
    assert dict(zip(features, counts.astype(int).tolist(), strict=True)) == expected
    for number, feature in enumerate(features):
        assert table.holders.row(number).tolist() == [
            place for place, one in enumerate(messages) if feature in one
        ]


@given(MESSAGES, st.data())
def test_weights_count_as_so_many_messages(
    messages: list[list[tuple[str, str]]], data: st.DataObject
) -> None:
    table = table_of(messages)
    weights = data.draw(st.lists(st.integers(0, 5), min_size=len(messages), max_size=len(messages)))
    repeated = np.repeat(np.arange(table.messages), weights)

    resolved_plan = table.counts(np.arange(table.messages), np.array(weights, float))

    assert resolved_plan.tolist() == table.counts(repeated).tolist()


@given(MESSAGES)
def test_a_field_is_there_as_often_as_it_has_a_type(messages: list[list[tuple[str, str]]]) -> None:
    table = table_of(messages)
    types = Counter(path for one in messages for path, tag in one if tag in ("T", "N", "O"))

    found = table.field_counts(table.counts(np.arange(table.messages)))

    assert dict(zip(table.paths, found.astype(int).tolist(), strict=True)) == {
        path: types[path] for path in table.paths
    }
    for field, path in enumerate(table.paths):
        tags = {table.tags[feature] for feature in table.types_of(field)}
        assert tags <= {"T", "N", "O"}, path


def test_a_field_s_parent_is_the_object_that_was_looked_at() -> None:
    body = '{"a": {"b": [{"c": 1}]}, "d": "{\\"e\\": 1}"}'
    table = feature_table(pa.array([features_of(body, 9, (), {})] * 3))
    parents = {
        path: table.paths[table.field[parent]] if parent >= 0 else ""
        for path, parent in zip(table.paths, table.parent, strict=True)
    }

    a, b = "body\x1fa", "body\x1fa\x1fb"
    assert parents[a] == "body"
    assert parents[b] == a
    assert parents[f"{b}\x1d"] == b
    assert parents[f"{b}\x1d\x1fc"] == f"{b}\x1d"
    assert parents["body\x1fd\x1e\x1fe"] == "body\x1fd\x1e"
    assert parents["body"] == parents["body_bytes"] == ""


def test_a_field_of_an_object_that_was_not_looked_at_has_no_parent() -> None:
    table = table_of([[("body", "O"), ("body\x1fa", "T")]])

    assert table.parent.tolist() == [-1, -1]


def test_occurrences_of_rows_come_in_the_order_asked_for() -> None:
    rows = Occurrences(np.array([0, 2, 2, 5]), np.array([7, 8, 1, 2, 3]))

    columns, position = rows.of(np.array([2, 1, 0]))

    assert columns.tolist() == [1, 2, 3, 7, 8]
    assert position.tolist() == [0, 0, 0, 2, 2]
