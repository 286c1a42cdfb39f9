"""Conditions give what Spark gives for the plain text. The rest is refused, named, with a rule."""

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.types import StructType

from spark_reprocess.analysis.outputs import GROUPS_SCHEMA
from spark_reprocess.archive.messages.frames import SPARK_SCHEMA
from spark_reprocess.errors import InputError
from spark_reprocess.spark.allowed_sql import attribute_value, condition
from spark_reprocess.sql.allowed import FUNCTIONS
from tests.integration.spark_world import Spark
from tests.support.golden import assert_stored, stored_texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROOT = Path(__file__).parents[2]

COLUMNS = """
i int, l bigint, x double, n decimal(5,2), s string, p string, flag boolean, t timestamp,
u timestamp, day date, words array<string>, numbers array<int>, counts map<string,int>,
one struct<a: int, `odd. name`: string, deep: struct<b: string>>, many array<struct<a: int>>,
raw binary, json string, `a.b` int, `c``d` int, `ключ` string, `select` int
"""
NOON = datetime(2026, 11, 1, 12, 30, 15, 123456, UTC)
ROWS = [
    (None,) * 21,
    (
        *(1, 2**63 - 1, 1.5, Decimal("1.50"), "it's", "it%", True, NOON, NOON, date(2026, 11, 1)),
        *(
            ["a", None, "B"],
            [3, None, -1],
            {"a": 1, "k": None},
            (1, "odd", ("b",)),
            [(1,), (None,)],
        ),
        *(b"\x00\xff", '{"a": {"b": [1, "2"]}, "x": null}', 7, 8, "значение", 9),
    ),
    (
        *(2**31 - 1, -(2**63), float("nan"), Decimal("-999.99"), "", "", False),
        *(
            datetime(1, 1, 1, tzinfo=UTC),
            NOON,
            date(9999, 12, 31),
            [],
            [],
            {},
            (None, "", None),
            [],
        ),
        *(b"", "[1, 2]", 0, 0, "", 0),
    ),
    (
        *(-(2**31), 0, float("-inf"), Decimal("0.05"), "back\\slash\n\t'\"%_👩", "back", None),
        *(NOON, None, date(2024, 2, 29), ["👩", "a,b"], [0], {"": 0}, None, None, None),
        *("{broken", 3, 4, "%", 5),
    ),
]

FORMS = stored_texts("allowed_sql")
SAME = FORMS["gives what Spark gives"].splitlines()
FAILING = FORMS["fails as in Spark"].splitlines()
"""What Spark cannot evaluate on some row; with the same error condition."""

REFUSED = stored_texts("refused_sql")
"""What is refused, with the part and the rule. Add a text with its ``===``; ``make snapshot``."""


@pytest.fixture
def rows(spark: Spark) -> "DataFrame":
    return spark.createDataFrame(ROWS, COLUMNS).coalesce(1).cache()


def test_each_form_and_function_gives_what_spark_gives_for_the_text(rows: "DataFrame") -> None:
    wrong = {}
    for first in range(0, len(SAME), 100):
        part = SAME[first : first + 100]
        plain = [F.expr(text).alias(f"c{n}") for n, text in enumerate(part)]
        built = [attribute_value(rows, text)[0].alias(f"c{n}") for n, text in enumerate(part)]
        expected, found = rows.select(*plain), rows.select(*built)
        types = [[field.dataType for field in one.schema] for one in (expected, found)]
        shown = [
            one.select(*(F.col(name).cast("string") for name in one.columns)).toArrow().to_pydict()
            for one in (expected, found)
        ]
        for n, text in enumerate(part):
            pairs = [(types[k][n], shown[k][f"c{n}"]) for k in (0, 1)]
            if pairs[0] != pairs[1]:
                wrong[text] = pairs
    assert wrong == {}


