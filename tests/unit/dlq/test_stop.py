"""Why a run stopped: what each cause decides, and how it travels from a task to its driver."""

import json

import pyarrow as pa
import pytest

from dlq.archive.ledger.disposition import Disposition
from dlq.archive.ledger.stop import (
    Stop,
    StopCause,
    foremost,
    read_marker,
    record_stop,
    recorded_stop,
    stop_of,
)
from dlq.archive.storage.records import record_bytes
from dlq.cli.verb import BAD_INPUT, DONE, FAILED_AGAIN, INTERRUPTED, NOT_ALL_SENT
from dlq.cli.verbs.redrive import exit_code_of
from dlq.redrive.sending.send_task import SETTLED, read_settled, settled_rows
from dlq.redrive.summary import GroupResult, RedriveSummary, Tally
from tests.support.ledgers import MemoryArchive

ONE_DESTINATION = True
ALL = False

CAUSES = {
    "interrupted": ("interrupted", INTERRUPTED, ALL),
    "time_over": ("its time budget is over", NOT_ALL_SENT, ALL),
    "archive": ("the archive cannot be used", NOT_ALL_SENT, ALL),
    "queue": ("the queue takes no messages", NOT_ALL_SENT, ONE_DESTINATION),
    "no_answers": ("SQS takes no messages", NOT_ALL_SENT, ALL),
    "lock_lost": ("it has lost the archive lock", NOT_ALL_SENT, ALL),
    "unknown": ("somebody else wrote a stop marker", NOT_ALL_SENT, ALL),
    "breaker": ("waiting for the breaker", NOT_ALL_SENT, ONE_DESTINATION),
    "failure_table": ("waiting for the failure table", NOT_ALL_SENT, ONE_DESTINATION),
    "ramp": ("waiting for the ramp", NOT_ALL_SENT, ONE_DESTINATION),
    "bad_step": ("more messages failed again than allowed", FAILED_AGAIN, ONE_DESTINATION),
    "function": ("the function gave no answer", BAD_INPUT, ALL),
    "input": ("a message cannot be used", BAD_INPUT, ALL),
}


def test_each_cause_has_its_sentence_its_exit_code_and_its_reach() -> None:
    causes = {}
    for cause in StopCause:
        causes[cause.value] = (cause.sentence, cause.exit_code, cause.stops_one_destination)

    assert causes == CAUSES


def test_a_sentence_has_cause_and_detail() -> None:
    assert Stop(StopCause.INTERRUPTED).sentence == "interrupted"
    assert Stop(StopCause.RAMP, "run again").sentence == "waiting for the ramp: run again"


WAITS = Stop(StopCause.BREAKER, "limited to 1 replay a minute")
LOST = Stop(StopCause.LOCK_LOST, "of another run")
OVER = Stop(StopCause.TIME_OVER)


@pytest.mark.parametrize(
    ("stops", "stop"),
    [
        ([], None),
        ([WAITS], WAITS),
        ([WAITS, LOST], LOST),
        ([OVER, WAITS, LOST], OVER),
    ],
)
def test_what_stops_the_whole_run_counts_before_what_a_destination_waits_for(
    stops: list[Stop], stop: Stop | None
) -> None:
    assert foremost(stops) == stop


@pytest.mark.parametrize("cause", StopCause)
def test_stop_is_the_same_after_its_marker_its_record_a_task_and_an_answer(
    cause: StopCause,
) -> None:
    """The detail of one cause may have the words of another: nobody reads them."""
    stop = Stop(cause, "interrupted: waiting for the breaker")
    rows = pa.RecordBatch.from_pylist(settled_rows([], stop), schema=SETTLED).to_pylist()

    archive = MemoryArchive()
    record_stop(archive, "p-1", "r-1", stop)

    assert recorded_stop(archive, "p-1", "r-1") == stop
    assert recorded_stop(archive, "p-1", "r-2") is None
    assert read_marker(record_bytes(stop)) == stop
    assert read_settled(rows) == ([], [stop])
    assert stop_of(json.loads(record_bytes(stop))) == stop


@pytest.mark.parametrize(
    ("content", "detail"),
    [
        (b"", ""),
        (b"please\nstop", "please stop"),
        (b"\xff", "\N{REPLACEMENT CHARACTER}"),
        (b"null", "None"),
        (b"[" * 100_000, "[" * 200),
        (b'{"cause": "of tomorrow"}', "{'cause': 'of tomorrow'}"),
        (b'{"cause": "interrupted", "why": ""}', "{'cause': 'interrupted', 'why': ''}"),
    ],
)
def test_marker_that_this_program_did_not_write_is_a_stop(content: bytes, detail: str) -> None:
    assert read_marker(content) == Stop(StopCause.UNKNOWN, detail)


def test_rows_of_tasks_are_counts_and_stops() -> None:
    sent = Tally("g-1", Disposition.SENT, 3, examples=("m-1",))
    failed = Tally("g-1", Disposition.FAILED, 1, "interrupted", ("m-2",))
    rows = [*settled_rows([sent], None), *settled_rows([failed], WAITS)]
    batch = pa.RecordBatch.from_pylist(rows, schema=SETTLED)

    assert read_settled(batch.to_pylist()) == ([sent, failed], [WAITS])


def summary_of(counts: dict[str, int], stop: Stop | None) -> RedriveSummary:
    group = GroupResult("g-1", "", "redrive", counts)
    return RedriveSummary("p-1", "r-1", {"https://q": 1}, (group,), (), stop)


@pytest.mark.parametrize(
    ("counts", "cause", "exit_code"),
    [
        ({"sent": 2}, None, DONE),
        ({"sent": 1, "unconfirmed": 1}, None, NOT_ALL_SENT),
        ({"sent": 1, "not_reached": 1}, StopCause.INTERRUPTED, INTERRUPTED),
        ({"sent": 1, "halted": 1}, StopCause.INTERRUPTED, INTERRUPTED),
        ({"sent": 1, "halted": 1, "not_reached": 1}, StopCause.RAMP, FAILED_AGAIN),
        ({"sent": 1, "not_reached": 1}, StopCause.BAD_STEP, FAILED_AGAIN),
        ({"sent": 1, "not_reached": 1}, StopCause.TIME_OVER, NOT_ALL_SENT),
    ],
)
@pytest.mark.parametrize("detail", ["", "interrupted", "waiting for the breaker"])
def test_exit_code_follows_from_the_cause_whatever_the_detail_says(
    counts: dict[str, int], cause: StopCause | None, exit_code: int, detail: str
) -> None:
    stop = Stop(cause, detail) if cause else None

    assert exit_code_of(summary_of(counts, stop)) == exit_code
