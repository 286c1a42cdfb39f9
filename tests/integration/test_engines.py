"""Both engines give the same rows and the same errors, and end at Ctrl-C."""

import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dlq.archive.messages.dead_letter_schema import ARROW_SCHEMA, READ_SCHEMA, to_row
from dlq.archive.messages.message_reading import (
    DRAIN_ID,
    FILE,
    read_files_work,
    read_messages_work,
    schema_of,
)
from dlq.archive.messages.message_store import (
    message_files,
    rows_by_file,
    with_files,
    write_messages,
)
from dlq.archive.storage.files import Archive, open_archive
from dlq.engine import AttributeSql, Engine, Exchange, Work
from dlq.errors import ArchiveError, InputError, SqlError
from dlq.local_engine import LocalEngine
from dlq.sql.duckdb_terms import NEEDS_SPARK
from dlq_replay.wire.attributes import MessageAttribute
from dlq_replay.wire.context import FailureError
from dlq_replay.wire.message import Message
from spark_reprocess.engine import SparkEngine
from tests.support import engine_work
from tests.support.builders import NOW, context, counter, message, queue_arn, queue_url, text
from tests.support.engine_work import (
    DESCRIBED,
    FAILURES,
    GROUPS,
    NUMBERS,
    POSITION,
    TASK,
    Failing,
    Grouping,
    Large,
    Sleeping,
    described,
)
from tests.support.sql_forms import OF_MESSAGES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUICKLY_SECONDS = 20
"""Far less than the minute that ``Sleeping`` takes."""

THEN = Work([], described, DESCRIBED)


@pytest.fixture
def engines(started_spark: "SparkSession") -> tuple[Engine, Engine]:
    return LocalEngine(), SparkEngine(started_spark)


# --- Archives

LONG = "{" + "лmö👩 %_\\'\n" * 60_000
"""About 1 MiB; no JSON."""

BODIES = (
    "",
    " ",
    "plain text",
    "it's",
    "a\\b\n\t'\"%_",
    "e\u0301 é",
    "👩‍👩‍👧 🇩🇪",
    "ẞ ŒÆ İı ΣΑΣ",
    "5",
    "null",
    "{broken",
    "[1, 2]",
    '{"a": {"b": 1}, "n": "7", "items": ["A", "B"]}',
    '{"id": 3}',
    '{"type": "Order", "sku": "S-1", "n": 12}',
    '{"customer": {"region": "ap"}}',
)
LETTERS = st.characters(exclude_categories=["Cs", "Cn", "Co"])
"""Of others only Java knows the case."""

ATTRIBUTES: tuple[dict[str, MessageAttribute], ...] = (
    {},
    {"own-text": text("grüße"), "own-number": text("1.0E2", "Number.float")},
    {"own-bytes": MessageAttribute("Binary.png", b"\x00\xff\x89PNG"), "own-text": text("👩")},
    {"own-bytes": MessageAttribute("Binary", b""), **counter("5")},
    {**context(reason="too_old", first_id="first"), **counter("3"), "own-number": text("-7")},
    {**context(error=FailureError("TimeoutError", "order 7 after 3 s")), "own-text": text("it's")},
)
SYSTEM: dict[str, st.SearchStrategy[str | None]] = {
    "SentTimestamp": st.sampled_from([None, "0", str(NOW * 1000), str(NOW * 1000 - 999)]),
    "ApproximateReceiveCount": st.sampled_from([None, "1", "4", "2147483647", "99999999999"]),
    "DeadLetterQueueSourceArn": st.sampled_from([None, queue_arn("main"), queue_arn("other")]),
    "AWSTraceHeader": st.sampled_from([None, "Root=1-5759e988-bd862e3fe1be46a994272793"]),
}


@st.composite
def copies(draw: st.DrawFn, number: int, *, is_fifo: bool, may_be_long: bool) -> Message:
    body = draw(st.sampled_from(BODIES) | st.text(LETTERS, max_size=20))
    if may_be_long and number == 3:
        body = LONG
    drawn = {name: draw(strategy) for name, strategy in SYSTEM.items()}
    system = {name: value for name, value in drawn.items() if value is not None}
    if is_fifo:
        group = draw(st.sampled_from(["it's", "группа", "plain"]))
        system |= {"MessageGroupId": group, "SequenceNumber": f"{number:020}"}
    return message(f"m-{number:03d}", body, draw(st.sampled_from(ATTRIBUTES)), **system)


