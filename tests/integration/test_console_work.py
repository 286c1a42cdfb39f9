"""Works are processes: they outlive whoever started them, and what became of them is found."""

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
from dlq.console.work import KEPT_AGE, Work, Works
from dlq.errors import ArchiveError, InputError

ROOT = Path(__file__).resolve().parents[2]
PROCESS = (sys.executable, "-m", "tests.support.work_process")


@pytest.fixture
def works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Works]:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(ROOT), str(ROOT / "layers" / "core"))))
    works = Works(tmp_path / "state" / "work" / "a", process=PROCESS)
    yield works
    for work in works.all():
        works.stop(work.work_id, 2)
        until(works, work, is_over)


def until(works: Works, work: Work, is_so: Callable[[Work], bool]) -> Work:
    deadline = time.monotonic() + 60
    while not ((now := works.get(work.work_id)) and is_so(now)):
        assert time.monotonic() < deadline, now
        time.sleep(0.02)
    return now


def is_over(work: Work) -> bool:
    return not work.is_running


def is_busy(work: Work) -> bool:
    return work.step is not None and bool(work.step.text)


def started(works: Works, *words: str) -> Work:
    return works.start(works.make_id(), words)


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
    works: Works, command: str, code: int | None, status: str
) -> None:
    work = started(works, *command.split())

    ended = until(works, work, is_over)

    assert (ended.exit_code, ended.status) == (code, status)
    assert code is None or (ended.ended_at and ended.ended_at >= ended.started_at)
    assert ("ValueError: a bug" in ended.errors()) == (command == "break")
    works.stop(work.work_id, 2)
    assert not list(work.folder.glob("stop*"))


def test_answer_and_errors_are_kept(works: Works) -> None:
    answer = {"sent": 3, "text": "<script>\ud800"}

    ended = until(works, started(works, "print", json.dumps(answer)), is_over)

    assert ended.answer() == answer
    assert "dlq: a fault" in ended.errors()


def test_command_is_one_of_ours(works: Works, tmp_path: Path) -> None:
    ours = Works(works.folder)
    words = ["status", "--archive", open_archive(str(tmp_path / "archive"), creates=True).root]

    ended = until(ours, ours.start(ours.make_id(), words), is_over)
    refused = until(ours, ours.start(ours.make_id(), ["status", "--nothing"]), is_over)

    answer = ended.answer()
    assert answer
    assert (ended.status, answer["messages"]) == ("done", 0)
    assert (refused.status, refused.answer()) == ("refused", None)
    assert "--archive" in refused.errors()


def test_what_it_does_is_shown_while_it_runs(works: Works) -> None:
    work = until(works, started(works, "sleep"), is_busy)

    assert work.status == "running"
    assert work.words == ["sleep"]
    assert work.step
    assert work.step.label == "sleeping"


def test_stop_interrupts_and_the_second_one_again(works: Works) -> None:
    work = until(works, started(works, "stubborn"), is_busy)

    works.stop(work.work_id, 1)
    works.stop(work.work_id, 1)
    time.sleep(1)
    stopping = works.get(work.work_id)

    assert stopping
    assert (stopping.is_running, stopping.status, stopping.stops) == (True, "stopping", 1)

    works.stop(work.work_id, 2)

    assert until(works, work, is_over).exit_code == 130


def test_stop_before_the_process_has_begun_is_not_lost(works: Works) -> None:
    work = started(works, "sleep")

    works.stop(work.work_id, 1)

    assert until(works, work, is_over).exit_code == 130


