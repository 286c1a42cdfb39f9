import threading
from collections.abc import Callable, Iterator

import pytest

from spark_reprocess import progress
from spark_reprocess.errors import ArchiveError
from spark_reprocess.progress import how_far, in_lines, on_terminal


@pytest.mark.parametrize(
    ("done", "total", "seconds", "text"),
    [
        (0, None, 0.0, "0"),
        (0, 100, 5.0, "0 of about 100"),
        (50, None, 10.0, "50, 5/s"),
        (50, 100, 10.0, "50 of about 100, 5/s, about 10 s left"),
        (1_000, 100_000, 1.0, "1,000 of about 100,000, 1,000/s, about 1 min 39 s left"),
        (1, 10_000, 1.0, "1 of about 10,000, 1/s, about 2 h 46 min left"),
        (120, 100, 10.0, "120 of about 120, 12/s"),
        (5, 10, 0.0, "5 of about 10"),
    ],
)
def test_text_says_how_far_and_how_long(
    done: int, total: int | None, seconds: float, text: str
) -> None:
    assert how_far(done, total, seconds) == text


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
        asked.wait(5)

    assert capsys.readouterr().err.splitlines()[0] == "draining: 0 s, 1 of 2"


@pytest.mark.usefixtures("often")
def test_line_on_the_terminal_is_rewritten_and_wiped(capsys: pytest.CaptureFixture[str]) -> None:
    status, asked = twice(iter(["1 of 2"]))

    with on_terminal("draining", status):
        asked.wait(5)

    shown = capsys.readouterr().err
    assert shown.startswith("\r\033[Kdraining: 0 s, 1 of 2\r\033[K")
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
        assert asked.acquire(timeout=5)
        assert asked.acquire(timeout=5)

    assert "draining: 0 s\n" in capsys.readouterr().err


def test_quick_work_says_nothing_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    with in_lines("draining", str):
        pass

    assert capsys.readouterr().err == ""
