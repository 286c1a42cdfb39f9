from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlq.archive.ledger.claims import Claim, RunRecord, close_open_runs, timestamp
from dlq.archive.ledger.disposition import Disposition
from dlq.archive.ledger.run_results import write_result_files
from dlq.archive.lock import LockClock
from dlq.archive.storage.files import Archive, open_archive
from dlq.errors import ArchiveError, BusyError
from dlq.redrive.request import RedriveRequest
from dlq.redrive.run_record import record_and_fence
from dlq.redrive.send_run import SendRun
from local_sqs.clock import VirtualClock
from tests.support.builders import NOW, queue_url
from tests.support.ledgers import begin, settle


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return open_archive(str(tmp_path), creates=True)


def run_of(archive: Archive, run_id: str = "run-1", **options: Any) -> SendRun:
    request = RedriveRequest(reason="it is fixed", **options)
    url = queue_url("main")
    return SendRun(archive, request, "p-1", url, run_id=run_id, who="me@here")


def test_a_second_run_is_refused_whatever_its_plan_and_hears_of_the_first(
    archive: Archive,
) -> None:
    with run_of(archive, execute=True).locked():
        for plan_id in ("p-1", "p-2"):
            second = replace(run_of(archive, "run-2", execute=True), plan_id=plan_id)
            with (
                pytest.raises(BusyError, match=r"plan p-1 is .* by me@here since 20.*run run-1"),
                second.locked(),
            ):
                raise AssertionError("two runs at once")


@pytest.mark.parametrize(
    ("unconfirmed", "left", "waits"),
    [
        ("leave", "a claim", False),
        ("send", "a claim", True),
        ("send", "a claim, closed long ago", True),
        # SQS did not answer: nobody is at work on it.
        ("send", "a result", False),
        ("send", "a claim, settled since", False),
        ("send", "nothing", False),
    ],
)
def test_what_is_unconfirmed_goes_again_when_no_task_can_be_at_work_on_it(
    archive: Archive, unconfirmed: str, left: str, *, waits: bool
) -> None:
    if left.startswith("a claim"):
        begin(archive, "p-1", "run-0").claim("u", 1, Claim("me", "", "", timestamp(NOW), ("m-1",)))
    if left == "a result":
        settle(archive, "p-1", {"m-1": Disposition.UNCONFIRMED}, "run-0")
    if left == "a claim, closed long ago":
        close_open_runs(archive)
        assert write_result_files(archive, ("p-1", "run-0")) == ()
    if left == "a claim, settled since":
        settle(archive, "p-2", {"m-1": Disposition.DISCARDED}, "run-2", lock=3)
    clock = VirtualClock()
    lines: list[str] = []

    @contextmanager
    def progress(label: str, status: Callable[[], str]) -> Iterator[None]:
        lines.append(f"{label} {status()}")
        yield

    run = run_of(archive, execute=True, unconfirmed=unconfirmed)
    began_at = clock.time()
    of_run = LockClock(clock.time, clock.advance, clock.time)
    with run.locked(progress, of_run) as lock:
        assert lock
        assert lock.is_held
        waited = clock.time() - began_at

    assert 120 <= waited < 123 if waits else waited == 0
    line = "waiting for tasks of a run that was closed: what is unconfirmed goes again in 120 s"
    assert lines == ([line] if waits else [])


def test_run_that_lost_the_lock_before_its_record_was_there_makes_no_claim(
    archive: Archive,
) -> None:
    """Whoever took it may have closed all runs before that."""
    run = run_of(archive, execute=True)
    with run.locked() as lock:
        assert lock
    record = RunRecord(
        run_id="run-1",
        plan_id="p-1",
        verb="redrive",
        actor="me@here",
        reason="why",
        time=timestamp(NOW),
        destination=queue_url("main"),
    )
    assert record_and_fence(run, record, lock)
    with run_of(archive, "run-2", execute=True).locked():
        pass

    with pytest.raises(ArchiveError, match="another run has taken the lock"):
        record_and_fence(run, replace(record, run_id="run-3"), lock)
