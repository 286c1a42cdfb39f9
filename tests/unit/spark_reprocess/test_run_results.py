"""A run's result file: what it holds, who writes it, and what is never in none of the files."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.archive.ledger.claims import (
    Claim,
    Ledger,
    Result,
    list_runs,
    require_unsealed,
    timestamp,
)
from spark_reprocess.archive.ledger.disposition import Disposition
from spark_reprocess.archive.ledger.message_state import entries_of, strongest
from spark_reprocess.archive.ledger.open_set import claimed_table, read_messages
from spark_reprocess.archive.ledger.run_results import clear_plans, close_runs, ledger_files
from spark_reprocess.archive.messages.dead_letter_schema import to_row
from spark_reprocess.archive.messages.message_index import find_attempts, find_sender
from spark_reprocess.archive.messages.message_store import write_messages
from spark_reprocess.archive.plan_lock import LockHolder, plan_lock
from spark_reprocess.archive.storage.files import Archive, open_archive
from spark_reprocess.archive.storage.local import LocalArchive
from spark_reprocess.errors import ArchiveError, InputError
from spark_reprocess.run import STATUS_FILE, unfinished_ramp
from tests.support.approved_plan import planned
from tests.support.builders import message, queue_url
from tests.support.ledgers import NOW, RUNS, MemoryArchive, Try, attempts_of, begin, tries, write

TTL = 900.0
RUN = ("p-1", "run-1")
FILE = "ledger/runs/p-1/run-1.parquet"


def claim(*ids: str, run_id: str = "run-1") -> Claim:
    return Claim(run_id, "me@here", "why", "https://q", timestamp(NOW), ids)


def sent(message_id: str) -> Result:
    return Result(message_id, Disposition.SENT, timestamp(NOW), f"copy of {message_id}")


def run_of(archive: Archive, chunk: int, *ids: str, run_id: str = "run-1") -> None:
    """What a run leaves that has sent one chunk."""
    ledger = begin(archive, "p-1", run_id)
    assert ledger.claim("g-1", chunk, 1, claim(*ids, run_id=run_id))
    ledger.record("g-1", chunk, 1, [sent(one) for one in ids])


def closed(archive: Archive, run: tuple[str, str] = RUN) -> None:
    assert close_runs(archive, run, NOW) == ()


def open_chunks(archive: Archive) -> list[int]:
    """The chunks whose claims readers open."""
    return [attempt.name.chunk for attempt in ledger_files(archive)[1]]


def states(archive: Archive) -> dict[str, str]:
    rows = strongest(claimed_table(archive, NOW, TTL), "message_id").to_pylist()
    return {row["message_id"]: row["state"] for row in rows}


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return open_archive(str(tmp_path))


@given(st.lists(tries(), max_size=12), st.sets(st.sampled_from(RUNS)), st.lists(tries()))
def test_readers_say_the_same_whichever_runs_are_closed(
    first: list[Try], ended: set[tuple[str, str]], then: list[Try]
) -> None:
    """Results that come later win; claims that a closed run makes later count for nothing."""
    archive = MemoryArchive()
    write(archive, first)
    for run in sorted(ended & list_runs(archive).keys()):
        closed(archive, run)
    for chunk, one in enumerate(first, 1):
        if one.results is None and one.later is not None:
            Ledger(archive, one.plan_id).record("g-1", chunk, 1, one.later)
    write(archive, then, len(first) + 1)

    is_closed = list_runs(archive)
    said = [
        attempt
        for attempt in attempts_of(archive)
        if attempt.name.chunk <= len(first)
        or not is_closed[attempt.name.plan_id, attempt.claim.run_id]
    ]
    entries = entries_of(said, NOW, TTL)
    assert states(archive) == {one: entry.state for one, entry in entries.items()}
    ids = {message_id for attempt in said for message_id in attempt.claim.message_ids}
    found = {attempt.name: attempt for attempt in find_attempts(archive, ids)}
    assert found == {one.name: one for one in said if one.claim.message_ids}

    # Whoever removes claims first seals the plans and closes their runs.
    clear_plans(archive, timestamp(NOW + 1))
    assert states(archive) == {one: entry.state for one, entry in entries.items()}


def test_result_that_comes_after_the_file_wins(archive: Archive) -> None:
    slow = begin(archive, "p-1")
    slow.claim("g-1", 1, 1, claim("m-1", "m-2"))
    closed(archive)
    assert states(archive) == {"m-1": "busy", "m-2": "busy"}

    refused = Result("m-2", Disposition.FAILED, timestamp(NOW))
    slow.record("g-1", 1, 1, [sent("m-1"), refused])

    assert states(archive) == {"m-1": "sent"}
    assert find_sender(archive, "copy of m-1") == "m-1"
    (found,) = find_attempts(archive, ["m-1"])
    assert found.results == (sent("m-1"), refused)


def test_dead_run_is_closed_once_nothing_of_it_is_busy(archive: Archive) -> None:
    """By the next run that ends, of whichever plan, unless it still holds the plan lock."""
    begin(archive, "p-1").claim("g-1", 1, 1, replace(claim("m-1"), ttl_seconds=60))
    begin(archive, "p-2", "run-2")
    run = ("p-2", "run-2")

    assert close_runs(archive, run, NOW + 59) == ()
    assert list_runs(archive) == {RUN: False, run: True}
    with plan_lock(archive, LockHolder("run-1", "p-1", "plan p-1", "you")) as lock:
        assert close_runs(archive, run, lock._since) == ()  # noqa: SLF001 - its clock
        assert list_runs(archive) == {RUN: False, run: True}
    assert close_runs(archive, run, NOW + 60) == ()
    assert list_runs(archive) == {RUN: True, run: True}


@dataclass(frozen=True, slots=True)
class DisturbedArchive(LocalArchive):
    """Does something before it creates a result file."""

    before: Callable[[], None] = field(default=lambda: None)

    def create(self, path: str, content: bytes) -> bool:
        if path.endswith(".parquet"):
            self.before()
        return LocalArchive.create(self, path, content)


def test_results_older_than_what_is_asked_for_are_not_read() -> None:
    """But those of which the open set does not know how old they are."""
    archive = MemoryArchive()
    run_of(archive, 1, "m-1")
    closed(archive)
    begin(archive, "p-2", "run-2").claim("g-1", 2, 1, claim("m-2", run_id="run-2"))
    closed(archive, ("p-2", "run-2"))
    for has_open_set in (False, True):
        for since in (timestamp(NOW + 1), timestamp(NOW)):
            archive.opened.clear()
            claimed_table(archive, NOW, since=since)
            is_older = has_open_set and since > timestamp(NOW)
            assert (FILE in archive.opened) is not is_older
            assert "ledger/runs/p-2/run-2.parquet" in archive.opened
        archive.opened.clear()
        find_attempts(archive, ["m-1"], ["20240101T000000Z-aaaaaa"])
        assert (FILE in archive.opened) is not has_open_set
        read_messages(archive, NOW).open_set.write(archive)


def test_of_two_that_close_a_run_one_writes_the_file(archive: Archive) -> None:
    run_of(archive, 1, "m-1")

    closed(DisturbedArchive(archive.root, lambda: closed(archive)))

    assert archive.list("ledger/runs") == [
        *("ledger/runs/p-1/run-1.closing", "ledger/runs/p-1/run-1.json", FILE)
    ]
    assert states(archive) == {"m-1": "sent"}


def test_two_runs_of_a_plan_have_a_file_each(archive: Archive) -> None:
    run_of(archive, 1, "m-1")
    run_of(archive, 2, "m-2", run_id="run-2")
    with plan_lock(archive, LockHolder("run-2", "p-1", "plan p-1", "you"), now_seconds=lambda: NOW):
        closed(archive)
    assert open_chunks(archive) == [2]

    closed(archive, ("p-1", "run-2"))

    assert open_chunks(archive) == []
    assert pq.ParquetFile(Path(archive.root, FILE)).read()["chunk"].to_pylist() == [1]
    assert states(archive) == {"m-1": "sent", "m-2": "sent"}


def full() -> None:
    raise ArchiveError("archive: no space left on device")


@pytest.mark.parametrize("reason", ["why", "caf\udce9"])
def test_run_that_cannot_be_closed_is_noted_and_stays_open(archive: Archive, reason: str) -> None:
    """Parquet cannot hold what a terminal with another encoding gives as a reason."""
    begin(archive, "p-1").claim("g-1", 1, 1, replace(claim("m-1"), reason=reason))
    Ledger(archive, "p-1").record("g-1", 1, 1, [sent("m-1")])

    (note,) = close_runs(DisturbedArchive(archive.root, full), RUN, NOW)

    assert "results were not put into one file" in note
    assert open_chunks(archive) == [1]
    assert states(archive) == {"m-1": "sent"}


def test_sealed_plan_is_not_carried_out_again(archive: Archive) -> None:
    run_of(archive, 1, "m-1")
    run_of(archive, 2, "m-2", run_id="run-2")
    closed(archive)
    clear_plans(archive, timestamp(NOW))
    require_unsealed(archive, "p-1")

    clear_plans(archive, timestamp(NOW + 1))

    for act in (
        lambda: require_unsealed(archive, "p-1"),
        lambda: begin(archive, "p-1", "run-3"),
    ):
        with pytest.raises(InputError, match=r"plan p-1: is too old to be carried out.*anew"):
            act()
    assert archive.list("ledger/plan_id=p-1") == []
    assert states(archive) == {"m-1": "sent", "m-2": "sent"}


def test_restores_are_never_sealed(archive: Archive) -> None:
    """Their plan id is their queue's own, for ever."""
    begin(archive, "restore-1", verb="restore")

    clear_plans(archive, timestamp(NOW + 1))

    require_unsealed(archive, "restore-1")


