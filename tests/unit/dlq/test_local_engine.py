"""The engine of one machine: what its threads and its SQL do, without files and servers."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from dlq import local_engine
from dlq.engine import CHANGES, STOPPED, AttributeSql, Exchange, Work
from dlq.errors import ArchiveError, SqlError
from dlq.local_engine import LocalEngine
from dlq.sql import duckdb_engine

TYPES: dict[str, Any] = {
    **dict.fromkeys(("message_id", "body", "group_id"), pa.string()),
    "task": pa.int32(),
    "position": pa.int64(),
}
ROWS = pa.schema(TYPES)
SEEN = pa.schema([("thread", pa.string()), ("rows", pa.string()), ("changes", pa.string())])
WAIT_SECONDS = 30


def partition(*numbers: int) -> pa.Table:
    return pa.table({"number": pa.array(numbers, pa.int64())})


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield from batch.to_pylist()


def messages(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Make a message of each number, each in a batch of its own."""
    for row_of_number in rows_of(batches):
        number = row_of_number["number"]
        row = {
            "message_id": f"m-{number}",
            "body": "x" * number,
            "group_id": f"g-{number % 2}",
            "task": number % 3,
            "position": -number,
        }
        yield pa.RecordBatch.from_pylist([row], schema=ROWS)


