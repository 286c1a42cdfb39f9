import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from demo.desk import Desk
from demo.errors import DemoError
from demo.journal import Journal
from demo.screen import Screen
from demo.world import Queue, Queues

MAIN = Queue("orders", "http://127.0.0.1:1/1/orders", "arn:main")
QUEUES = Queues(MAIN, MAIN, Queue("parked", "http://127.0.0.1:1/1/parked", "arn:parked"))


class FakeSpark:
    """Notes each command line, prints a line, and ends with the next of its exit codes."""

    is_ready = True

    def __init__(self, *exit_codes: int) -> None:
        self.exit_codes = list(exit_codes)
        self.lines: list[list[str]] = []

    def run(self, argv: Sequence[str], take_line: Callable[[str], object]) -> int:
        self.lines.append(list(argv))
        take_line("done")
        return self.exit_codes.pop(0) if self.exit_codes else 0


class FakeStage:
    def __init__(self, work: Path) -> None:
        self.work = work
        self.archive = work / "archive"
        self.report = work / "report"
        self.queues = QUEUES
        self.journal = Journal({})
        self.phase = ""
        self.archived: frozenset[str] = frozenset()


def desk(spark: FakeSpark, work: Path) -> tuple[Desk, io.StringIO]:
    out = io.StringIO()
    parts: Any = (FakeStage(work), Screen(out, lambda: 1.0), spark)
    return Desk(*parts), out


def test_viewer_sees_each_command_without_the_folders_of_the_run(tmp_path: Path) -> None:
    spark = FakeSpark()
    operator, out = desk(spark, tmp_path)
    operator.drain()
    operator.redrive("--reason", "bug fixed", "--execute")

    assert spark.lines[0] == [
        "drain",
        "--parked-queue-url",
        QUEUES.parked.url,
        "--archive",
        str(tmp_path / "archive"),
    ]
    shown = [line for line in out.getvalue().splitlines() if line.startswith("$")]
    job, plan = "$ python -m spark_reprocess", "--archive archive --plan report/plan.yaml"
    assert shown == [
        f"{job} drain --parked-queue-url parked --archive archive",
        f'{job} redrive {plan} --to-queue-url orders --reason "bug fixed" --execute',
    ]


def test_another_exit_code_than_was_expected_is_told(tmp_path: Path) -> None:
    operator, _ = desk(FakeSpark(3, 3), tmp_path)

    operator.redrive("--execute", exit_code=3)
    with pytest.raises(DemoError, match="redrive ended with exit code 3"):
        operator.redrive("--execute")