def rewrite(archive: Archive, change: Callable[[pa.Table], pa.Table]) -> None:
    path = Path(archive.root, FILE)
    pq.write_table(change(pq.ParquetFile(path).read()), path)


@pytest.mark.parametrize("columns", [None, ["plan_id"], ["plan_id", "unit", "chunk", "number"]])
def test_file_that_is_no_parquet_or_lacks_columns_is_named(
    archive: Archive, columns: list[str] | None
) -> None:
    run_of(archive, 1, "m-1")
    closed(archive)
    if columns:
        rewrite(archive, lambda table: table.select(columns))
    else:
        archive.write(FILE, b"no Parquet")

    with pytest.raises(ArchiveError, match=rf"{FILE} cannot be read .*; somebody changed it"):
        states(archive)


def test_damaged_page_is_named(archive: Archive) -> None:
    run_of(archive, 1, *(f"m-{n}" for n in range(100)))
    closed(archive)
    path = Path(archive.root, FILE)
    content = bytearray(path.read_bytes())
    content[4 : len(content) // 2] = b"\xff" * (len(content) // 2 - 4)
    path.write_bytes(content)

    with pytest.raises(ArchiveError, match=rf"{FILE} cannot be read"):
        find_attempts(archive, ["m-1"])


def test_unknown_outcome_is_refused(archive: Archive) -> None:
    """A message with it must not be taken for one that is open."""
    run_of(archive, 1, "m-1")
    closed(archive)

    def change(table: pa.Table) -> pa.Table:
        (row,) = table.to_pylist()
        row["messages"][0]["outcome"] = "teleported"
        return table.from_pylist([row], schema=table.schema)

    rewrite(archive, change)

    with pytest.raises(ArchiveError, match="has an unknown outcome"):
        states(archive)


def test_ramp_of_a_sealed_plan_is_left(tmp_path: Path) -> None:
    """Every scheduled run would end there."""
    archive = open_archive(str(tmp_path), creates=True)
    row = to_row(message("m-1"), queue_url("p"), datetime.fromtimestamp(NOW, UTC))
    write_messages(archive, "d-1", 0, [row])
    plan_id = Path(planned(archive)).parent.name
    begin(archive, plan_id)
    archive.write(STATUS_FILE, json.dumps({"ramp": plan_id}).encode())
    policy: Any = SimpleNamespace(sha256=None)
    assert unfinished_ramp(archive, policy) == plan_id

    clear_plans(archive, timestamp(NOW + 1))

    assert unfinished_ramp(archive, policy) is None