@st.composite
def drains(draw: st.DrawFn) -> list[list[list[Message]]]:
    """The messages of each file of each drain; a message may be in several drains."""
    is_fifo = draw(st.booleans())
    may_be_long = draw(st.integers(0, 3)) == 0
    result = []
    for _ in range(draw(st.integers(1, 3))):
        ids = draw(st.lists(st.integers(0, 40), min_size=1, max_size=25, unique=True))
        strategies = [copies(number, is_fifo=is_fifo, may_be_long=may_be_long) for number in ids]
        letters = [draw(strategy) for strategy in strategies]
        size = draw(st.integers(1, len(letters)))
        starts = range(0, len(letters), size)
        result.append([letters[start : start + size] for start in starts])
    return result


def archive_with(folder: str, all_drains: list[list[list[Message]]]) -> Archive:
    archive = open_archive(folder, creates=True)
    for number, files in enumerate(all_drains):
        for task, messages in enumerate(files):
            drained_at = datetime.fromtimestamp(NOW + number, UTC)
            rows = [to_row(message, queue_url("parked"), drained_at) for message in messages]
            write_messages(archive, f"20231121T031502Z-{number:06x}", task, rows)
    return archive


# --- SQL

CONDITIONS = (
    *OF_MESSAGES,
    "body = ''",
    "receive_count > NULL",
    "true",
    "message_group_id IS NULL OR message_group_id = 'it\\'s'",
    "source_arn LIKE '%:main' AND NOT coalesce(receive_count, 0) BETWEEN 2 AND 5",
    "error_type = 'TimeoutError' OR parked_reason IN ('too_old', 'unknown')",
    "receive_count = 2147483647 OR receive_count IS NULL",
    "lower(body) LIKE '%order%' AND get_json_object(body, '$.sku') IS NOT NULL",
    "length(body) > 100000 OR body ILIKE '%İI%' OR contains(body, '👩')",
    "left(body, 5) <> trim(left(body, 5)) OR right(body, 1) = 'y'",
    "try_cast(attributes['own-number'].string_value AS DOUBLE) > 50",
    "attributes['own-bytes'].data_type RLIKE '^Binary(\\\\.[a-z]+)?$'",
    "size(attributes) >= 2 AND map_contains_key(attributes, 'own-text')",
    "sha2(body, 256) > '8' AND drain_id LIKE '%000001'",
    "date(sent_at) = date '2023-11-14' OR year(drained_at) < 2000",
    "replay_count * 2 - 1 >= 5 OR try_divide(body_bytes, receive_count) < 3",
    "CASE WHEN source_arn IS NULL THEN first_id ELSE message_id END > 'm-010'",
    "try_cast(body AS BIGINT) = 5 OR try_cast(body AS BOOLEAN)",
)
VALUES = (
    "body",
    "NULL",
    "1",
    "2.50",
    "-(0.5D)",
    "'it\\'s 👩'",
    "''",
    "nullif(body, '')",
    "upper(left(body, 20))",
    "get_json_object(body, '$.type')",
    "replay_count + 1",
    "receive_count",
    "body_bytes / 4",
    "length(body)",
    "attributes['own-bytes'].binary_value",
    "concat('x-', message_id)",
    "coalesce(message_group_id, drain_id)",
    "string(sent_at)",
    "md5(body)",
    "CASE WHEN body_bytes > 9 THEN 'large' END",
    "try_cast(body AS DOUBLE)",
    "attributes['own-number'].string_value",
    "try_cast(body AS INT) DIV 2",
    None,
)
EDITS = st.dictionaries(
    st.sampled_from([group for group in GROUPS if group] + ["g-nobody"]),
    st.lists(
        st.tuples(st.sampled_from(["own-text", "новый", "`a.b`"]), st.sampled_from(VALUES)),
        max_size=3,
    ),
    max_size=4,
)


@dataclass(frozen=True, slots=True)
class Question:
    """The questions that both engines are asked about one archive."""

    wanted: Sequence[bool]
    conditions: Sequence[str]
    edits: AttributeSql
    tasks: int


QUESTIONS = st.builds(
    Question,
    wanted=st.lists(st.booleans(), min_size=8, max_size=8) | st.just([True]),
    conditions=st.lists(st.sampled_from(CONDITIONS), min_size=4, max_size=4, unique=True),
    edits=EDITS,
    tasks=st.integers(1, 4),
)


def listed(rows: pa.Table) -> list[Any]:
    """Return the rows in an order of their own: an engine gives them in any."""
    return sorted(rows.to_pylist(), key=repr)


