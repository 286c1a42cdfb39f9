"""The next command of an answer: it leads somewhere, and drops no decision."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dlq.archive.group_records import add_statement
from dlq.archive.ledger.disposition import Disposition
from dlq.archive.ledger.stop import Stop, StopCause
from dlq.archive.storage.files import Archive
from dlq.aws.clients import QueueCounts
from dlq.cli.running import main
from dlq.cli.verbs.groups import next_lines
from dlq.cli.verbs.redrive import execution_words
from dlq.cli.verbs.redrive import next_words as words_after_redrive
from dlq.cli.verbs.status import next_words
from dlq.explain.triage import Statement
from dlq.inspect.groups import ListedGroup
from dlq.inspect.status import (
    ArchiveStatus,
    NewestReport,
    StatusOptions,
    status,
)
from dlq.plan.plan import Plan
from dlq.plan.plan_reading import read_plan
from dlq.redrive.ramping.step_records import Forecast
from dlq.redrive.request import RedriveRequest
from dlq.redrive.summary import GroupResult, RedriveSummary
from tests.support.approved_plan import planned
from tests.support.ledgers import settle
from tests.support.parked_orders import archived, order

NOW = datetime(2026, 11, 28, tzinfo=UTC)
PLAN = "20261128T100000Z-0000000"


def status_of(pending: int, **changes: object) -> ArchiveStatus:
    empty = ArchiveStatus(
        archive="a",
        at=NOW,
        queue=None,
        messages=10,
        counts={"pending": pending},
        oldest_pending_at=None,
        drains=(),
        plans=(),
    )
    return replace(empty, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pending", "visible", "report", "words"),
    [
        (0, 0, None, ()),
        (3, 0, None, ("collect", "--only", "analyze")),
        (3, 0, NewestReport(PLAN), ("groups",)),
        (3, 0, NewestReport(PLAN, unlisted=1), ("collect", "--only", "analyze")),
        (3, 0, NewestReport(PLAN, decided=2), ("redrive",)),
        # Both would make a plan without the decisions.
        (3, 0, NewestReport(PLAN, unlisted=1, decided=2), ("redrive",)),
        (3, 5, NewestReport(PLAN, decided=2), ("redrive",)),
        (3, 5, NewestReport(PLAN), ("collect",)),
        (0, 5, NewestReport(PLAN), ("collect",)),
        (0, 0, NewestReport(PLAN), ()),
        (3, 0, NewestReport(PLAN, fault="plan.yaml has faults"), ("groups",)),
    ],
)
def test_next_command_of_status(
    pending: int, visible: int, report: NewestReport | None, words: tuple[str, ...]
) -> None:
    assert next_words(status_of(pending, queue=QueueCounts(visible), report=report)) == words


def test_an_empty_archive_is_filled_first() -> None:
    assert next_words(status_of(0, messages=0)) == ("collect",)


def plan_with(archive: Archive, action: str) -> Plan:
    return read_plan(Path(planned(archive, action)).read_text())


def report_of(archive: Archive) -> NewestReport | None:
    return status(StatusOptions(archive.root)).report


def test_the_newest_report_is_compared_with_what_is_pending(tmp_path: Path) -> None:
    archive = archived(tmp_path, [order(number) for number in range(4)])
    assert report_of(archive) is None

    left = plan_with(archive, "leave")
    assert report_of(archive) == NewestReport(left.plan_id)

    redriven = plan_with(archive, "redrive")
    assert report_of(archive) == NewestReport(redriven.plan_id, decided=4)

    # A lost answer is nobody's to send again.
    settle(archive, redriven.plan_id, {"m-000": Disposition.SENT, "m-001": Disposition.UNCONFIRMED})
    assert report_of(archive) == NewestReport(redriven.plan_id, decided=2)

    halted = Statement(NOW, "ann@desk", halted="1 of 1 message failed again, 0 allowed")
    add_statement(archive, redriven.groups[0].group_id, halted)
    assert report_of(archive) == NewestReport(redriven.plan_id)

    planned(archive, "leave", "message_id = 'm-003'", chosen=["m-003"])
    report = report_of(archive)
    assert report
    assert (report.unlisted, report.decided) == (2, 0)


def test_a_plan_with_faults_is_named_and_not_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = archived(tmp_path, [order(1)])
    path = Path(planned(archive))
    path.write_text(path.read_text().replace("action: redrive", "action: redrve"))

    assert main(["status", "--archive", archive.root]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[-3].startswith(f"newest report: {path} has faults:")
    assert lines[-1] == f"next: dlq groups --archive {archive.root}"


def group(group_id: str, action: str = "leave", halted: str | None = None) -> ListedGroup:
    return ListedGroup(
        group_id=group_id,
        count=1,
        action=action,
        title="",
        difference="",
        note="",
        is_edited=False,
        halted=halted,
    )


def test_next_command_for_a_halted_group_is_a_decision() -> None:
    lines = list(next_lines([group("g-1", "redrive", "1 failed again")], "a"))

    assert lines == [
        "next, once a halted group is fixed:",
        "  dlq decide --archive a g-1 redrive --note WHY",
    ]


def test_other_groups_are_redriven_meanwhile() -> None:
    halted = group("g-1", "redrive", "1 failed again")
    lines = list(next_lines([halted, group("g-2", "redrive"), group("g-3")], "a"))

    assert lines[1:] == [
        "  dlq decide --archive a g-1 redrive --note WHY",
        "next, a dry run for one group, or a decision in the plan:",
        "  dlq redrive --archive a --main-queue-url URL --group g-3",
        "  dlq decide --archive a g-3 discard --note WHY",
    ]


def redriven(counts: dict[str, int], run_id: str = "", action: str = "redrive") -> RedriveSummary:
    group = GroupResult("g-1", "TimeoutError", action, counts)
    return RedriveSummary("p-1", run_id, {"https://q": 1}, (group,), ())


PUT_BACK = RedriveRequest(to_queue_url="u", execute=True, failure_table="failures")


@pytest.mark.parametrize(
    ("summary", "request_", "words"),
    [
        (redriven({"send": 3}), PUT_BACK, ()),
        (redriven({"discard": 3}), PUT_BACK, ()),
        (redriven({"leave": 3}, action="leave"), PUT_BACK, ("groups",)),
        (redriven({"sent_before": 3}), replace(PUT_BACK, plan="p"), ("groups", "--plan", "p")),
        (redriven({"sent": 3}, "r-1"), PUT_BACK, ("show", "r-1")),
        (redriven({"sent": 3}, "r-1"), replace(PUT_BACK, failure_table=None), ("status",)),
        (redriven({"sent_before": 3}, "r-1"), PUT_BACK, ("status",)),
        (redriven({"sent": 3}, "r-1"), replace(PUT_BACK, watches=True), ()),
        (redriven({"sent": 3, "halted": 4}, "r-1"), PUT_BACK, ()),
        (
            replace(redriven({"sent": 3}, "r-1"), stopped_by=Stop(StopCause.INTERRUPTED)),
            PUT_BACK,
            (),
        ),
    ],
)
def test_a_redrive_is_followed_by_what_failed_again(
    summary: RedriveSummary, request_: RedriveRequest, words: tuple[str, ...]
) -> None:
    assert words_after_redrive(summary, request_) == words


DRY_RUN = RedriveRequest(to_queue_url="u", failure_table="failures")


@pytest.mark.parametrize(
    ("forecast", "request_", "words"),
    [
        (Forecast((1, 2), 270), DRY_RUN, ["--plan", "p-1", "--ramp"]),
        (None, DRY_RUN, ["--plan", "p-1", "--at-once"]),
        (None, replace(DRY_RUN, failure_table=None), ["--plan", "p-1"]),
        (Forecast((1, 2), 270), replace(DRY_RUN, plan="p-1", ramp=True), []),
    ],
)
def test_a_dry_run_suggests_what_keeps_its_promise(
    forecast: Forecast | None, request_: RedriveRequest, words: list[str]
) -> None:
    summary = replace(redriven({"send": 3}), forecast=forecast)

    assert execution_words(summary, request_) == words
