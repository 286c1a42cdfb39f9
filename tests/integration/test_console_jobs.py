"""Jobs are processes: they outlive whoever started them, and what became of them is found."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

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
    for job in jobs.all():
        until(jobs, job, is_over)


def until(jobs: Jobs, job: Job, is_so: Callable[[Job], bool]) -> Job:
    deadline = time.monotonic() + 60
    while not ((now := jobs.get(job.job_id)) and is_so(now)):
        assert time.monotonic() < deadline, now
        time.sleep(0.02)
    return now


def is_over(job: Job) -> bool:
    return not job.is_running


def is_in_progress(job: Job) -> bool:
    return job.step is not None and bool(job.step.text)


def started(jobs: Jobs, *words: str) -> Job:
    return jobs.start(jobs.make_id(), words)


def record_of(job: Job) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(job.folder.joinpath("command.json").read_text())
    return record


@pytest.mark.parametrize(
    ("command", "code", "status"),
    [
        ("exit 0", 0, "done"),
        ("break", 1, "failed"),
        ("exit 2", 2, "refused"),
        ("exit 3", 3, "too much failed again"),
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
    assert sorted(ended.errors().splitlines()) == ["as a child does", "dlq: a fault"]


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
    job = until(jobs, started(jobs, "sleep"), is_in_progress)

    assert job.status == "running"
    assert job.command == ["sleep"]
    assert job.step
    assert job.step.label == "sleeping"


def test_stop_interrupts_and_the_second_one_again(jobs: Jobs) -> None:
    job = until(jobs, started(jobs, "stubborn"), is_in_progress)

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
    started: list[Job] = []

    def start() -> None:
        started.append(jobs.start(job_id, ["exit", "0"]))

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {job.job_id for job in started} == {job_id}
    assert jobs.folder.parents[1].stat().st_mode & 0o077 == 0
    assert len(started) == 4
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

    died.folder.joinpath("command.json").write_text('{"command": ["dra')

    assert jobs.get(ended.job_id) is None
    assert jobs.all() == []


def test_process_that_cannot_be_started_leaves_nothing(jobs: Jobs) -> None:
    none = Jobs(jobs.folder, process=("/no/such/program",))

    with pytest.raises(ArchiveError, match="cannot start"):
        none.start(none.make_id(), ["exit", "0"])

    assert none.all() == []


def test_old_ones_go_at_the_next_start_but_never_one_that_runs(jobs: Jobs) -> None:
    runs = until(jobs, started(jobs, "sleep"), is_in_progress)
    old = started(jobs, "exit", "0")
    jobs.stop(old.job_id, 1)
    until(jobs, old, is_over)
    later = Jobs(
        jobs.folder,
        now_seconds=(datetime.now(UTC) + KEPT_AGE + timedelta(hours=1)).timestamp,
        process=PROCESS,
    )

    new = started(later, "exit", "0")

    assert [job.job_id for job in later.all()] == [new.job_id, runs.job_id]
    assert old.job_id not in [job.job_id for job in later.all()]


def test_place_is_that_of_the_archive_below_the_state_folder(tmp_path: Path) -> None:
    chosen = Jobs.of("s3://bucket/a", {"XDG_STATE_HOME": str(tmp_path)})

    assert chosen.folder.is_relative_to(tmp_path)
    assert chosen.folder != Jobs.of("s3://bucket/b", {"XDG_STATE_HOME": str(tmp_path)}).folder
    assert Jobs.of("a", {"XDG_STATE_HOME": "relative"}).folder.is_relative_to(Path.home())


def test_jobs_wait_for_each_other_in_the_order_of_their_starts(jobs: Jobs) -> None:
    first = until(jobs, started(jobs, "sleep", "--execute"), is_in_progress)
    others = [started(jobs, "exit", "0") for _ in range(3)]

    for other in others:
        waiting = until(jobs, other, is_in_progress)
        assert waiting.status == "running"
        assert waiting.step
        assert waiting.step.label == "waiting for dlq sleep --execute"
        assert waiting.step.text.startswith(f"started by {first.who} at 20")
    jobs.stop(first.job_id, 1)
    ended = [until(jobs, job, is_over) for job in (first, *others)]

    assert [job.exit_code for job in ended] == [130, 0, 0, 0]
    assert sorted(ended, key=lambda job: job.ended_at or job.started_at) == ended


def test_job_that_waits_can_be_stopped_and_its_successor_waits_on(jobs: Jobs) -> None:
    first = until(jobs, started(jobs, "sleep"), is_in_progress)
    second = until(jobs, started(jobs, "exit", "0"), is_in_progress)
    third = until(jobs, started(jobs, "exit", "0"), is_in_progress)

    jobs.stop(second.job_id, 1)
    stopped = until(jobs, second, is_over)

    assert (stopped.exit_code, stopped.status) == (130, "stopped")
    assert "dlq: stopped while it waited for another job; nothing was done" in stopped.errors()
    for job in (first, third):
        now = jobs.get(job.job_id)
        assert now
        assert now.is_running

    jobs.stop(first.job_id, 1)

    assert until(jobs, third, is_over).exit_code == 0


def test_job_goes_on_when_the_one_before_was_killed(jobs: Jobs) -> None:
    first = until(jobs, started(jobs, "sleep"), is_in_progress)
    second = until(jobs, started(jobs, "exit", "0"), is_in_progress)

    os.kill(int(first.folder.joinpath("pid").read_text()), signal.SIGKILL)

    assert until(jobs, second, is_over).exit_code == 0
    assert until(jobs, first, is_over).status == "died"


def test_job_does_not_wait_for_those_that_ended_or_were_removed(jobs: Jobs) -> None:
    until(jobs, started(jobs, "die"), is_over)
    until(jobs, started(jobs, "exit", "0"), is_over)

    job = until(jobs, started(jobs, "exit", "0"), is_over)

    record = record_of(job)
    assert (record["after"], job.steps) == ([], [])
    job.folder.joinpath("command.json").write_text(
        json.dumps({**record, "after": [jobs.make_id()]})
    )
    assert subprocess.run([*PROCESS, str(job.folder)], cwd=ROOT, check=True).returncode == 0


def test_of_jobs_that_two_consoles_start_at_once_one_runs_at_a_time(
    jobs: Jobs, tmp_path: Path
) -> None:
    consoles = (jobs, Jobs(jobs.folder, process=PROCESS))
    started_jobs: list[Job] = []

    def start(console: Jobs) -> None:
        started_jobs.append(started(console, "alone", str(tmp_path / "marker")))

    threads = [threading.Thread(target=start, args=[console]) for console in consoles * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [until(jobs, job, is_over).exit_code for job in started_jobs] == [0] * 6
    assert sorted(len(record_of(job)["after"]) for job in started_jobs) == [0, 1, 2, 3, 4, 5]


CONSOLE = """
import sys, time
from pathlib import Path
from typing import Any
from dlq.console.jobs import Jobs

jobs = Jobs(Path(sys.argv[1]), process=(sys.executable, "-m", "tests.support.job_process"))
for words in (["sleep"], ["exit", "0"]):
    print(jobs.start(jobs.make_id(), words).job_id, flush=True)
time.sleep(600)
"""


def test_jobs_survive_the_console_and_the_next_one_finds_and_stops_them(jobs: Jobs) -> None:
    command = [sys.executable, "-c", CONSOLE, str(jobs.folder)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as console:
        assert console.stdout
        first = jobs.get(console.stdout.readline().strip())
        second = jobs.get(console.stdout.readline().strip())
        assert first
        assert second
        # As a terminal that is closed, and worse: everybody of the console's session.
        os.killpg(console.pid, signal.SIGKILL)
        # Would wait for the jobs if they had inherited the console's output.
        assert console.stdout.read() == ""
    running = until(jobs, first, is_in_progress)
    waiting = until(jobs, second, is_in_progress)

    assert running.is_running
    assert waiting.is_running

    jobs.stop(first.job_id, 1)

    assert until(jobs, first, is_over).exit_code == 130
    assert until(jobs, second, is_over).exit_code == 0