@pytest.mark.parametrize("sql", FAILING)
def test_what_fails_in_spark_fails_alike(rows: "DataFrame", sql: str) -> None:
    def fault(where: str, *, is_built: bool) -> str | None:
        with pytest.raises(PySparkException) as raised:
            rows.where(condition(rows, where) if is_built else F.expr(where)).collect()
        return raised.value.getCondition()

    assert fault(sql, is_built=True) == fault(sql, is_built=False)


def test_every_function_of_the_list_is_in_the_table() -> None:
    called = {name.lower() for name in re.findall(r"\b([a-z_0-9]+)\(", "\n".join(SAME))}

    assert set(" ".join(FUNCTIONS.values()).split()) <= called


def test_whatever_is_not_known_is_refused_with_the_part_and_the_rule(rows: "DataFrame") -> None:
    for sql in REFUSED:
        with pytest.raises(InputError) as raised:
            attribute_value(rows, sql)
        assert_stored("refused_sql", sql, str(raised.value))


OF_MESSAGES = """
parked_reason = 'too_old' AND plan_id IS NULL AND receive_count >= 4 OR body_bytes BETWEEN 1 AND 2
body LIKE '%"id": 3}%' AND body NOT LIKE 'a#%' ESCAPE '#' AND body RLIKE '^\\\\s*$'
attributes['own-text'].string_value = 'grüße'
get_json_object(body, '$.customer.region') = 'ap'
try_cast(get_json_object(body, '$.n') AS INT) > 5
exists(from_json(get_json_object(body, '$.items'), 'array<string>'), x -> x = 'A')
array_contains(json_object_keys(body), 'sku') AND json_array_length(body) > 0
schema_of_variant(try_variant_get(try_parse_json(body), '$.a', 'variant')) LIKE 'OBJECT%'
sent_at >= timestamp '2026-11-01 00:00:00Z' AND sent_at > drained_at - INTERVAL 7 DAYS
sent_at + receive_count * INTERVAL 1 HOUR < drained_at AND drain_id <> 'd'
""".strip().splitlines()
OF_GROUPS = """
title LIKE 'TimeoutError: payments%' AND trend = 'ended' AND count <= 5000
exists(map_keys(sources), arn -> arn LIKE '%:invoices')
title LIKE '%legacy_shop%' AND age_seconds.least > 7 * 86400
get(leads, 0).parts[0].field = 'body.region' AND get(leads, 0).group_share > 0.9
leads[0].parts[0].value = 'ap' AND exists(leads, l -> l.score > 0.5)
reasons['too_old'] > 5 AND map_contains_key(reasons, 'too_old')
share > 0.1 AND first_sent_at > timestamp '2026-11-01' AND body_bytes.p95 < 1e6
cardinality(filter(replay_counts, r -> r.replay_count > 3)) > 0
""".strip().splitlines()


def test_conditions_of_docs_and_policies_are_allowed(spark: Spark) -> None:
    schema = cast("StructType", StructType.fromDDL(f"{SPARK_SCHEMA}, drain_id string"))
    messages = spark.createDataFrame([], schema)
    groups = spark.createDataFrame(GROUPS_SCHEMA.empty_table())

    for rows, conditions in ((messages, OF_MESSAGES), (groups, OF_GROUPS)):
        for sql in conditions:
            condition(rows, sql)


def test_a_condition_of_a_thousand_parts_can_be_read(rows: "DataFrame") -> None:
    sql = " OR ".join(f"i = {number}" for number in range(1000))

    assert rows.where(condition(rows, sql)).count() == 1


def test_the_guide_lists_the_functions() -> None:
    guide = (ROOT / "docs" / "analysis.md").read_text("utf-8")
    section = guide.partition("### What a condition may contain\n")[2].partition("\n## ")[0]
    listed = dict(re.findall(r"^\| ([a-z A-Z]+) \| (`.*`) \|$", section, re.MULTILINE))

    assert {
        kind: cell.strip("`").replace("`, `", " ") for kind, cell in listed.items()
    } == FUNCTIONS
