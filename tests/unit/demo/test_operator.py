import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from demo import DemoError
from demo.audit import Journal
from demo.environment import Queue, Queues
from demo.operator import Operator, approve_all, edit_plan
from demo.screen import Screen

PLAN = {
    "version": 1,
    "plan_id": "p1",
    "snapshot": {"messages": 9, "sha256": "ab" * 32},
    "groups": [
        {"id": "g1", "title": "größe: '7' | ü", "count": 7, "action": "leave"},
        {"id": "g2", "title": "known", "count": 2, "action": "discard"},
    ],
}


def test_only_groups_that_were_left_are_approved() -> None:
    plan, lines = approve_all(PLAN)

    assert [group["action"] for group in plan["groups"]] == ["redrive", "discard"]
    assert lines == ["leave -> redrive: 7 of größe: '7' | ü"]
    assert PLAN["groups"][0]["action"] == "leave"  # type: ignore[index]


def test_a_long_title_is_cut_where_it_is_told() -> None:
    group = {**PLAN["groups"][0], "title": "x" * 500}  # type: ignore[index]

    _, (line,) = approve_all({**PLAN, "groups": [group]})

    assert len(line) < 80


def test_edited_file_differs_in_the_actions_alone(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    text = "# a comment\n" + yaml.safe_dump(PLAN, allow_unicode=True)
    path.write_text(text, encoding="utf-8")

    edit_plan(path)

    edited = path.read_text(encoding="utf-8")
    assert edited == text.replace("action: leave", "action: redrive")
    assert yaml.safe_load(edited) == approve_all(PLAN)[0]


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
        self.report = work / "report"
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
    ]
    shown = [line for line in out.getvalue().splitlines() if line.startswith("$")]
    job, plan = "$ python -m spark_reprocess", "--archive archive --plan report/plan.yaml"
    assert shown == [
        f"{job} drain --parked-queue-url parked --archive archive",
        f'{job} redrive {plan} --main-queue-url orders --reason "bug fixed" --execute',
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

    page = tmp_path / "report" / "report.html"
    page.parent.mkdir()
    page.touch()
    operator.analyze()
    assert f"open it in a browser: {page}" in out.getvalue()


def test_what_the_report_says_of_each_group_is_told(tmp_path: Path) -> None:
    leads = [{"field": "body.vat", "value": "(missing)"}, {"field": "body.n", "value": "1"}]
    groups = [{"group_id": "g-1", "title": "no VAT rate", "leads": leads}]
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "summary.json").write_text(json.dumps({"groups": groups}))
    operator, out = desk(FakeSpark(), tmp_path)
    operator.analyze()

    assert "    g-1  no VAT rate\n      ↳ body.vat is missing\n" in out.getvalue()


def test_plan_of_the_second_analysis_is_the_one_that_is_done(tmp_path: Path) -> None:
    spark = FakeSpark(lines=["3 groups", "group  count", "g-1  4"])
    operator, out = desk(spark, tmp_path)
    operator.analyze_again()
    operator.redrive("bug fixed")

    assert "--plan report-again/plan.yaml" in out.getvalue()
    assert out.getvalue().splitlines()[1:2] == ["    3 groups"]
    assert spark.argvs[0][-1] == str(tmp_path / "report-again")


def test_groups_that_are_put_back_are_told_one_by_one_or_counted(tmp_path: Path) -> None:
    operator, out = desk(FakeSpark(), tmp_path)
    plan = tmp_path / "report" / "plan.yaml"
    plan.parent.mkdir()
    groups = [{"title": f"t{n}", "count": n, "action": "leave"} for n in range(1, 7)]

    def told(changes_shown: int) -> list[str]:
        plan.write_text(json.dumps({"groups": groups}))
        before = len(out.getvalue().splitlines())
        operator.approve_plan(changes_shown)
        return [line.split("plan.yaml: ")[1] for line in out.getvalue().splitlines()[before:]]

    assert told(5) == [f"leave -> redrive: {n} of t{n}" for n in range(1, 6)] + ["and 1 more group"]
    assert told(0) == ["leave -> redrive: 6 groups"]
