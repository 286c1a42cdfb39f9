"""Jobs are processes: they outlive whoever started them, and what became of them is found."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dlq.archive.storage.files import open_archive
from dlq.console.jobs import KEPT_AGE, Job, Jobs
from dlq.errors import ArchiveError, InputError

ROOT = Path(__file__).resolve().parents[2]
PROCESS = (sys.executable, "-m", "tests.support.job_process")


@pytest.fixture
def jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Jobs]:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(ROOT), str(ROOT / "layers" / "core"))))
    jobs = Jobs(tmp_path / "state" / "jobs" / "a", process=PROCESS)
    yield jobs
    for job in jobs.all():
        jobs.stop(job.job_id, 2)
        until(jobs, job, is_over)


def until(jobs: Jobs, job: Job, is_so: Callable[[Job], bool]) -> Job:
    deadline = time.monotonic() + 60
    while not ((now := jobs.get(job.job_id)) and is_so(now)):
        assert time.monotonic() < deadline, now
        time.sleep(0.02)
    return now


def is_over(job: Job) -> bool:
    return not job.is_running


def is_busy(job: Job) -> bool:
    return job.step is not None and bool(job.step.text)


def started(jobs: Jobs, *words: str) -> Job:
    return jobs.start(jobs.make_id(), words)


@pytest.mark.parametrize(
    ("command", "code", "status"),
    [
        ("exit 0", 0, "done"),
        ("break", 1, "Spark failed"),
        ("exit 2", 2, "refused"),
        ("exit 3", 3, "stopped: too much came back"),
        ("exit 4", 4, "some messages were not sent"),
        ("exit 130", 130, "stopped"),
        ("exit 77", 77, "exit code 77"),
        ("die", None, "died"),
    ],
)
def test_exit_code_is_kept_and_put_in_words(
    jobs: Jobs, command: str, code: int | None, status: str
) -> None:
    job = started(jobs, *command.split())

    ended = until(jobs, job, is_over)

    assert (ended.exit_code, ended.status) == (code, status)
    assert code is None or (ended.ended_at and ended.ended_at >= ended.started_at)
    assert ("ValueError: a bug" in ended.errors()) == (command == "break")
    jobs.stop(job.job_id, 2)
    assert not list(job.folder.glob("stop*"))


def test_answer_and_errors_are_kept(jobs: Jobs) -> None:
    answer = {"sent": 3, "text": "<script>\ud800"}

    ended = until(jobs, started(jobs, "print", json.dumps(answer)), is_over)

    assert ended.answer() == answer
    assert "dlq: a fault" in ended.errors()


def test_command_is_one_of_ours(jobs: Jobs, tmp_path: Path) -> None:
    ours = Jobs(jobs.folder)
    words = ["status", "--archive", open_archive(str(tmp_path / "archive"), creates=True).root]

    ended = until(ours, ours.start(ours.make_id(), words), is_over)
    refused = until(ours, ours.start(ours.make_id(), ["status", "--nothing"]), is_over)

    answer = ended.answer()
    assert answer
    assert (ended.status, answer["messages"]) == ("done", 0)
    assert (refused.status, refused.answer()) == ("refused", None)
    assert "--archive" in refused.errors()


def test_what_it_does_is_shown_while_it_runs(jobs: Jobs) -> None:
    job = until(jobs, started(jobs, "sleep"), is_busy)

    assert job.status == "running"
    assert job.words == ["sleep"]
    assert job.step
    assert job.step.label == "sleeping"


def test_stop_interrupts_and_the_second_one_again(jobs: Jobs) -> None:
    job = until(jobs, started(jobs, "stubborn"), is_busy)

    jobs.stop(job.job_id, 1)
    jobs.stop(job.job_id, 1)
    time.sleep(1)
    stopping = jobs.get(job.job_id)

    assert stopping
    assert (stopping.is_running, stopping.status, stopping.stops) == (True, "stopping", 1)

    jobs.stop(job.job_id, 2)

    assert until(jobs, job, is_over).exit_code == 130


def test_stop_before_the_process_has_begun_is_not_lost(jobs: Jobs) -> None:
    job = started(jobs, "sleep")

    jobs.stop(job.job_id, 1)

    assert until(jobs, job, is_over).exit_code == 130


def test_form_that_is_sent_twice_starts_one(jobs: Jobs) -> None:
    job_id = jobs.make_id()
    found: list[Job] = []
    threads = [
        threading.Thread(target=lambda: found.append(jobs.start(job_id, ["exit", "0"])))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {one.job_id for one in found} == {job_id}
    assert jobs.folder.parents[1].stat().st_mode & 0o077 == 0
    assert len(found) == 4
    assert len(jobs.all()) == 1


@pytest.mark.parametrize("job_id", ["", "..", "../x", "20260101T000000Z-abcdef/..", "x" * 300])
def test_other_text_is_no_id(jobs: Jobs, job_id: str) -> None:
    assert jobs.get(job_id) is None
    jobs.stop(job_id, 1)
    with pytest.raises(InputError, match="no id"):
        jobs.start(job_id, ["exit", "0"])


def test_half_written_records_are_no_job_or_one_that_died(jobs: Jobs) -> None:
    ended = until(jobs, started(jobs, "exit", "0"), is_over)
    ended.folder.joinpath("end.json").write_text('{"exit')
    ended.folder.joinpath("progress.jsonl").write_text(
        '{"label": "a", "seconds": 1, "text": ""}\n{"label": "b", "sec'
    )

    died = until(jobs, ended, is_over)

    assert died.status == "died"
    assert died.step
    assert died.step.label == "a"

    died.folder.joinpath("command.json").write_text('{"words": ["dra')

    assert jobs.get(ended.job_id) is None
    assert jobs.all() == []


def test_process_that_cannot_be_started_leaves_nothing(jobs: Jobs) -> None:
    none = Jobs(jobs.folder, process=("/no/such/program",))

    with pytest.raises(ArchiveError, match="cannot start"):
        none.start(none.make_id(), ["exit", "0"])

    assert none.all() == []


def test_old_ones_go_at_the_next_start_but_never_one_that_runs(jobs: Jobs) -> None:
    runs = until(jobs, started(jobs, "sleep"), is_busy)
    old = until(jobs, started(jobs, "exit", "0"), is_over)
    later = Jobs(
        jobs.folder,
        now_seconds=(datetime.now(UTC) + KEPT_AGE + timedelta(hours=1)).timestamp,
        process=PROCESS,
    )

    new = started(later, "exit", "0")

    assert [one.job_id for one in later.all()] == [new.job_id, runs.job_id]
    assert old.job_id not in [one.job_id for one in later.all()]


def test_place_is_that_of_the_archive_below_the_state_folder(tmp_path: Path) -> None:
    chosen = Jobs.of("s3://bucket/a", {"XDG_STATE_HOME": str(tmp_path)})

    assert chosen.folder.is_relative_to(tmp_path)
    assert chosen.folder != Jobs.of("s3://bucket/b", {"XDG_STATE_HOME": str(tmp_path)}).folder
    assert Jobs.of("a", {"XDG_STATE_HOME": "relative"}).folder.is_relative_to(Path.home())


CONSOLE = """
import sys, time
from pathlib import Path
from dlq.console.jobs import Jobs

