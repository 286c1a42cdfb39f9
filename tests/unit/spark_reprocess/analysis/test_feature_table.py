"""Counting features as numbers gives the same as counting the texts."""

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.analysis.leads.features import NEWLINE, TAG, features_of
from spark_reprocess.analysis.leads.predicates import FeatureTable, feature_table

PATHS = ("body", "body\x1fa", "body\x1fa\x1fb", "body\x1fc\x1d", "body\x1fc")
TAGS = ("text", "number", "object", "+", "=x", "=y", "~3")
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
    counts = table.counts(np.arange(table.messages), np.ones(table.messages)).holds

    assert table.messages == len(messages)
    assert dict(zip(features, counts.astype(int).tolist(), strict=False)) == expected
    for number, feature in enumerate(features):
        assert table.holders.row(number).tolist() == [
            place for place, one in enumerate(messages) if feature in one
        ]


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
