"""DuckDB gives what Spark gives, or the SQL is refused: over a table of forms and of values."""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from unicodedata import category

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from dlq.errors import InputError
from dlq.sql.allowed import checked
from dlq.sql.duckdb_engine import values
from dlq.sql.duckdb_sql import for_duckdb
from dlq.sql.duckdb_terms import NEEDS_SPARK
from dlq.sql.spark_functions import NeedsSparkError, lower, upper
from spark_reprocess.allowed_sql import attribute_value
from tests.integration.spark_world import Spark
from tests.integration.sql_rows import COLUMNS, ROWS, comparable, long_rows, odd_rows
from tests.support.golden import stored_texts
from tests.support.sql_forms import FORMS, SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REFUSED = stored_texts("duckdb_refused")
WRITTEN = [sql for sql in FORMS if sql not in REFUSED]

FAILS = "fails"
"""The value of a form where it fails on a row, in either engine."""

READS_A_TEXT = re.compile(r"s LIKE|s RLIKE|s ILIKE|\(s|\(json|s \|\|")
ON_LONG_TEXT = [sql for sql in WRITTEN if READS_A_TEXT.search(sql)]


def by_spark(rows: "DataFrame", forms: list[str]) -> dict[str, Any]:
    """Return what Spark gives for each form; many at once where none fails."""
    try:
        built = [attribute_value(rows, sql)[0].alias(f"c{n}") for n, sql in enumerate(forms)]
        table = rows.select(*built).toArrow()
    except (PySparkException, InputError):
        if len(forms) == 1:
            return {forms[0]: FAILS}
        half = len(forms) // 2
        return by_spark(rows, forms[:half]) | by_spark(rows, forms[half:])
    return {sql: comparable(table.column(n)) for n, sql in enumerate(forms)}


def by_duckdb(table: pa.Table, sql: str) -> Any:
    """Return what DuckDB gives, ``FAILS`` if it fails on some row."""
    try:
        return comparable(values(sql, table, sql))
    except InputError as error:
        if "on a message" not in str(error) and "a message has" not in str(error):
            raise
        return FAILS


def differences(spark: Spark, data: Sequence[Any], forms: Sequence[str]) -> dict[str, Any]:
    """Return the forms of which DuckDB gives something else for some row where it does not fail."""
    rows = spark.createDataFrame(list(data), COLUMNS).coalesce(1).cache()
    table = rows.toArrow()
    actual = {sql: by_duckdb(table, sql) for sql in forms}
    whole = [sql for sql in forms if actual[sql] != FAILS]
    wrong = {}
    for first in range(0, len(whole), 100):
        for sql, expected in by_spark(rows, whole[first : first + 100]).items():
            if expected != actual[sql]:
                wrong[sql] = _first_difference(expected, actual[sql])
    for sql in set(forms) - set(whole):
        each = [by_duckdb(table.slice(place, 1), sql) for place in range(len(data))]
        places = [place for place, result in enumerate(each) if result != FAILS]
        if places:
            some = spark.createDataFrame([data[place] for place in places], COLUMNS).coalesce(1)
            expected = by_spark(some, [sql])[sql]
            results = [each[place][0] for place in places]
            if expected != results:
                wrong[sql] = _first_difference(expected, results)
    return wrong


def _first_difference(expected: Any, actual: Any) -> Any:
    if expected == FAILS:
        return "Spark fails"
    pairs = [pair for pair in zip(expected, actual, strict=True) if pair[0] != pair[1]]
    return [ascii(value)[:200] for value in pairs[0]]


def test_each_form_gives_what_spark_gives(spark: Spark) -> None:
    assert differences(spark, [*ROWS, *odd_rows()], WRITTEN) == {}


def test_a_text_of_a_mebibyte_gives_what_spark_gives(spark: Spark) -> None:
    assert differences(spark, long_rows(), ON_LONG_TEXT) == {}


