import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spark_reprocess import progress
from spark_reprocess.errors import ArchiveError
from spark_reprocess.progress import HowFar, in_file, in_lines, on_terminal, share_of


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("done", "total", "is_estimate", "seconds", "text"),
    [
        (0, 10, False, 0.0, "0 of 10 messages, 0/s"),
        (5, 10, False, 0.0, "5 of 10 messages, 0/s"),
        (200, 1_000, False, 10.0, "200 of 1,000 messages, 20/s, 40 s left"),
        (1_000, 1_000, False, 10.0, "1,000 of 1,000 messages, 100/s"),
        (0, 100, True, 5.0, "0 of about 100 messages, 0/s"),
        (50, 100, True, 10.0, "50 of about 100 messages, 5/s, 10 s left"),
        (1, 10_000, True, 1.0, "1 of about 10,000 messages, 1/s, 2 h 46 min left"),
        (120, 100, True, 10.0, "120 of about 120 messages, 12/s"),
    ],
)
def test_line_says_how_far_how_fast_and_how_long(
    done: int, total: int, is_estimate: bool, seconds: float, text: str
) -> None:
    clock = Clock()
    how_far = HowFar(total, clock, is_estimate=is_estimate)

    clock.now += seconds

    assert how_far.line(done) == text


def test_rate_is_that_of_late() -> None:
    clock = Clock()
    how_far = HowFar(100_000, clock)
    for second in range(60):
        clock.now += 1
        how_far.line(100 * (second + 1))
    for second in range(60):
        clock.now += 1
        line = how_far.line(6_000 + 5 * (second + 1))

    assert "6,300 of 100,000 messages, 5/s" in line


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_INTERVAL_SECONDS", 0.001)
    monkeypatch.setattr(progress, "_LINES_APART_SECONDS", 0.001)


def twice(answers: Iterator[str]) -> tuple[Callable[[], str], threading.Event]:
    """A status, and the sign that it was asked twice and shown once at least."""
    asked = threading.Event()

    def status() -> str:
        try:
            return next(answers)
        except StopIteration:
            asked.set()
            return "end"

    return status, asked


@pytest.mark.usefixtures("often")
def test_pipe_gets_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    status, asked = twice(iter(["1 of 2"]))

    with in_lines("draining", status):
        asked.wait(60)

    assert re.fullmatch(r"draining: \d+ s, 1 of 2", capsys.readouterr().err.splitlines()[0])


@pytest.mark.usefixtures("often")
def test_line_on_the_terminal_is_rewritten_and_wiped(capsys: pytest.CaptureFixture[str]) -> None:
    status, asked = twice(iter(["1 of 2"]))

    with on_terminal("draining", status):
        asked.wait(60)

    shown = capsys.readouterr().err
    assert re.match(r"\r\033\[Kdraining: \d+ s, 1 of 2\r\033\[K", shown)
    assert shown.endswith("\r\033[K")


@pytest.mark.usefixtures("often")
def test_archive_that_cannot_be_listed_does_not_end_the_work(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = threading.Semaphore(0)

    def status() -> str:
        asked.release()
        raise ArchiveError("no answer")

    with in_lines("draining", status):
        assert asked.acquire(timeout=60)
        assert asked.acquire(timeout=60)

    assert re.search(r"^draining: \d+ s$", capsys.readouterr().err, re.MULTILINE)


def test_quick_work_says_nothing_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with in_lines("draining", str):
        pass

    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("often")
def test_file_gets_an_object_at_once_and_then_the_latest(tmp_path: Path) -> None:
    file = tmp_path / "progress"
    with in_file(file)("draining", str):
        pass
    status, asked = twice(iter(["1 of 2 messages"]))
    with in_file(file)("counting", status):
        asked.wait(60)

    lines = [json.loads(line) for line in file.read_text().splitlines()]
    # On a busy machine even a block without work may last long enough for a second line.
    draining = [one for one in lines if one["label"] == "draining"]
    counting = lines[len(draining) :]

    assert lines[: len(draining)] == draining
    assert draining[0] == {"label": "draining", "seconds": 0, "text": ""}
    assert counting[0] == {"label": "counting", "seconds": 0, "text": ""}
    later = {"label": "counting", "seconds": counting[1]["seconds"], "text": "1 of 2 messages"}
    assert counting[1] == later
    assert later["seconds"] >= 0


@pytest.mark.usefixtures("often")
def test_work_goes_on_where_its_progress_cannot_be_written(tmp_path: Path) -> None:
    status, asked = twice(iter([]))

    with in_file(tmp_path / "no" / "folder")("draining", status):
        assert asked.wait(60)


@pytest.mark.parametrize(
    ("done", "total", "is_estimate", "share"),
    [(0, 10, False, 0.0), (250, 1_000, False, 0.25), (20, 10, True, 1.0), (0, 0, False, None)],
)
def test_share_is_read_back_from_the_line(
    done: int, total: int, is_estimate: bool, share: float | None
) -> None:
    assert share_of(HowFar(total, Clock(), is_estimate=is_estimate).line(done)) == share


def test_other_text_has_no_share() -> None:
    assert share_of("verdict in 40 s, main queue: 3 waiting") is None
