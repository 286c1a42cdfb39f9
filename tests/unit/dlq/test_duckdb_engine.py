"""DuckDB evaluates over the archive's columns, reaches nothing else, and can be stopped."""

import signal
import threading
import time
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from dlq.archive.messages.dead_letter_schema import ARROW_SCHEMA
from dlq.errors import InputError, SqlError
from dlq.sql import duckdb_engine, spark_functions
from dlq.sql.duckdb_engine import connected, matching, values

MOST_CALLS = 120
"""A test in which nothing stops the query fails after this number of calls, of 50 ms each."""

BODIES = ('{"a": {"b": 5}}', "plain é👩", '{"a": 2e23}', "")
SECRET = pa.table({"secret": ["in Python"]})
"""A table that a query could name if DuckDB looked for names in Python."""


def messages(bodies: tuple[str, ...] = BODIES) -> pa.Table:
    attribute = {"data_type": "String", "string_value": "it's", "binary_value": None}
    rows = []
    for number, body in enumerate(bodies):
        row = {
            "message_id": f"m-{number}",
            "first_id": f"f-{number}",
            "body": body,
            "attributes": [("tenant", attribute)] if number % 2 else [],
            "receive_count": number or None,
        }
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=ARROW_SCHEMA)


@pytest.mark.parametrize(
    ("condition", "positions"),
    [
        ("receive_count >= 2", [2, 3]),
        ("NOT receive_count >= 2", [1]),
        ("attributes['tenant'].string_value = 'it\\'s'", [1, 3]),
        ("get_json_object(body, '$.a.b') = '5'", [0]),
        ("body LIKE '%👩'", [1]),
        ("receive_count > NULL", []),
        ("true", [0, 1, 2, 3]),
    ],
)
def test_a_condition_selects_rows_for_which_it_is_true(
    condition: str, positions: list[int]
) -> None:
    mask = matching(condition, messages()).to_pylist()

    assert [position for position, is_chosen in enumerate(mask) if is_chosen] == positions


def test_parts_of_a_large_table_come_back_in_order() -> None:
    table = messages(("x",) * 2500)

    assert values("receive_count", table, "here").to_pylist() == [None, *range(1, 2500)]


def test_a_hidden_column_cannot_be_named() -> None:
    table = messages().append_column("file", pa.array(["p"] * 4))

    with pytest.raises(SqlError, match="file: is no column here"):
        matching("file = 'p'", table, hidden=["file"])


ESCAPES = [
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_text('/etc/passwd')",
    "SELECT * FROM '/etc/passwd'",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT * FROM glob('/*')",
    "SELECT * FROM SECRET",
    "SELECT getenv('PATH')",
    "COPY (SELECT 1) TO '/tmp/dlq-was-here'",
    "EXPORT DATABASE '/tmp/dlq-was-here'",
    "ATTACH '/tmp/dlq-was-here'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET enable_external_access = true",
    "SET threads = 8",
    "SET memory_limit = '99GB'",
    "SET temp_directory = '/tmp'",
    "SET python_enable_replacements = true",
    "SET lock_configuration = false",
]


@pytest.mark.parametrize("sql", ESCAPES)
def test_the_connection_reaches_no_file_no_name_of_python_and_no_setting(sql: str) -> None:
    SECRET.num_rows  # noqa: B018 - the name is here
    with connected() as connection, pytest.raises(duckdb.Error) as raised:
        connection.execute(sql).fetchall()
    assert not isinstance(raised.value, duckdb.ParserException)


@pytest.mark.parametrize(
    "setting",
    [
        ("enable_external_access", False),
        ("autoload_known_extensions", False),
        ("autoinstall_known_extensions", False),
        ("python_enable_replacements", False),
        ("enable_optimizer", False),
        ("lock_configuration", True),
        ("memory_limit", "1.0 GiB"),
        ("temp_directory", ""),
        ("threads", 1),
    ],
)
def test_the_connection_is_set_up_so(setting: tuple[str, Any]) -> None:
    name, expected = setting
    with connected() as connection:
        row = connection.execute(f"SELECT current_setting('{name}')").fetchone()
    assert row == (expected,)


