"""What a lead's condition selects, in real Spark SQL: the messages that the lead holds for."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from dlq.archive.messages.frames import read_archive
from dlq.explain.leads.features import COLUMNS, features_of, path_text
from dlq.explain.leads.lead_format import condition
from dlq.explain.leads.predicates import feature_table
from dlq_replay.wire.attributes import MessageAttribute
from spark_reprocess.allowed_sql import condition as condition_of
from spark_reprocess.allowed_sql import matching
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
    *(0, 5, -5, 7, 123_456, -123_456, 999_999_999, 12_345_678_901_234_567_890),
    *(0.5, -0.5, 1.5, 1e5, 1e-7, 1e300, 5.0),
    *("5", "0005", "12345678901", "-0", True, False, None),
)
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
    *(json.dumps({name: one}) for name, one in zip("abcdefg", CONTAINERS, strict=True)),
    *(json.dumps({"Message": json.dumps({"v": value})}) for value in ("it's", 5, None, ["u"])),
    *(json.dumps(value) for value in (*VALUES, "a text", json.dumps({"v": 5}))),
    *("", "  ", "\n", "plain text", "it's", "{broken", "<a/>", "null ", "NaN", "eyJ2Ijo1fQ=="),
    *(json.dumps(["a.S3Pointer", {"s3BucketName": b, "s3Key": f"{b}/x/k"}]) for b in ("it's", "b")),
    '["a.S3Pointer", {"s3BucketName": "b", "s3Key": "k"}]',
    *('{"v":\t5}', '{"v": "\\u0065"}', '{"v": -0}', '{"v": 1E2}', "[1, 2"),
)
ATTRIBUTES: tuple[dict[str, MessageAttribute], ...] = (
    {"tenant": text("it's"), "a.b": text("x")},
    {"tenant": text("5", "Number")},
    {"tenant": MessageAttribute("Binary", b"\x00")},
    {"it's": text("\\"), "a`b": text("ä")},
    {},
)


def test_a_condition_selects_what_its_lead_says(spark: Spark, tmp_path: Path) -> None:
    messages = [
        message(
            f"m-{place:03d}",
            body,
            ATTRIBUTES[place % len(ATTRIBUTES)],
            MessageGroupId=("it's", "a\\b", "plain")[place % 3],
        )
        for place, body in enumerate(BODIES)
    ]
    archive = archive_of(tmp_path, messages)
    rows = matching(read_archive(spark, archive), None).orderBy("message_id")
    wanted = said_of(rows.toArrow().to_pylist())
    assert len(wanted) > 200

    condition_of(rows, " OR ".join(f"({sql})" for sql in wanted))
    columns = [F.coalesce(condition_of(rows, sql), F.lit(False)) for sql in wanted]  # noqa: FBT003 - a value
    found = rows.select(*(column.alias(f"c{n}") for n, column in enumerate(columns))).toArrow()

    wrong = {}
    for number, (sql, (claim, holders)) in enumerate(wanted.items()):
        selected = set(np.flatnonzero(found.column(number).to_numpy(zero_copy_only=False)))
        if selected != holders:
            odd = sorted(selected ^ holders)[:4]
            wrong[claim, sql] = [(one in holders, BODIES[one]) for one in odd]
    assert wrong == {}


def said_of(rows: list[dict[str, Any]]) -> dict[str, tuple[str, set[int]]]:
    """Return each condition, with its predicate in words and the rows that it should select."""
    features = [
        features_of(
            row["body"], row["body_bytes"], row["attributes"], {name: row[name] for name in COLUMNS}
        )
        for row in rows
    ]
    # Rare features are dropped: let each message come three times.
    table = feature_table(pa.array([one for one in features for _ in range(3)]))
    wanted = {}
    for number in map(int, np.flatnonzero(table.is_predicate)):
        path, tag = table.predicate(number)
        if sql := condition(path, tag):
            holders = set(np.flatnonzero(table.holds(number)[::3]).tolist())
            wanted[sql] = (f"{path_text(path)} {tag}", holders)
    return wanted