@settings(
    max_examples=8,
    # To shrink would take hours: each example is some jobs of Spark.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.large_base_example,
        HealthCheck.data_too_large,
    ],
)
@given(all_drains=drains(), question=QUESTIONS)
def test_both_engines_give_the_same_rows(
    engines: tuple[Engine, Engine], all_drains: list[list[list[Message]]], question: Question
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        archive = archive_with(folder, all_drains)
        files = message_files(archive)
        rows = with_files(rows_by_file(archive, files, ["message_id"]), ["message_id"])
        mask = [question.wanted[place % len(question.wanted)] for place in range(rows.num_rows)]
        wanted = rows.filter(pa.array(mask))

        answers = [answers_of(engine, archive, wanted, question) for engine in engines]

    local, on_spark = answers
    assert local.keys() == on_spark.keys()
    # A number with very many digits, and the like.
    refused = {name for name, answer in local.items() if f"{NEEDS_SPARK}: a message" in str(answer)}
    for name in local.keys() - refused:
        assert local[name] == on_spark[name], name
    assert len(local["run"]) == wanted.num_rows


def answers_of(
    engine: Engine, archive: Archive, wanted: pa.Table, question: Question
) -> dict[str, Any]:
    """Return what *engine* gives for each method, and for each condition."""
    columns = [*ARROW_SCHEMA.names, FILE]
    read = read_messages_work(archive, wanted, columns, engine.slots)
    answers: dict[str, Any] = {"run": listed(engine.run(read))}
    for sql in question.conditions:
        some = ["message_id", FILE, "body_bytes"]
        answers[sql] = answer_of(lambda: engine.run_where(read, sql, some, hidden=[FILE]))  # noqa: B023

    grouping = Grouping(question.tasks)
    schema = grouping.schema(schema_of(columns))
    adding = Work([], grouping.add, schema)
    grouped = read_messages_work(archive, wanted, columns, engine.slots, adding)

    def edited(exchange: Exchange | None = None) -> pa.Table:
        return engine.run_edited(grouped, question.edits, THEN, exchange)

    exchange = Exchange(question.tasks, TASK, [POSITION, "message_id", FILE])
    answers["edited"] = answer_of(lambda: edited().drop_columns(["place"]))
    answers["exchanged"] = answer_of(lambda: edited(exchange))
    return answers


def answer_of(call: Callable[[], pa.Table]) -> Any:
    try:
        return listed(call())
    except SqlError as error:
        return str(error)


# --- Partitions, sizes and types


def numbered(*partitions: Sequence[int]) -> list[pa.Table]:
    return [pa.table({"number": pa.array(numbers, pa.int64())}) for numbers in partitions]


@pytest.mark.both_engines
def test_each_partition_is_one_call(engine: Engine) -> None:
    whole = pa.table({"number": range(100_000)})
    slices = [whole.slice(place * 1000, 3) for place in range(5)]
    for partitions in (
        numbered([1, 2], [], [3]),
        # More bytes than every task takes along.
        numbered([*range(200_000)], [], [7]),
        slices,
        [],
    ):
        rows = engine.run(Work(partitions, engine_work.numbers, NUMBERS))

        expected = Counter[int | None]()
        for partition in partitions:
            expected.update([*partition["number"].to_pylist(), -partition.num_rows])
        assert Counter(rows["number"].to_pylist()) == expected
        assert rows.schema == NUMBERS


@pytest.mark.both_engines
def test_rows_of_a_mebibyte_pass(engine: Engine) -> None:
    work = Work(numbered([*range(40)], [*range(40, 50)]), Large().run, Large.schema)

    rows = engine.run(work)
    chosen = engine.run_where(work, "body LIKE '7é%' OR right(left(body, 3), 1) = 'x'", ["body"])

    assert rows.num_rows == 50
    assert pc.sum(pc.utf8_length(rows["body"])).as_py() == 50 * 2**20
    assert [str(body)[:3] for body in chosen["body"].to_pylist()] == ["7éé"]


@pytest.mark.both_engines
def test_rows_have_exactly_the_types_of_the_work(engine: Engine, tmp_path: Path) -> None:
    archive = archive_with(str(tmp_path), [[[message("m-1", attributes=ATTRIBUTES[2])]]])
    columns = [*ARROW_SCHEMA.names, FILE]

    work = read_files_work(archive, message_files(archive), columns, 1)

    assert engine.run(work).schema == work.schema
    some = engine.run_where(work, "true", ["attributes", "sent_at"])
    assert some.schema == pa.schema([work.schema.field(name) for name in some.schema.names])


@pytest.mark.both_engines
def test_edits_of_many_groups_are_evaluated(engine: Engine, tmp_path: Path) -> None:
    archive = archive_with(str(tmp_path), [[[message(f"m-{n:03d}") for n in range(40)]]])
    edits = {f"g-{n}": [("a", f"concat(message_id, '{n}')"), ("b", None)] for n in range(200)}
    schema = Grouping(1).schema(schema_of(["message_id", "body"]))
    work = read_files_work(archive, message_files(archive), ["message_id", "body"], 1)
    work = Work(work.partitions, Then(work.function, Grouping(1).add).run, schema)

    rows = engine.run_edited(work, edits, THEN).to_pylist()

    changes = {}
    for row in rows:
        values = [change["string_value"] for change in row["attribute_changes"] or []]
        changes[row["message_id"]] = values

    assert len(changes) == 40
    for message_id, values in changes.items():
        assert values in ([], [f"{message_id}0", None], [f"{message_id}2", None])
    changed = [message_id for message_id, values in changes.items() if values]
    assert len(changed) > 10


@dataclass(frozen=True, slots=True)
class Then:
    """One function after another."""

    first: Callable[..., Iterator[pa.RecordBatch]]
    second: Callable[..., Iterator[pa.RecordBatch]]

    def run(self, batches: Any) -> Iterator[pa.RecordBatch]:
        return self.second(self.first(batches))


@pytest.mark.parametrize(
    "sql",
    [
        "true",
        "body > 'a'",
        "sent_at",
        "date(sent_at)",
        "sent_at - drained_at",
        "INTERVAL 1 DAY",
        "attributes",
        "attributes['a']",
        "split(body, ',')",
        "map_values(attributes)",
        "json_object_keys(body)",
        "no_column",
        "count(body)",
        "body",
        "NULL",
        "1",
        "2.5",
        "1.5D",
        "body_bytes",
        "body_bytes / 3",
        "left(body, 9)",
        "attributes['a'].binary_value",
        "receive_count + 1",
        "CASE WHEN true THEN 1 END",
    ],
)
def test_the_type_of_an_attribute_is_judged_alike(engines: tuple[Engine, Engine], sql: str) -> None:
    local, on_spark = (engine.attribute_fault(sql) for engine in engines)

    assert local == on_spark


@pytest.mark.parametrize(
    "sql", ["body =", "body", "NULL", "no_column = 1", "current_date() > sent_at"]
)
def test_a_condition_is_judged_alike(engines: tuple[Engine, Engine], sql: str) -> None:
    for engine in engines:
        with pytest.raises(SqlError) as raised:
            engine.check_condition(sql, READ_SCHEMA, "rule 1")
        with pytest.raises(SqlError, match=r"^--where "):
            engine.run_where(Work([], engine_work.numbers, READ_SCHEMA), sql, [])
        assert str(raised.value).startswith(f"rule 1 {sql!r}: ")


# --- Errors


def methods(engine: Engine, work: Work) -> dict[str, Callable[[], pa.Table]]:
    """Return a call of each method that does *work*, whose rows have ``number``."""
    with_group = pa.schema([*NUMBERS, ("group_id", pa.string()), (TASK, pa.int32())])
    grouped = Work(work.partitions, Then(work.function, add_group).run, with_group)
    then = Work([], only_numbers, NUMBERS)
    exchange = Exchange(2, TASK, ["number"])
    return {
        "run": lambda: engine.run(work),
        "run_where": lambda: engine.run_where(work, "number >= 0", ["number"]),
        "run_edited": lambda: engine.run_edited(grouped, {}, then),
        "run_edited, exchanged": lambda: engine.run_edited(grouped, {}, then, exchange),
    }


def add_group(batches: Any) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        nulls = pa.nulls(batch.num_rows, pa.string())
        tasks = pa.array([number % 2 for number in batch["number"].to_pylist()], pa.int32())
        names = ["number", "group_id", TASK]
        yield pa.RecordBatch.from_arrays([batch["number"], nulls, tasks], names=names)


def only_numbers(batches: Any) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.select(["number"])


@pytest.mark.both_engines
@pytest.mark.parametrize("error", FAILURES, ids=lambda error: type(error).__name__)
def test_an_error_of_ours_reaches_the_caller(engine: Engine, error: Exception) -> None:
    failing = Work(numbered([0], [1], [2]), Failing(error).run, NUMBERS)

    for call in methods(engine, failing).values():
        with pytest.raises(type(error)) as raised:
            call()
        assert str(raised.value) == str(error)
        assert type(raised.value) is type(error)


@pytest.mark.both_engines
def test_any_other_error_of_a_function_stays_a_bug(engine: Engine) -> None:
    failing = Work(numbered([0], [1]), Failing(LookupError("no such thing")).run, NUMBERS)

    for call in methods(engine, failing).values():
        with pytest.raises(Exception, match="no such thing") as raised:
            call()
        assert not isinstance(raised.value, ArchiveError | InputError)


@pytest.mark.both_engines
def test_a_file_that_is_gone_is_named(engine: Engine, tmp_path: Path) -> None:
    archive = archive_with(str(tmp_path), [[[message("m-1")], [message("m-2")]]])
    files = message_files(archive)
    wanted = with_files(rows_by_file(archive, files, ["message_id"]), ["message_id"])
    archive.remove(files[1])

    works = [
        read_files_work(archive, files, ["message_id"], engine.slots),
        read_messages_work(archive, wanted, ["message_id"], engine.slots),
    ]
    fault = f"archive {archive.root}: {files[1]} is missing; restore it from a backup"
    for work in works:
        with pytest.raises(ArchiveError) as raised:
            engine.run(work)
        assert str(raised.value).startswith(fault)
        with pytest.raises(ArchiveError) as raised:
            engine.run_where(work, "message_id = 'm-1'", [DRAIN_ID])
        assert str(raised.value).startswith(fault)


@pytest.mark.both_engines
def test_sql_that_fails_on_a_row_names_its_place_and_quotes_no_row(
    engine: Engine, tmp_path: Path
) -> None:
    archive = archive_with(str(tmp_path), [[[message(f"m-{n}", "secret") for n in range(9)]]])
    columns = ["message_id", "body"]
    schema = Grouping(1).schema(schema_of(columns))
    work = read_files_work(archive, message_files(archive), columns, engine.slots)
    grouped = Work(work.partitions, Then(work.function, Grouping(1).add).run, schema)
    sql = "2147483647 + length(body)"

    with pytest.raises(SqlError) as raised:
        engine.run_where(work, f"{sql} > 0", columns)
    assert str(raised.value).startswith(f"--where '{sql} > 0': fails on a message: ")
    assert "secret" not in str(raised.value)

    for exchange in (None, Exchange(1, TASK, [POSITION])):
        with pytest.raises(SqlError, match=r"^set_attributes of group g-0 'task': task: is no col"):
            engine.run_edited(grouped, {"g-0": [("new", TASK)]}, THEN, exchange)
        with pytest.raises(SqlError) as raised:
            engine.run_edited(grouped, {"g-0": [("new", sql)]}, THEN, exchange)
        assert str(raised.value).startswith("set_attributes of group g-0: fails on a message: ")
        assert "secret" not in str(raised.value)


# --- Ctrl-C


@pytest.fixture
def former_handler() -> Iterator[None]:
    """An engine of Spark sets a handler of its own."""
    former = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, former)


