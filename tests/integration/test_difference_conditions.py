"""A difference's condition selects, on each engine, the messages for which it holds."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from dlq.archive.messages.dead_letter_schema import ARROW_SCHEMA
from dlq.archive.messages.message_reading import read_files_work
from dlq.archive.messages.message_store import message_files
from dlq.errors import InputError
from dlq.explain.differences.difference_format import condition
from dlq.explain.differences.features import COLUMNS, features_of, path_text
from dlq.explain.differences.predicates import feature_table
from dlq.local_engine import LocalEngine
from dlq.sql.duckdb_engine import matching
from dlq.sql.duckdb_sql import for_duckdb
from dlq.sql.duckdb_terms import NEEDS_SPARK
from dlq_replay.wire.attributes import MessageAttribute
from spark_reprocess.allowed_sql import condition as condition_of
from tests.integration.spark_world import Spark, archive_of
from tests.support.builders import message, text

NASTY = (
    "it's",
    'say "hi"',
    "back\\slash",
    "a`b",
    "a.b",
    "$.a",
    "a[0]",
    "a]b",
    "['a']",
    "*",
    "@type",
    "ключ",
    "👩‍👩‍👧",
    "a b",
    " a ",
    "%_",
    "{a}",
    "",
    "null",
    "true",
    "-- x",
    "; DROP TABLE x",
)
VALUES: tuple[Any, ...] = (
    0,
    5,
    -5,
    7,
    123_456,
    -123_456,
    999_999_999,
    12_345_678_901_234_567_890,
    0.5,
    -0.5,
    1.5,
    1e5,
    1e-7,
    1e300,
    5.0,
    "5",
    "0005",
    "12345678901",
    "-0",
    True,
    False,
    None,
)
REFUSED_HERE = ("12345678901234567890", "1e+300", "1e-07")
"""Numbers of which DuckDB does not say what Spark says: messages with them need Spark."""

CONTAINERS: tuple[Any, ...] = ({}, [], [[]], [{}], [None], {"v": []}, {"v": [5]})
ARRAYS: tuple[Any, ...] = (
    [{"sku": "A"}, {"sku": "B", "n": 1}],
    [{"sku": "A"}],
    [{"sku": None}, {"n": None}],
    ["u", "v", 5],
    ["u"],
    [{"a": {"b": [{"c": 'q"'}]}}, {"a": {"b": []}}],
    [5, "5"],
    [],
)
NESTED: tuple[Any, ...] = ([["x"], ["y", "z"]], [["it's"]], [[]], [])
BODIES = (
    *(json.dumps({name: "v", "x": {name: [name]}}) for name in NASTY),
    *(json.dumps({"v": value, "o": {"v": value}}) for value in (*NASTY, *VALUES)),
    *(json.dumps({"items": array}) for array in ARRAYS),
    *(json.dumps({"rows": {"all": array}}) for array in NESTED),
    *(json.dumps({name: container}) for name, container in zip("abcdefg", CONTAINERS, strict=True)),
    *(json.dumps({"Message": json.dumps({"v": value})}) for value in ("it's", 5, None, ["u"])),
    *(json.dumps(value) for value in (*VALUES, "a text", json.dumps({"v": 5}))),
    "",
    "  ",
    "\n",
    "plain text",
    "it's",
    "{broken",
    "<a/>",
    "null ",
    "NaN",
    "eyJ2Ijo1fQ==",
    *(json.dumps(["a.S3Pointer", {"s3BucketName": b, "s3Key": f"{b}/x/k"}]) for b in ("it's", "b")),
    '["a.S3Pointer", {"s3BucketName": "b", "s3Key": "k"}]',
    '{"v":\t5}',
    '{"v": "\\u0065"}',
    '{"v": -0}',
    '{"v": 1E2}',
    "[1, 2",
)
ATTRIBUTES: tuple[dict[str, MessageAttribute], ...] = (
    {"tenant": text("it's"), "a.b": text("x")},
    {"tenant": text("5", "Number")},
    {"tenant": MessageAttribute("Binary", b"\x00")},
    {"it's": text("\\"), "a`b": text("ä")},
    {},
)


@pytest.fixture
def rows(tmp_path: Path) -> pa.Table:
    """The messages, in the order of ``BODIES``."""
    messages = []
    for place, body in enumerate(BODIES):
        attributes = ATTRIBUTES[place % len(ATTRIBUTES)]
        message_group = ("it's", "a\\b", "plain")[place % 3]
        letter = message(f"m-{place:03d}", body, attributes, MessageGroupId=message_group)
        messages.append(letter)
    archive = archive_of(tmp_path, messages)
    (path,) = message_files(archive)
    work = read_files_work(archive, [path], ARROW_SCHEMA.names, 1)
    return LocalEngine().run(work).sort_by("message_id")


def test_a_condition_selects_on_spark_what_its_difference_says(
    spark: Spark, rows: pa.Table
) -> None:
    wanted = said_of(rows.to_pylist())
    frame = spark.createDataFrame(rows).coalesce(1)

    condition_of(frame, " OR ".join(f"({sql})" for sql in wanted))
    columns = [F.coalesce(condition_of(frame, sql), F.lit(False)) for sql in wanted]  # noqa: FBT003 - a value
    names: list[Any] = ["message_id", *(column.alias(f"c{n}") for n, column in enumerate(columns))]
    flags = frame.select(*names).toArrow().sort_by("message_id")

    selected = [numbers_of(column) for column in flags.columns[1:]]
    assert wrong_among(wanted, dict(zip(wanted, selected, strict=True))) == {}


def test_a_condition_selects_here_what_its_difference_says(rows: pa.Table) -> None:
    is_allowed = []
    for body in rows["body"].to_pylist():
        is_allowed.append(not any(number in (body or "") for number in REFUSED_HERE))
    rows = rows.filter(pa.array(is_allowed))
    wanted = said_of(rows.to_pylist())

    refused = [sql for sql in wanted if not is_possible_here(sql, rows.schema)]
    # The folder of a pointer to S3, and an array that is JSON in a text of JSON.
    for sql in refused:
        assert "regexp_extract(" in sql or "from_json(get_json_object(get_json" in sql
    possible = {sql: wanted[sql] for sql in wanted if sql not in refused}

    selected = {sql: numbers_of(matching(sql, rows)) for sql in possible}

    assert wrong_among(possible, selected) == {}


def is_possible_here(sql: str, schema: pa.Schema) -> bool:
    try:
        for_duckdb(sql, schema)
    except InputError as error:
        return NEEDS_SPARK not in str(error)
    return True


def numbers_of(flags: Any) -> set[int]:
    """Return the numbers of the rows whose flag is set."""
    return set(map(int, np.flatnonzero(flags.to_numpy(zero_copy_only=False))))


def wrong_among(
    wanted: Mapping[str, tuple[str, set[int]]], selected: Mapping[str, set[int]]
) -> dict[tuple[str, str], list[tuple[bool, str]]]:
    """Return the conditions that select other rows, with some of these; fail if they are few."""
    assert len(wanted) > 200
    wrong = {}
    for sql, (claim, holders) in wanted.items():
        if selected[sql] != holders:
            odd = sorted(selected[sql] ^ holders)[:4]
            wrong[claim, sql] = [(place in holders, BODIES[place]) for place in odd]
    return wrong


def said_of(rows: list[dict[str, Any]]) -> dict[str, tuple[str, set[int]]]:
    """Return each condition, with its predicate in words and the rows that it should select."""
    features = []
    for row in rows:
        columns = {name: row[name] for name in COLUMNS}
        of_row = features_of(row["body"], row["body_bytes"], row["attributes"], columns)
        # Rare features are dropped: let each message come three times.
        features += [of_row] * 3

    table = feature_table(pa.array(features))
    wanted = {}
    for number in map(int, np.flatnonzero(table.is_predicate)):
        path, tag = table.predicate(number)
        if sql := condition(path, tag):
            holders = set(np.flatnonzero(table.holds(number)[::3]).tolist())
            wanted[sql] = (f"{path_text(path)} {tag}", holders)
    return wanted
