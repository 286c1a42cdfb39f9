"""Conditions give what Spark gives for the plain text. The rest is refused, named, with a rule."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import DataType

from dlq.archive.messages.dead_letter_schema import READ_SCHEMA
from dlq.errors import InputError
from dlq.explain.outputs import GROUPS_SCHEMA
from dlq.sql.allowed import FUNCTIONS
from spark_reprocess.allowed_sql import attribute_value, condition
from tests.integration.spark_world import Spark
from tests.integration.sql_rows import COLUMNS, ROWS
from tests.support.golden import assert_stored, stored_texts
from tests.support.sql_forms import FAILING, OF_GROUPS, OF_MESSAGES, SAME

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROOT = Path(__file__).parents[2]

REFUSED = stored_texts("refused_sql")
"""Refused texts, with the part and the rule. Add a text with its ``===``; ``make snapshot``."""


@pytest.fixture
def rows(spark: Spark) -> "DataFrame":
    return spark.createDataFrame(ROWS, COLUMNS).coalesce(1).cache()


def test_each_form_and_function_gives_what_spark_gives_for_the_text(rows: "DataFrame") -> None:
    wrong = {}
    for first in range(0, len(SAME), 100):
        part = SAME[first : first + 100]
        plain = [F.expr(text).alias(f"c{n}") for n, text in enumerate(part)]
        built = [attribute_value(rows, text)[0].alias(f"c{n}") for n, text in enumerate(part)]
        expected = rows.select(*plain)
        actual = rows.select(*built)
        pairs = zip(types_and_texts(expected), types_and_texts(actual), strict=True)
        for text, (by_spark, by_us) in zip(part, pairs, strict=True):
            if by_spark != by_us:
                wrong[text] = (by_spark, by_us)
    assert wrong == {}


def types_and_texts(frame: "DataFrame") -> list[tuple[DataType, list[str | None]]]:
    """Return the type of each column, and its values as texts."""
    as_texts = frame.select(*(F.col(name).cast("string") for name in frame.columns)).toArrow()
    columns = [as_texts[name].to_pylist() for name in as_texts.column_names]
    types = [field.dataType for field in frame.schema]
    return list(zip(types, columns, strict=True))


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


def test_conditions_of_docs_and_policies_are_allowed(spark: Spark) -> None:
    messages = spark.createDataFrame([], from_arrow_schema(READ_SCHEMA))
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

    names = {kind: cell.strip("`").replace("`, `", " ") for kind, cell in listed.items()}
    assert names == FUNCTIONS