jobs = Jobs(Path(sys.argv[1]), process=(sys.executable, "-m", "tests.support.job_process"))
print(jobs.start(jobs.make_id(), ["sleep"]).job_id, flush=True)
time.sleep(600)
"""


def test_job_survives_the_console_and_the_next_one_finds_and_stops_it(jobs: Jobs) -> None:
    command = [sys.executable, "-c", CONSOLE, str(jobs.folder)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as console:
        assert console.stdout
        job_id = console.stdout.readline().strip()
        job = jobs.get(job_id)
        assert job
        # As a terminal that is closed, and worse: everybody of the console's session.
        os.killpg(console.pid, signal.SIGKILL)
        # Would wait for the job if it had inherited the console's output.
        assert console.stdout.read() == ""
    running = until(jobs, job, is_busy)

    assert running.is_running

    jobs.stop(job_id, 1)

    assert until(jobs, job, is_over).exit_code == 130


def pid_of(jobs: Jobs, job: Job) -> int:
    answer = until(jobs, job, is_over).answer()
    assert answer
    return int(answer["pid"])


def test_process_waits_for_the_next_job_and_keeps_their_outputs_apart(jobs: Jobs) -> None:
    first = started(jobs, "pid")
    pid = pid_of(jobs, first)
    second = started(jobs, "pid")

    assert pid_of(jobs, second) == pid
    for job in (first, second):
        assert job.errors() == "dlq: as a child does"

    (second.folder / "errors").unlink()

    assert pid_of(jobs, started(jobs, "pid")) == pid


@pytest.mark.parametrize("words", [("exit", "2"), ("sleep",)])
def test_job_that_does_not_end_well_ends_its_process(jobs: Jobs, words: tuple[str, ...]) -> None:
    pid = pid_of(jobs, started(jobs, "pid"))
    job = started(jobs, *words)
    if words == ("sleep",):
        until(jobs, job, is_busy)
        jobs.stop(job.job_id, 1)
    until(jobs, job, is_over)

    assert pid_of(jobs, started(jobs, "pid")) != pid
    wait_for_end(pid)


def test_job_does_not_wait_for_one_that_runs(jobs: Jobs) -> None:
    pid = pid_of(jobs, started(jobs, "pid"))
    until(jobs, started(jobs, "sleep"), is_busy)

    assert pid_of(jobs, started(jobs, "pid")) != pid


def test_process_ends_without_job_and_with_the_console(jobs: Jobs) -> None:
    impatient = Jobs(jobs.folder, process=(*PROCESS, "0.1"))
    pid = pid_of(impatient, started(impatient, "pid"))
    wait_for_end(pid)

    assert pid_of(impatient, started(impatient, "pid")) != pid

    console = Jobs(jobs.folder, process=PROCESS)
    pid = pid_of(console, started(console, "pid"))
    del console
    wait_for_end(pid)


def wait_for_end(pid: int) -> None:
    deadline = time.monotonic() + 60
    with suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.kill(pid, 0)
            time.sleep(0.02)
        pytest.fail("it runs")
