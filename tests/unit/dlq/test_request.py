from dataclasses import replace
from typing import Any

import pytest

from dlq.errors import InputError
from dlq.plan.plan import Action, Plan, PlannedGroup, Snapshot
from dlq.redrive.request import RedriveRequest, RestoreRequest
from dlq.redrive.resolving.resolve import ResolvedPlan
from dlq.redrive.send_run import SendRun
from dlq.redrive.sending.task_division import task_count
from dlq.redrive.summary import RedriveSummary, Sent, Tally
from dlq.redrive.totals import summarize

PLAN = Plan(
    "p-1",
    "/a",
    Snapshot(("d-1",), 3, "0" * 64, "0" * 64),
    (PlannedGroup("g-1", "one", 2, Action.REDRIVE), PlannedGroup("g-2", "two", 1, Action.LEAVE)),
)


def options(**changes: object) -> RedriveRequest:
    make = {"plan": "p", "to_queue_url": "u", **changes}
    return RedriveRequest(**make)  # type: ignore[arg-type]


NOTHING: Any = None


def summary(*tallies: Tally, executed: bool = True) -> RedriveSummary:
    run = SendRun(NOTHING, options(), "p-1", "u")
    sent = {"u": Sent(tallies)}
    resolved = ResolvedPlan(NOTHING, (), {"u": tallies}, 0, ())
    return summarize(run, PLAN.groups, resolved, sent if executed else None)


@pytest.mark.parametrize("reason", ["", "  "])
def test_execute_without_a_reason_is_refused(reason: str) -> None:
    with pytest.raises(InputError, match="--execute needs --reason"):
        options(execute=True, reason=reason).check()


def test_rate_of_less_than_a_message_in_ten_seconds_is_refused() -> None:
    options(max_rate=0.1).check()
    with pytest.raises(InputError, match=r"--max-rate 0.09: must be at least 0.1"):
        options(max_rate=0.09).check()


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"main_queue_url": "m"}, "--queue-tag and --main-queue-url exclude each other"),
        ({"parked_queue_urls": ()}, "--queue-tag needs --parked-queue-url"),
        ({"queue": "not a queue"}, "--queue not a queue: must be the name of a queue"),
        ({"include_foreign": True}, "--include-foreign needs --to-queue-url"),
        ({"to_queue_url": "u", "include_foreign": True, "parked_queue_urls": ()}, ""),
        ({}, ""),
    ],
)
def test_what_goes_with_a_tag(changes: dict[str, Any], fault: str) -> None:
    given = {"to_queue_url": None, "queue_tag": "t", "parked_queue_urls": ("p",), **changes}
    request = options(**given)
    if not fault:
        request.check()
        assert request.is_fleet is not bool(request.to_queue_url)
        return
    with pytest.raises(InputError, match=f"^{fault}"):
        request.check()


def test_messages_of_others_are_restored_to_a_single_parked_queue() -> None:
    RestoreRequest(("p",), include_foreign=True).check()
    with pytest.raises(InputError, match="--include-foreign needs a single --parked-queue-url"):
        RestoreRequest(("p", "q"), include_foreign=True).check()


def test_watch_that_could_see_nothing_is_refused() -> None:
    options(watches=True, failure_table="t").check()
    with pytest.raises(InputError, match="--watch needs --failure-table"):
        options(watches=True).check()


@pytest.mark.parametrize(
    ("ramp", "table", "goes_at_once"),
    [
        (None, "t", False),
        (None, None, True),
        (True, "t", False),
        (True, None, False),
        (False, "t", True),
        (False, None, True),
    ],
)
def test_pace(ramp: bool | None, table: str | None, *, goes_at_once: bool) -> None:
    assert options(ramp=ramp, failure_table=table).goes_at_once is goes_at_once


def test_plan_that_was_decided_otherwise_since_the_dry_run_is_refused() -> None:
    meant = options(decisions_sha256=PLAN.decisions_sha256)
    other = replace(PLAN, groups=(replace(PLAN.groups[0], action=Action.DISCARD),))

    meant.check_decisions(PLAN)
    options().check_decisions(other)
    with pytest.raises(InputError, match="plan p-1: somebody has decided something else"):
        meant.check_decisions(other)


def test_counts_are_added_up_by_group() -> None:
    result = summary(Tally("g-1", "sent", 1), Tally("g-1", "sent", 1), Tally("g-2", "leave", 1))

    assert [dict(group.counts) for group in result.groups] == [{"sent": 2}, {"leave": 1}]
    assert result.count("sent", "leave") == 3


def test_problems_are_merged_by_word_and_detail() -> None:
    result = summary(
        Tally("g-1", "failed", 2, "TooLong", ("a", "b")),
        Tally("g-2", "failed", 1, "TooLong", ("c",)),
        Tally("g-1", "failed", 1, "Denied", ("d",)),
        Tally("g-1", "sent", 9, "", ("e",)),
    )

    assert [(p.detail, p.count, p.examples) for p in result.problems] == [
        ("TooLong", 3, ("a", "b", "c")),
        ("Denied", 1, ("d",)),
    ]


@pytest.mark.parametrize(
    ("disposition", "is_unfinished"),
    [
        ("failed", True),
        ("unconfirmed", True),
        ("in_progress", True),
        ("waits", True),
        ("sent", False),
        # What the run should not touch.
        ("leave", False),
        ("sent_before", False),
        ("foreign_source", False),
        ("over_limit", False),
    ],
)
def test_run_that_could_not_settle_all_is_unfinished(
    disposition: str, *, is_unfinished: bool
) -> None:
    tally = Tally("g-1", disposition, 1)

    assert summary(tally).is_unfinished is is_unfinished
    assert not summary(tally, executed=False).is_unfinished


@pytest.mark.parametrize(
    ("messages", "cores", "asked", "rate", "may_grow", "tasks"),
    [
        (1_000_000, 2, None, None, False, 2),
        # Spark adds executors only for tasks that wait.
        (1_000_000, 2, None, None, True, 30),
        (9_999, 2, None, None, True, 4),
        (1, 2, None, None, True, 2),
        (1_000_000, 64, None, None, True, 64),
        (1_000_000, 2, 5, None, True, 5),
        # A task that waits would keep its share of the rate.
        (1_000_000, 2, None, 100, True, 2),
        (1_000_000, 8, None, 0.4, True, 2),
        (1_000_000, 8, 30, 100, True, 30),
    ],
)
def test_large_redrive_has_tasks_for_a_cluster_that_may_grow(
    messages: int, cores: int, asked: int | None, rate: float | None, may_grow: bool, tasks: int
) -> None:
    assert task_count(messages, cores, asked=asked, rate=rate, may_grow=may_grow) == tasks