def press_when_begun(folder: Path) -> None:
    """Press Ctrl-C when a function has begun."""

    def press() -> None:
        give_up_at = time.monotonic() + 60
        while not Path(folder, "begun").exists() and time.monotonic() < give_up_at:
            time.sleep(0.05)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    Path(folder, "begun").unlink(missing_ok=True)
    threading.Thread(target=press, daemon=True).start()


def wait_for_cancellations() -> None:
    """Wait until nobody cancels jobs of Spark: one that starts meanwhile would end, too."""
    for thread in threading.enumerate():
        if thread.name == "cancel":
            thread.join(60)


@pytest.mark.both_engines
@pytest.mark.parametrize("method", ["run", "run_where", "run_edited", "run_edited, exchanged"])
def test_ctrl_c_ends_each_method(
    engine: Engine, former_handler: None, tmp_path: Path, method: str
) -> None:
    sleeping = Work(numbered([0], [2]), Sleeping(str(tmp_path)).run, NUMBERS)
    call = methods(engine, sleeping)[method]

    # And again: what the first one has set must not be there for the second.
    for _ in range(2):
        press_when_begun(tmp_path)
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            call()
        assert time.monotonic() - started < QUICKLY_SECONDS
        wait_for_cancellations()

    quick = Work(numbered([0], [2]), only_numbers, NUMBERS)
    assert methods(engine, quick)[method]().num_rows == 2


# --- Threads


@pytest.mark.both_engines
def test_several_threads_may_use_an_engine(engine: Engine) -> None:
    results: list[int] = []

    def use(number: int) -> None:
        work = Work(numbered([number] * 5, [number]), only_numbers, NUMBERS)
        results.append(engine.run_where(work, f"number = {number}", ["number"]).num_rows)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == [6, 6, 6]