def seen_messages(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield one row: the messages that came, in their order, and their changes."""
    names: list[str] = []
    values: list[str] = []
    for row in rows_of(batches):
        names.append(row["message_id"])
        for change in row.get(CHANGES) or [{"string_value": "-"}]:
            values.append(str(change["string_value"]))

    thread = threading.current_thread().name.partition("_")[0]
    result = {"thread": thread, "rows": " ".join(names), "changes": " ".join(values)}
    yield pa.RecordBatch.from_pylist([result], schema=SEEN)


def work_of(call: Callable[[int], object], count: int) -> Work:
    """Call in each of *count* partitions; no row comes back."""

    def function(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for row in rows_of(batches):
            call(row["number"])
        yield from ()

    return Work(list(map(partition, range(count))), function, ROWS)


def wait_until(is_so: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + WAIT_SECONDS
    while not is_so():
        assert time.monotonic() < give_up_at
        time.sleep(0.005)


@pytest.fixture
def engine() -> LocalEngine:
    engine = LocalEngine()
    engine.slots = 2
    return engine


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each row to DuckDB alone."""
    monkeypatch.setattr(local_engine, "_SQL_BYTES", 1)


THEN = Work([], seen_messages, SEEN)


# --- Rows


def test_the_function_gets_each_partition_once(engine: LocalEngine) -> None:
    work = Work([partition(1, 2), partition(), partition(3)], seen_numbers, SEEN)

    assert {*engine.run(work)["rows"].to_pylist()} == {"", "1 2", "3"}


def seen_numbers(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    numbers = " ".join(str(row["number"]) for row in rows_of(batches))
    result = {"thread": "", "rows": numbers, "changes": ""}
    yield pa.RecordBatch.from_pylist([result], schema=SEEN)


def test_without_partitions_nothing_runs(engine: LocalEngine) -> None:
    work = Work([], messages, ROWS)

    assert engine.run(work) == ROWS.empty_table()
    assert engine.run_where(work, "body = ''", ["body"]).schema.names == ["body"]
    assert engine.run_edited(work, {}, THEN) == SEEN.empty_table()
    assert engine.run_edited(work, {}, THEN, Exchange(3, "task", [])) == SEEN.empty_table()


def test_batches_of_another_schema_are_a_bug(engine: LocalEngine) -> None:
    with pytest.raises(pa.ArrowInvalid, match="Schema"):
        engine.run(Work([partition(1)], messages, SEEN))


def test_a_system_that_does_not_say_which_processors_it_gives_has_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert LocalEngine().slots == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert LocalEngine().slots == 1


# --- Threads


def test_as_many_partitions_as_slots_are_worked_on_at_once(engine: LocalEngine) -> None:
    both = threading.Barrier(2, timeout=WAIT_SECONDS)
    working = set[int]()
    most = []

    def call(number: int) -> None:
        working.add(number)
        both.wait()
        most.append(len(working))
        both.wait()
        working.discard(number)

    engine.run(work_of(call, 6))

    assert len(most) == 6
    assert max(most) == 2


def test_the_tasks_of_an_exchange_all_run_at_once(engine: LocalEngine) -> None:
    """A task that waits for its share of a rate must not keep another from its own."""
    barrier = threading.Barrier(5, timeout=WAIT_SECONDS)

    def together(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        barrier.wait()
        yield from seen_messages(batches)

    work = Work([partition(1, 2)], messages, ROWS)
    results = engine.run_edited(work, {}, Work([], together, SEEN), Exchange(5, "task", []))

    assert Counter(results["rows"].to_pylist()) == {"": 3, "m-1": 1, "m-2": 1}


def test_an_error_is_raised_when_what_had_begun_has_ended_and_nothing_else_begins(
    engine: LocalEngine,
) -> None:
    has_failed = threading.Event()
    begun = []
    ended = []

    def call(number: int) -> None:
        begun.append(number)
        if number == 0:
            wait_until(lambda: len(begun) == 2)
            has_failed.set()
            raise ArchiveError("a file is gone")
        assert has_failed.wait(WAIT_SECONDS)
        is_stopped = STOPPED.get()
        wait_until(is_stopped)
        time.sleep(0.05)
        ended.append(number)

    with pytest.raises(ArchiveError, match="a file is gone"):
        engine.run(work_of(call, 50))

    assert sorted(begun) == [0, 1]
    assert ended == [1]


def test_a_call_that_nobody_waits_for_ends_at_its_next_batch(engine: LocalEngine) -> None:
    batches_of_second: list[int] = []

    def endless(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        [row] = rows_of(batches)
        if row["number"] == 0:
            wait_until(lambda: len(batches_of_second) > 0)
            raise ValueError("a bug")
        while True:
            batches_of_second.append(1)
            yield pa.RecordBatch.from_pylist([], schema=ROWS)

    with pytest.raises(ValueError, match="a bug"):
        engine.run(Work([partition(0), partition(1)], endless, ROWS))


def test_nobody_is_stopped_while_all_is_well(engine: LocalEngine) -> None:
    stops = []
    engine.run(work_of(lambda _: stops.append(STOPPED.get()()), 3))

    assert stops == [False] * 3
    assert STOPPED.get()() is False


def interrupt() -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def test_ctrl_c_raises_at_once_and_stops_the_threads(engine: LocalEngine) -> None:
    begun = []
    ended = []
    may_end = threading.Event()

    def call(number: int) -> None:
        begun.append(number)
        if len(begun) == 2:
            interrupt()
        wait_until(STOPPED.get())
        may_end.wait(WAIT_SECONDS)
        ended.append(number)

    with pytest.raises(KeyboardInterrupt):
        engine.run(work_of(call, 50))

    assert ended == []
    may_end.set()
    wait_until(lambda: len(ended) == 2)
    assert len(begun) == 2


@pytest.mark.parametrize("exchange", [None, Exchange(3, "task", ["position"])])
def test_ctrl_c_ends_an_edit(engine: LocalEngine, exchange: Exchange | None) -> None:
    def pressed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        interrupt()
        wait_until(STOPPED.get())
        yield from seen_messages(batches)

    work = Work([partition(1, 2, 3)], messages, ROWS)
    with pytest.raises(KeyboardInterrupt):
        engine.run_edited(work, {}, Work([], pressed, SEEN), exchange)


def test_ctrl_c_ends_a_condition(engine: LocalEngine) -> None:
    work = work_of(lambda _: interrupt(), 3)

    with pytest.raises(KeyboardInterrupt):
        engine.run_where(work, "body = ''", ["body"])


def test_a_thread_of_the_caller_may_use_the_engine(engine: LocalEngine) -> None:
    results = []
    work = Work([partition(1, 2)], messages, ROWS)
    thread = threading.Thread(target=lambda: results.append(engine.run(work).num_rows))
    thread.start()
    thread.join(WAIT_SECONDS)

    assert results == [2]


def test_a_function_may_use_an_engine(engine: LocalEngine) -> None:
    def nested(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        partitions = [pa.Table.from_batches([batch]) for batch in batches]
        inner = LocalEngine().run(Work(partitions, messages, ROWS))
        yield from inner.to_batches()

    assert engine.run(Work([partition(1), partition(2)], nested, ROWS)).num_rows == 2


# --- Conditions


def test_a_condition_selects_rows_and_columns(engine: LocalEngine, small_pieces: None) -> None:
    work = Work([partition(1, 2), partition(), partition(3)], messages, ROWS)

    result = engine.run_where(work, "length(body) >= 2", ["position", "message_id"], ["task"])

    assert result.schema.names == ["position", "message_id"]
    assert result["message_id"].to_pylist() == ["m-2", "m-3"]


def test_a_refused_condition_runs_nothing(engine: LocalEngine) -> None:
    calls: list[int] = []
    work = work_of(calls.append, 3)

    with pytest.raises(SqlError, match=r"--where 'task = 1': task: is no column here"):
        engine.run_where(work, "task = 1", ["body"], hidden=["task"])
    assert calls == []


def test_a_condition_holds_a_piece_of_the_rows_at_a_time(
    engine: LocalEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_engine, "_SQL_BYTES", 1000)
    held = []
    evaluated = 0

    def counted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for made, batch in enumerate(messages(batches), 1):
            held.append(made - evaluated)
            yield batch

    def matching(_: str, rows: pa.Table, *__: Any, **___: Any) -> Any:
        nonlocal evaluated
        evaluated += rows.num_rows
        return pa.array([True] * rows.num_rows)

    monkeypatch.setattr(duckdb_engine, "matching", matching)
    work = Work([partition(*[300] * 40)], counted, ROWS)

    assert engine.run_where(work, "true", ["message_id"]).num_rows == 40
    assert max(held) <= 4


# --- Edits


def test_each_partition_is_edited_by_one_call(engine: LocalEngine, small_pieces: None) -> None:
    work = Work([partition(1, 2, 3), partition(), partition(4)], messages, ROWS)
    edits: AttributeSql = {
        "g-1": [("size", "length(body)"), ("gone", None)],
        "g-7": [("never", "body")],
    }

    results = engine.run_edited(work, edits, THEN).to_pylist()

    assert [row["rows"] for row in results] == ["m-1 m-2 m-3", "", "m-4"]
    assert [row["changes"] for row in results] == ["1 None - 3 None", "", "-"]


@pytest.mark.parametrize(
    ("sql", "change"),
    [
        ("body", ("String", "xx", None)),
        ("NULL", ("String", None, None)),
        ("nullif(body, 'xx')", ("String", None, None)),
        ("1", ("Number", "1", None)),
        ("length(body) / 4", ("Number", "0.5", None)),
        ("2.50", ("Number", "2.50", None)),
        ("attributes['own'].binary_value", ("Binary", None, b"\x00")),
        ("body -- a comment", ("String", "xx", None)),
    ],
)
def test_a_change_has_the_type_of_its_value(
    engine: LocalEngine, sql: str, change: tuple[object, ...]
) -> None:
    attribute = pa.struct([("binary_value", pa.binary())])
    schema = ROWS.append(pa.field("attributes", pa.map_(pa.string(), attribute)))
    changes: list[Any] = []

    def with_attributes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in messages(batches):
            own = {"attributes": [("own", {"binary_value": b"\x00"})]}
            rows = [{**row, **own} for row in batch.to_pylist()]
            yield pa.RecordBatch.from_pylist(rows, schema=schema)

    def collect(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            changes.extend(batch[CHANGES].to_pylist())
        yield from ()

    work = Work([partition(2)], with_attributes, schema)
    engine.run_edited(work, {"g-0": [("new", sql)]}, Work([], collect, SEEN))

    assert engine.attribute_fault(sql) is None
    data_type, text, binary = change
    expected = {
        "name": "new",
        "data_type": data_type,
        "string_value": text,
        "binary_value": binary,
    }
    assert changes == [[expected]]


@pytest.mark.parametrize(
    ("sql", "fault"),
    [
        ("body > 'a'", "gives boolean; cast it to string, binary or a number"),
        ("drained_at", "gives timestamp; cast it to string, binary or a number"),
        ("task", "task: is no column here"),
        ("unbase64(body)", "UNBASE64(body): needs --engine spark"),
    ],
)
def test_what_cannot_be_an_attribute_is_named(engine: LocalEngine, sql: str, fault: str) -> None:
    assert engine.attribute_fault(sql) == fault


@pytest.mark.parametrize("name", ["drain_id", "task"])
def test_sql_that_names_what_no_message_here_has_names_its_group(
    engine: LocalEngine, name: str
) -> None:
    work = Work([partition(1)], messages, ROWS)
    edits = {"g-1": [("new", name)]}

    fault = f"set_attributes of group g-1 '{name}': {name}: is no column here"
    with pytest.raises(SqlError, match=fault):
        engine.run_edited(work, edits, THEN)


@pytest.mark.parametrize("exchange", [None, Exchange(3, "task", [])])
def test_sql_that_fails_names_its_group_and_quotes_no_row(
    engine: LocalEngine, exchange: Exchange | None
) -> None:
    work = Work([partition(1, 3)], messages, ROWS)
    edits = {"g-1": [("new", "2147483647 + length(body)")]}
    calls: list[object] = []

    def counted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        calls.extend(batches)
        yield from ()

    with pytest.raises(SqlError, match=r"^set_attributes of group g-1: fails on a message: [^3]+$"):
        engine.run_edited(work, edits, Work([], counted, SEEN), exchange)
    assert calls == []


def test_an_exchange_gives_each_task_its_rows_in_order(engine: LocalEngine) -> None:
    work = Work([partition(*range(0, 300, 2)), partition(*range(1, 300, 2))], messages, ROWS)
    edits = {"g-1": [("size", "length(body)")]}

    exchange = Exchange(3, "task", ["position"])
    results = engine.run_edited(work, edits, THEN, exchange).to_pylist()

    for task, row in enumerate(results):
        # The positions of the rows are negative: the largest number comes first.
        numbers = range(297 + task, -1, -3)
        changes = [str(number) if number % 2 else "-" for number in numbers]
        assert row["rows"] == " ".join(f"m-{number}" for number in numbers)
        assert row["changes"] == " ".join(changes)
    assert len(results) == 3
    assert {row["thread"] for row in results} == {"work"}


def test_a_row_without_a_task_is_a_bug_and_nothing_is_sent(engine: LocalEngine) -> None:
    calls: list[object] = []
    work = Work([partition(1, 2)], messages, ROWS)

    def counted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        calls.extend(batches)
        yield from ()

    with pytest.raises(ValueError, match="a row has none of 2 tasks"):
        engine.run_edited(work, {}, Work([], counted, SEEN), Exchange(2, "task", []))
    assert calls == []


# --- Start


def test_neither_sql_nor_pages_are_loaded_before_they_are_needed() -> None:
    program = """
import sys
import dlq.cli.verbs.collect, dlq.cli.verbs.find, dlq.cli.verbs.look
import dlq.drain.drain, dlq.explain.analyze
from dlq.local_engine import LocalEngine

LocalEngine()
print({"duckdb", "jinja2", "sqlglot"} & set(sys.modules))
"""
    finished = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )

    assert finished.stdout == "set()\n"