def test_the_case_of_each_character_is_that_of_spark(spark: Spark) -> None:
    """Of each that Python knows; all others need Spark. Between letters, and beside a sigma."""
    codes = (code for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    characters = [chr(code) for code in codes if category(chr(code)) not in ("Cn", "Co")]
    words = [f"{character} Σ{character} {character}ΑΣ" for character in characters]
    texts = [" ".join(words[first : first + 64]) for first in range(0, len(words), 64)]
    rows = spark.createDataFrame(pa.table({"s": texts}))

    for change in (lower, upper):
        column, _ = attribute_value(rows, f"{change.__name__}(s)")
        table = rows.select(column.alias("c")).toArrow()
        pairs = zip(texts, map(str, table["c"].to_pylist()), strict=True)
        assert [text for text, result in pairs if not _is_equal(change, text, result)] == []


def _is_equal(change: Callable[[str], str | None], text: str, result: str) -> bool:
    """Return whether *change* gives *result*, for each character that does not need Spark."""
    with suppress(NeedsSparkError):
        return change(text) == result
    pairs = zip(text.split(" "), result.split(" "), strict=True)
    return all(text == "" or _gives(change, text, expected) for text, expected in pairs)


def _gives(change: Callable[[str], str | None], text: str, expected: str) -> bool:
    with suppress(NeedsSparkError):
        return change(text) == expected
    return True


TEXT = st.sampled_from(
    [
        "s",
        "p",
        "json",
        "NULL",
        "'a'",
        "'it\\'s'",
        "'5'",
        "'X'",
        "string(i)",
        "string(flag)",
        "get_json_object(json, '$.a')",
        "get_json_object(json, '$.a.b')",
        "words[0]",
        "get(words, 0)",
        "one.deep.b",
        "one.`odd. name`",
        "string(t)",
        "string(x)",
        "'👩'",
    ]
)
NUMBER = st.sampled_from(
    [
        "i",
        "l",
        "x",
        "1",
        "0",
        "-7",
        "2.5",
        "1e3",
        "NULL",
        "size(words)",
        "length(s)",
        "one.a",
        "n",
        "try_cast(s AS INT)",
        "try_cast(json AS DOUBLE)",
        "counts['a']",
        "get(numbers, 1)",
    ]
)
TIME = st.sampled_from(
    ["t", "u", "day", "NULL", "timestamp '2026-11-01 00:00:00Z'", "'2026-11-01'", "date(t)"]
)
PATTERN = st.sampled_from(
    ["%a%", "_", "%", "it%", "\\\\%", "", "%\\n%", "a", "^a", "a$", ".", "\\\\s", "(?i)IT", "[^a]"]
)


def _of(text: str, *parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(*parts).map(lambda chosen: f"({text.format(*chosen)})")


def _texts(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    forms = [
        "lower({})",
        "upper({})",
        "trim({})",
        "left({}, 3)",
        "right({}, 2)",
        "substring({}, 2, 3)",
        "replace({}, 'a', 'bb')",
        "split_part({}, 'X', 1)",
        "md5({})",
        "get(split({}, ','), 0)",
        "get_json_object({}, '$.a')",
        "nullif({}, '')",
        "reverse({})",
        "substring({}, 0, 1)",
    ]

    return st.one_of(
        st.sampled_from(forms).flatmap(lambda form: _of(form, inner)),
        _of("{} || {}", inner, inner),
        _of("coalesce({}, {})", inner, inner),
        _of("greatest({}, {})", inner, inner),
    )


def _numbers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    two = ["{} + {}", "{} - {}", "{} * {}", "coalesce({}, {})", "least({}, {})", "try_add({}, {})"]
    two += ["try_divide({}, {})", "if(flag, {}, {})", "nullif({}, {})", "try_multiply({}, {})"]
    forms = ["abs({})", "-({})", "({}) % 3", "({}) DIV 7", "({}) / 4", "double({})", "bigint({})"]
    return st.one_of(
        st.sampled_from(forms).flatmap(lambda form: _of(form, inner)),
        st.sampled_from(two).flatmap(lambda form: _of(form, inner, inner)),
    )


TEXTS = st.recursive(TEXT, _texts, max_leaves=4)
NUMBERS = st.recursive(NUMBER, _numbers, max_leaves=4)
OPERATOR = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"])
COMPARISON = st.one_of(
    *(_of("({}) {} ({})", kind, OPERATOR, kind) for kind in (TEXTS, NUMBERS, TIME)),
    _of("({}) {} ({})", TEXTS, OPERATOR, NUMBERS),
    _of("({}) LIKE '{}'", TEXTS, PATTERN),
    _of("({}) ILIKE '{}'", TEXTS, PATTERN),
    _of("({}) RLIKE '{}'", TEXTS, PATTERN),
    _of("({}) IN ({}, {})", TEXTS, TEXTS, TEXTS),
    _of("({}) NOT BETWEEN {} AND {}", NUMBERS, NUMBER, NUMBER),
    _of("({}) IS NULL", TEXTS),
    _of("exists(words, w -> w = {})", TEXTS),
    _of("forall(numbers, e -> e > {})", NUMBERS),
    _of("array_contains(words, {})", TEXTS),
    st.just("flag"),
)
CONDITION = st.recursive(
    COMPARISON,
    lambda inner: st.one_of(
        _of("{} AND {}", inner, inner),
        _of("{} OR {}", inner, inner),
        _of("NOT {}", inner),
        _of("CASE WHEN {} THEN {} ELSE {} END", inner, inner, inner),
    ),
    max_leaves=4,
)


@settings(
    max_examples=5,
    deadline=None,
    # To shrink would take hours: each example is a job of Spark.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    forms=st.lists(CONDITION, min_size=40, max_size=40, unique=True),
    places=st.lists(st.integers(0, len(odd_rows()) - 1), min_size=3, max_size=12),
)
def test_any_condition_is_equal_or_refused(
    spark: Spark, forms: list[str], places: list[int]
) -> None:
    rows = odd_rows()
    written = [form for form in forms if _is_written(form)]

    assert differences(spark, [rows[place] for place in places], written) == {}


def _is_written(sql: str) -> bool:
    """Return whether *sql* is written for DuckDB; whatever both engines refuse is not."""
    try:
        checked(sql, SCHEMA.names)
    except InputError:
        return False
    try:
        for_duckdb(sql, SCHEMA)
    except InputError as error:
        if NEEDS_SPARK not in str(error):
            raise
        return False
    return True


@pytest.mark.parametrize("sql", ["s = 'a'", "i > 0"])
def test_an_empty_table_gives_nothing(sql: str, spark: Spark) -> None:
    table = spark.createDataFrame(ROWS, COLUMNS).toArrow().slice(0, 0)

    assert len(values(sql, table, sql)) == 0
