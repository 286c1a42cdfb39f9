import io
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dlq import progress
from dlq.errors import ArchiveError
from dlq.progress import ProgressLine, in_file, in_lines, on_stderr
from local_sqs.clock import VirtualClock

OFTEN = on_stderr("", "\n", 0.001)


@pytest.mark.parametrize(
    ("done", "total", "seconds", "text"),
    [
        (0, 10, 0.0, "0 of 10 messages, 0/s"),
        (5, 10, 0.0, "5 of 10 messages, 0/s"),
        (200, 1_000, 10.0, "200 of 1,000 messages, 20/s, 40 s left"),
        (1_000, 1_000, 10.0, "1,000 of 1,000 messages, 100/s"),
        (0, 100, 5.0, "0 of 100 messages, 0/s"),
        (50, 100, 10.0, "50 of 100 messages, 5/s, 10 s left"),
        (1, 10_000, 1.0, "1 of 10,000 messages, 1/s, 2 h 46 min left"),
        (120, 100, 10.0, "120 of 120 messages, 12/s"),
    ],
)
def test_line_says_how_far_how_fast_and_how_long(
    done: int, total: int, seconds: float, text: str
) -> None:
    clock = VirtualClock()
    progress_line = ProgressLine(total, clock.time)

    clock.advance(seconds)

    assert progress_line.text(done) == text


def test_rate_is_that_of_late() -> None:
    clock = VirtualClock()
    progress_line = ProgressLine(100_000, clock.time)
    for second in range(60):
        clock.advance(1)
        progress_line.text(100 * (second + 1))
    for second in range(60):
        clock.advance(1)
        line = progress_line.text(6_000 + 5 * (second + 1))

    assert "6,300 of 100,000 messages, 5/s" in line


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


@pytest.mark.parametrize(("before", "after"), [("", "\n"), ("\r\033[K", "")])
def test_pipe_gets_plain_lines_and_the_line_on_a_terminal_is_rewritten_and_wiped(
    capsys: pytest.CaptureFixture[str], before: str, after: str
) -> None:
    status, asked = twice(iter(["1 of 2"]))

    with on_stderr(before, after, 0.001)("draining", status):
        asked.wait(60)

    shown = capsys.readouterr().err
    begin = re.escape(before)
    end = re.escape(after or before)
    assert re.fullmatch(rf"{begin}draining: \d+ s, 1 of 2{end}(.*{end})?", shown, re.DOTALL)


def test_archive_that_cannot_be_listed_does_not_end_the_work(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = threading.Semaphore(0)

    def status() -> str:
        asked.release()
        raise ArchiveError("no answer")

    with OFTEN("draining", status):
        assert asked.acquire(timeout=60)
        assert asked.acquire(timeout=60)

    assert re.search(r"^draining: \d+ s$", capsys.readouterr().err, re.MULTILINE)


def test_quick_work_says_nothing_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with in_lines("draining", str):
        pass

    assert capsys.readouterr().err == ""


def test_file_gets_an_object_at_once_and_then_the_latest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_INTERVAL_SECONDS", 0.001)
    file = tmp_path / "progress"
    with in_file(file)("draining", str):
        pass
    status, asked = twice(iter(["1 of 2 messages"]))
    with in_file(file)("counting", status):
        asked.wait(60)

    lines = [json.loads(line) for line in file.read_text().splitlines()]
    # On a busy machine even a block without work may last long enough for a second line.
    draining = [line for line in lines if line["label"] == "draining"]
    counting = lines[len(draining) :]

    assert lines[: len(draining)] == draining
    assert draining[0] == {"label": "draining", "seconds": 0, "text": ""}
    assert counting[0] == {"label": "counting", "seconds": 0, "text": ""}
    later = {"label": "counting", "seconds": counting[1]["seconds"], "text": "1 of 2 messages"}
    assert counting[1] == later
    assert later["seconds"] >= 0


def test_work_goes_on_where_its_progress_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_INTERVAL_SECONDS", 0.001)
    status, asked = twice(iter([]))

    with in_file(tmp_path / "no" / "folder")("draining", status):
        assert asked.wait(60)


class UnreadStream(io.StringIO):
    """Standard error as a pipe whose reader has ended."""

    def flush(self) -> None:
        raise BrokenPipeError


def test_work_goes_on_where_nobody_reads_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", UnreadStream())
    status, asked = twice(iter(["1 of 2 messages"]))

    with OFTEN("draining", status):
        assert asked.wait(60)