def test_form_that_is_sent_twice_starts_one(works: Works) -> None:
    work_id = works.make_id()
    found: list[Work] = []
    threads = [
        threading.Thread(target=lambda: found.append(works.start(work_id, ["exit", "0"])))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {one.work_id for one in found} == {work_id}
    assert works.folder.parents[1].stat().st_mode & 0o077 == 0
    assert len(found) == 4
    assert len(works.all()) == 1


@pytest.mark.parametrize("work_id", ["", "..", "../x", "20260101T000000Z-abcdef/..", "x" * 300])
def test_other_text_is_no_id(works: Works, work_id: str) -> None:
    assert works.get(work_id) is None
    works.stop(work_id, 1)
    with pytest.raises(InputError, match="no id"):
        works.start(work_id, ["exit", "0"])


def test_half_written_records_are_no_work_or_one_that_died(works: Works) -> None:
    ended = until(works, started(works, "exit", "0"), is_over)
    ended.folder.joinpath("end.json").write_text('{"exit')
    ended.folder.joinpath("progress.jsonl").write_text(
        '{"label": "a", "seconds": 1, "text": ""}\n{"label": "b", "sec'
    )

    died = until(works, ended, is_over)

    assert died.status == "died"
    assert died.step
    assert died.step.label == "a"

    died.folder.joinpath("command.json").write_text('{"words": ["dra')

    assert works.get(ended.work_id) is None
    assert works.all() == []


def test_process_that_cannot_be_started_leaves_nothing(works: Works) -> None:
    none = Works(works.folder, process=("/no/such/program",))

    with pytest.raises(ArchiveError, match="cannot start"):
        none.start(none.make_id(), ["exit", "0"])

    assert none.all() == []


def test_old_ones_go_at_the_next_start_but_never_one_that_runs(works: Works) -> None:
    runs = until(works, started(works, "sleep"), is_busy)
    old = until(works, started(works, "exit", "0"), is_over)
    later = Works(
        works.folder,
        now_seconds=(datetime.now(UTC) + KEPT_AGE + timedelta(hours=1)).timestamp,
        process=PROCESS,
    )

    new = started(later, "exit", "0")

    assert [one.work_id for one in later.all()] == [new.work_id, runs.work_id]
    assert old.work_id not in [one.work_id for one in later.all()]


def test_place_is_that_of_the_archive_below_the_state_folder(tmp_path: Path) -> None:
    chosen = Works.of("s3://bucket/a", {"XDG_STATE_HOME": str(tmp_path)})

    assert chosen.folder.is_relative_to(tmp_path)
    assert chosen.folder != Works.of("s3://bucket/b", {"XDG_STATE_HOME": str(tmp_path)}).folder
    assert Works.of("a", {"XDG_STATE_HOME": "relative"}).folder.is_relative_to(Path.home())


CONSOLE = """
import sys, time
from pathlib import Path
from dlq.console.work import Works

works = Works(Path(sys.argv[1]), process=(sys.executable, "-m", "tests.support.work_process"))
print(works.start(works.make_id(), ["sleep"]).work_id, flush=True)
time.sleep(600)
"""


def test_work_survives_the_console_and_the_next_one_finds_and_stops_it(works: Works) -> None:
    command = [sys.executable, "-c", CONSOLE, str(works.folder)]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as console:
        assert console.stdout
        work_id = console.stdout.readline().strip()
        work = works.get(work_id)
        assert work
        # As a terminal that is closed, and worse: everybody of the console's session.
        os.killpg(console.pid, signal.SIGKILL)
        # Would wait for the work if it had inherited the console's output.
        assert console.stdout.read() == ""
    running = until(works, work, is_busy)

    assert running.is_running

    works.stop(work_id, 1)

    assert until(works, work, is_over).exit_code == 130


def pid_of(works: Works, work: Work) -> int:
    answer = until(works, work, is_over).answer()
    assert answer
    return int(answer["pid"])


def test_process_waits_for_the_next_work_and_keeps_their_outputs_apart(works: Works) -> None:
    first = started(works, "pid")
    pid = pid_of(works, first)
    second = started(works, "pid")

    assert pid_of(works, second) == pid
    for work in (first, second):
        assert work.errors() == "dlq: as a child does"

    (second.folder / "errors").unlink()

    assert pid_of(works, started(works, "pid")) == pid


@pytest.mark.parametrize("words", [("exit", "2"), ("sleep",)])
def test_work_that_does_not_end_well_ends_its_process(works: Works, words: tuple[str, ...]) -> None:
    pid = pid_of(works, started(works, "pid"))
    work = started(works, *words)
    if words == ("sleep",):
        until(works, work, is_busy)
        works.stop(work.work_id, 1)
    until(works, work, is_over)

    assert pid_of(works, started(works, "pid")) != pid
    wait_for_end(pid)


def test_work_does_not_wait_for_one_that_runs(works: Works) -> None:
    pid = pid_of(works, started(works, "pid"))
    until(works, started(works, "sleep"), is_busy)

    assert pid_of(works, started(works, "pid")) != pid


def test_process_ends_without_work_and_with_the_console(works: Works) -> None:
    impatient = Works(works.folder, process=(*PROCESS, "0.1"))
    pid = pid_of(impatient, started(impatient, "pid"))
    wait_for_end(pid)

    assert pid_of(impatient, started(impatient, "pid")) != pid

    console = Works(works.folder, process=PROCESS)
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