@pytest.mark.parametrize(
    "sql",
    [
        "read_csv('/etc/passwd') = 'a'",
        "pg_read_file('/etc/passwd') = 'a'",
        "body IN (SELECT content FROM read_text('/etc/passwd'))",
        "(SELECT secret FROM SECRET) = 'in Python'",
        "SECRET = 'in Python'",
        "messages.body = 'a'",
        "getenv('PATH') = 'a'",
        "current_setting('threads') = '1'",
        "error('x') = 'a'",
        "json_0(body) = 'a'",
        "c0 = 'a'",
        "now() > sent_at",
        "sent_at > 'now'",
    ],
)
def test_the_check_refuses_it_before_there_is_a_connection(
    sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(duckdb_engine, "connected", None)

    with pytest.raises(InputError, match="--where"):
        matching(sql, messages())


def test_a_value_that_depends_on_java_needs_spark() -> None:
    with pytest.raises(SqlError) as raised:
        matching("get_json_object(body, '$.a') = '5'", messages())

    assert str(raised.value) == (
        "--where \"get_json_object(body, '$.a') = '5'\": needs --engine spark: a message has the "
        "text of a number with many digits, or a very large or small one"
    )


def test_what_fails_on_a_row_is_a_sentence_without_the_row() -> None:
    table = messages().set_column(
        ARROW_SCHEMA.get_field_index("body_bytes"), "body_bytes", pa.array([10**12] * 4)
    )
    for sql in ("receive_count + 2147483647 > 0", "CAST(body_bytes AS INT) = 1"):
        with pytest.raises(SqlError) as raised:
            matching(sql, table)
        assert str(raised.value) == (
            f"--where {sql!r}: fails on a message: a number or a time is too large for its type; "
            "use forms that give null instead, e.g. try_cast"
        )
        assert raised.value.__cause__ is None
        assert raised.value.__suppress_context__


def test_an_element_that_is_not_there_fails_as_in_spark() -> None:
    with pytest.raises(SqlError, match=r"there is no element 5; use get\(an_array, n\)"):
        matching("split(body, ' ')[5] = 'a'", messages())


def test_a_condition_that_takes_too_long_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def slow(text: str) -> str:
        assert len(calls) < MOST_CALLS
        calls.append(text)
        time.sleep(0.05)
        return text

    monkeypatch.setattr(spark_functions, "lower", slow)
    table = messages(("x",) * 3000)

    with pytest.raises(SqlError) as raised:
        matching("lower(body) = 'x'", table, limit_seconds=0.6)

    assert "takes more than 0.01 minutes for some message, and was stopped" in str(raised.value)
    assert len(calls) < MOST_CALLS
    assert _evaluating() == []


def test_ctrl_c_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    main = threading.main_thread().ident or 0
    calls: list[str] = []

    def interrupted(text: str) -> str:
        assert len(calls) < MOST_CALLS
        if not calls:
            signal.pthread_kill(main, signal.SIGINT)
        calls.append(text)
        time.sleep(0.05)
        return text

    monkeypatch.setattr(spark_functions, "lower", interrupted)

    with pytest.raises(KeyboardInterrupt):
        matching("lower(body) = 'x'", messages(("x",) * 3000))
    assert len(calls) < MOST_CALLS
    assert _evaluating() == []


def _evaluating() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "evaluate"]


def test_a_query_of_duckdb_itself_is_interrupted() -> None:
    endless = "SELECT count(*) FROM range(1000000000000) a, range(1000) b"
    with connected() as connection:
        result: list[BaseException] = []

        def run() -> None:
            try:
                connection.execute(endless).fetchall()
            except duckdb.Error as error:
                result.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        while thread.is_alive():
            connection.interrupt()
            thread.join(0.1)
    assert isinstance(result[0], duckdb.InterruptException)


@pytest.mark.parametrize(
    "sql",
    [
        f"length({' || '.join(['body'] * 50)}) > 1",
        f"length(concat({', '.join(['body'] * 600)})) > 1",
        f"length(replace(body, 'a', '{'b' * 100}') || upper(body) || {'body || ' * 8} body) > 1",
        "length(upper(upper(upper(upper(upper(upper(body))))))) > 1",
        "exists(split(body, 'a'), x -> lower(body) = x)",
        "exists(split(body, 'a'), x -> get_json_object(body, '$.a') = x)",
    ],
)
def test_what_could_fill_the_memory_is_refused(sql: str) -> None:
    with pytest.raises(SqlError, match=r"needs --engine spark: (too many texts|a text made of)"):
        matching(sql, messages())


def test_an_expression_that_makes_much_works_on_fewer_rows_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(duckdb_engine, "_BUDGET_BYTES", 4000)
    table = messages(("x" * 100,) * 50)
    column = table.column("body")

    sizes = [batch.num_rows for batch in duckdb_engine._batches([column], 50, 4000 // 8)]  # noqa: SLF001

    assert sizes == [5] * 10
    assert matching("lower(body) = body || ''", table).to_pylist() == [True] * 50


def test_a_warm_cache_keeps_no_body() -> None:
    matching("get_json_object(body, '$.a.b') = '5'", messages(BODIES[:2]))

    assert spark_functions._parsed.cache_info().currsize == 0  # noqa: SLF001
