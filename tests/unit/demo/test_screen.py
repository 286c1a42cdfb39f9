import io
import threading
from pathlib import Path

from rich.console import Console

from demo.audit import Evidence, Sighting, account
from demo.identity import Content
from demo.screen import Progress, Screen, account_table, names
from demo.terminal import lines_to
from demo.workload import DemoMessage, Trait
from spark_reprocess.clients import QueueCounts

SENT = {m.identity: m for m in (DemoMessage.of(n, Content(f"b{n}")) for n in range(1, 31))}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_pipe_gets_a_line_when_something_changed() -> None:
    out, clock = io.StringIO(), iter(float(n) for n in range(0, 1000, 3))
    screen = Screen(out, lambda: next(clock))

    asked = threading.Semaphore(0)

    def progress() -> Progress:
        asked.release()
        return Progress(main=QueueCounts(1, 2, 3), processed=4, total=9)

    with screen.watching(progress):
        # By the time it asks once more, it has shown what it was told before, or held it back.
        for _ in range(4):
            assert asked.acquire(timeout=60)

    lines = out.getvalue().splitlines()
    assert len(lines) == 1
    assert "main    6  backing off    3" in lines[0]
    assert "processed 4/9" in lines[0]


def test_what_is_hidden_in_the_dlq_backs_off_too() -> None:
    assert (
        "backing off    5"
        in Progress(main=QueueCounts(1, 2, 3), dlq=QueueCounts(delayed=2)).to_line()
    )


def test_terminal_gets_a_live_view_and_keeps_the_events() -> None:
    out = Terminal()
    screen = Screen(out, lambda: 1.0)

    asked = threading.Semaphore(0)

    def progress() -> Progress:
        asked.release()
        return Progress(phase="failing", processed=4, total=9)

    with screen.watching(progress):
        for _ in range(2):
            assert asked.acquire(timeout=60)
        screen.say("payments is back")

    assert "failing" in out.getvalue()
    assert "4/9 processed" in out.getvalue()
    assert "payments is back" in out.getvalue()


def test_event_is_told_once() -> None:
    out = io.StringIO()
    screen = Screen(out, lambda: 1.0)
    for _ in range(3):
        screen.notify_once("payments is down")

    assert out.getvalue() == "  1.0 s  payments is down\n"


def test_text_that_looks_like_markup_is_shown_as_it_is() -> None:
    out = io.StringIO()
    screen = Screen(out, lambda: 1.0)
    screen.say("[bold]x[/nonsense]")
    screen.quote("[red]" + "y" * 300)

    assert "[bold]x[/nonsense]" in out.getvalue()
    assert "[red]" + "y" * 300 in out.getvalue()


def test_settled_means_main_and_dlq_are_empty() -> None:
    assert Progress(parked=QueueCounts(5)).is_settled
    assert not Progress(main=QueueCounts(delayed=1)).is_settled
    assert not Progress(dlq=QueueCounts(in_flight=1)).is_settled


def test_account_table_shows_each_fate_that_occurred() -> None:
    seen = dict.fromkeys(list(SENT)[:28], Sighting(processed_count=1))
    result = account({i: m.content for i, m in SENT.items()}, Evidence(seen))
    out = io.StringIO()
    Console(file=out, width=100).print(account_table(result, SENT))

    rows = {line.split("│")[1].strip(): line for line in out.getvalue().splitlines() if "│" in line}
    assert "28" in rows["processed at once"]
    assert "2" in rows["LOST"]
    assert "still in the DLQ" not in rows
    assert all(trait.value in out.getvalue() for trait in Trait)


def test_names_end_after_twenty() -> None:
    result = account({i: m.content for i, m in SENT.items()}, Evidence({}))
    text = names(result, SENT, next(iter(result.states.values())))

    assert text.startswith("message 1 (m00001), message 2")
    assert text.endswith("message 20 (m00020) and 10 more")


def test_only_the_threads_own_lines_are_taken(tmp_path: Path) -> None:
    taken: list[str] = []
    with lines_to(taken.append):
        other = threading.Thread(target=print, args=("of another thread",))
        other.start()
        other.join()
        print("one\ntwo", end="")  # noqa: T201 - what is tested
        print(" and a half")  # noqa: T201 - as above
        print("open", end="")  # noqa: T201 - as above

    assert taken == ["one", "two and a half", "open"]
