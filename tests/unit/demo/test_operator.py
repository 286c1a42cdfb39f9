import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from demo import DemoError
from demo.audit import Journal
from demo.environment import Queue, Queues
from demo.operator import Operator
from demo.screen import Screen

MAIN = Queue("orders", "http://127.0.0.1:1/1/orders", "arn:main")
QUEUES = Queues(MAIN, MAIN, Queue("parked", "http://127.0.0.1:1/1/parked", "arn:parked"))


class FakeSpark:
    """Notes each command line, prints some lines, and ends with the next of its exit codes."""

    is_ready = True

    def __init__(self, *exit_codes: int, lines: Sequence[str] = ("done",)) -> None:
        self.exit_codes = list(exit_codes)
        self.lines = lines
        self.argvs: list[list[str]] = []

    def run(self, argv: Sequence[str], take_line: Callable[[str], object]) -> int:
        self.argvs.append(list(argv))
        for line in self.lines:
            take_line(line)
        return self.exit_codes.pop(0) if self.exit_codes else 0


class FakeContext:
    def __init__(self, work: Path) -> None:
        self.work = work
        self.archive = work / "archive"
        self.report = next(work.glob("report.html"), None)
        self.queues = QUEUES
        self.journal = Journal({})
        self.phase = ""
        self.archived: frozenset[str] = frozenset()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def desk(spark: FakeSpark, work: Path) -> tuple[Operator, io.StringIO]:
    out = io.StringIO()
    parts: Any = (FakeContext(work), Screen(out, lambda: 1.0), spark)
    return Operator(*parts), out


def test_viewer_sees_each_command_without_the_folders_of_the_run(tmp_path: Path) -> None:
    spark = FakeSpark()
    operator, out = desk(spark, tmp_path)
    operator.drain()
    operator.redrive("bug fixed")

    assert spark.argvs[0] == [
        "drain",
        "--parked-queue-url",
        QUEUES.parked.url,
        "--archive",
        str(tmp_path / "archive"),
        "--wait-seconds",
        "0",
    ]
    shown = [line for line in out.getvalue().splitlines() if line.startswith("$")]
    redrive = "$ dlq redrive --archive archive --main-queue-url orders"
    assert shown == [
        "$ dlq drain --parked-queue-url parked --archive archive --wait-seconds 0",
        f'{redrive} --reason "bug fixed" --execute',
    ]


def test_another_exit_code_than_was_expected_is_told(tmp_path: Path) -> None:
    operator, _ = desk(FakeSpark(3, 3), tmp_path)

    assert operator.redrive("perhaps", *operator.canary(), exit_codes=[3]) == 3
    with pytest.raises(DemoError, match="redrive ended with exit code 3: done"):
        operator.redrive("perhaps")


def test_preview_shows_how_the_answer_ends_and_sends_nothing(tmp_path: Path) -> None:
    spark = FakeSpark(lines=["group  to send", "g-1  4", "canary: 1", "  12 s", "dry run: 4"])
    operator, out = desk(spark, tmp_path)
    operator.preview(*operator.canary())

    assert out.getvalue().splitlines()[-3:] == ["    canary: 1", "      12 s", "    dry run: 4"]
    assert "g-1" not in out.getvalue()
    assert "--execute" not in spark.argvs[0]


def test_what_to_type_next_is_left_out_for_it_is_typed(tmp_path: Path) -> None:
    operator, out = desk(FakeSpark(lines=["3 groups", "next: redrive", "  --plan"]), tmp_path)
    operator.drain()

    assert out.getvalue().splitlines()[1:] == ["    3 groups"]


def test_complaint_is_shown_whole_on_a_terminal(tmp_path: Path) -> None:
    words = " ".join(f"group-{n}" for n in range(40))
    spark = FakeSpark(3, lines=[f"sent: {words}", f"dlq: stopped: {words}"])
    terminal = Terminal()
    parts: Any = (FakeContext(tmp_path), Screen(terminal, lambda: 1.0), spark)
    Operator(*parts).redrive("perhaps", exit_codes=[3])

    told, complaint = terminal.getvalue().split("dlq: stopped:")
    assert "…" in told
    assert "…" not in complaint
    assert "group-39" in complaint


def test_path_of_the_page_is_told_where_there_is_one(tmp_path: Path) -> None:
    operator, out = desk(FakeSpark(), tmp_path)
    operator.analyze()
    assert "browser" not in out.getvalue()

    page = tmp_path / "report.html"
    page.touch()
    operator, out = desk(FakeSpark(), tmp_path)
    operator.analyze()
    assert f"open it in a browser: {page}" in out.getvalue()


def test_groups_that_are_left_are_decided_and_the_first_commands_shown(tmp_path: Path) -> None:
    actions = ["leave", "discard", "leave", "leave", "leave"]
    groups = [{"group_id": f"g-{n}", "action": one} for n, one in enumerate(actions)]
    spark = FakeSpark(lines=json.dumps({"groups": groups}, indent=1).splitlines())
    operator, out = desk(spark, tmp_path)
    operator.approve(shown=2)

    decided = [argv[-2] for argv in spark.argvs if argv[0] == "decide"]
    shown = [line for line in out.getvalue().splitlines() if line.startswith("$")]
    assert decided == ["g-0", "g-2", "g-3", "g-4"]
    assert shown == [f"$ dlq decide --archive archive {one} redrive" for one in ("g-0", "g-2")]
    assert "and the same for 2 more groups" in out.getvalue()
