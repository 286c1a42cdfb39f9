"""Each form of SQL is written for DuckDB, or refused with its name; both without any engine."""

import re
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pytest

from dlq.archive.messages.dead_letter_schema import ARROW_SCHEMA
from dlq.errors import InputError, SqlError
from dlq.explain.outputs import GROUPS_SCHEMA
from dlq.sql.allowed import FUNCTIONS
from dlq.sql.duckdb_functions import EQUAL
from dlq.sql.duckdb_sql import condition_for_duckdb, for_duckdb
from dlq.sql.duckdb_terms import NEEDS_SPARK
from tests.support.golden import assert_stored, stored_texts
from tests.support.sql_forms import FORMS, OF_GROUPS, OF_MESSAGES, SCHEMA

ROOT = Path(__file__).parents[3]


def _called(texts: Iterable[str]) -> set[str]:
    return set(re.findall(r"\b([a-z_0-9]+)\(", "\n".join(texts)))


def fault_of(sql: str, schema: pa.Schema = SCHEMA) -> str:
    try:
        for_duckdb(sql, schema)
    except InputError as error:
        return str(error)
    return ""


def test_each_form_is_written_or_refused_with_its_part() -> None:
    faults = {sql: fault for sql in FORMS if (fault := fault_of(sql))}

    for sql, fault in faults.items():
        assert_stored("duckdb_refused", sql, fault)
        assert NEEDS_SPARK in fault or "no field" in fault
    assert set(faults) == set(stored_texts("duckdb_refused"))


def test_whatever_the_check_refuses_is_refused_here_in_the_same_words() -> None:
    refused = stored_texts("refused_sql")
    faults = {sql: fault_of(sql) for sql in refused}

    assert [sql for sql, fault in faults.items() if not fault] == []
    others = {sql for sql, fault in faults.items() if fault != refused[sql]}
    # These Spark refuses by their types or values.
    assert [sql for sql in others if not re.match(r"\[[A-Z_]+|'now'", refused[sql])] == []


def test_every_function_of_the_list_is_equal_or_refused() -> None:
    listed = set(" ".join(FUNCTIONS.values()).split())

    assert set(EQUAL) <= listed
    refused = stored_texts("duckdb_refused")
    written = [sql for sql in FORMS if sql not in refused]
    assert set(EQUAL) <= _called(written)
    assert listed - set(EQUAL) <= _called(text.lower() for text in refused.values())


@pytest.mark.parametrize("sql", OF_MESSAGES)
def test_conditions_of_the_guide_are_written(sql: str) -> None:
    columns = ARROW_SCHEMA.append(pa.field("drain_id", pa.string()))
    condition_for_duckdb(sql, columns)


@pytest.mark.parametrize("sql", OF_GROUPS)
def test_conditions_of_policies_are_written(sql: str) -> None:
    condition_for_duckdb(sql, GROUPS_SCHEMA, "when")


def test_an_error_names_the_place_the_sql_the_part_and_the_fix() -> None:
    with pytest.raises(SqlError) as raised:
        condition_for_duckdb("CAST(body AS INT) = 5", ARROW_SCHEMA)

    assert str(raised.value) == (
        "--where 'CAST(body AS INT) = 5': CAST(body AS INT) (Cast): needs --engine spark: "
        "a text that is no such value would fail; try_cast gives null instead"
    )
    assert raised.value.unquoted == "--where: Cast: needs --engine spark"


@pytest.mark.parametrize("sql", ["body", "receive_count + 1", "attributes"])
def test_what_is_neither_true_nor_false_is_no_condition(sql: str) -> None:
    with pytest.raises(InputError, match="is no condition"):
        condition_for_duckdb(sql, ARROW_SCHEMA)


@pytest.mark.parametrize(
    "text", ["'", '"', "a' OR TRUE --", "\\", "$1", "?", "c0", "x'; DROP TABLE messages; --"]
)
def test_a_text_stays_a_text(text: str) -> None:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")

    written = for_duckdb(f"s = '{escaped}'", SCHEMA)

    doubled = text.replace("'", "''")
    assert written.text == f"(\"c0\" = CAST('{doubled}' AS TEXT))"


def test_names_of_columns_and_variables_never_reach_duckdb() -> None:
    schema = pa.schema([('a" FROM x; --', pa.string()), ("words", pa.list_(pa.string()))])

    written = for_duckdb('exists(words, `v"; --` -> `v"; --` = `a" FROM x; --`)', schema)

    assert written.columns == ("words", 'a" FROM x; --')
    assert "--" not in written.text


def test_what_is_nested_too_deeply_is_refused() -> None:
    assert "is nested too deeply" in fault_of("NOT " * 400 + "flag") or not fault_of(
        "NOT " * 10 + "flag"
    )


def test_a_condition_of_a_thousand_parts_is_written() -> None:
    assert fault_of(" OR ".join(f"i = {number}" for number in range(1000))) == ""
