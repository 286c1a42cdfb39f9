"""Sizes of steps, returns that may come, verdicts, and the records that several runs share."""

import doctest
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from dlq.archive.storage.files import open_archive
from dlq.aws.clients import QueueCounts
from dlq.errors import ArchiveError
from dlq.explain.triage import GroupState
from dlq.plan.action_policy import ALLOWED_RETURNS
from dlq.redrive.ramping import step_records, verdict_rules
from dlq.redrive.ramping.step_records import (
    LastCount,
    Step,
    Steps,
    earlier_steps,
    ended_steps,
    last_counts,
    step_sizes,
    unfinished_plan,
)
from dlq.redrive.ramping.verdict_rules import (
    GroupRamp,
    QueueTimes,
    Reading,
    Verdict,
    VerdictBlocker,
    blocker_of,
    group_ramp,
    may_have_a_step,
    proven_after,
    returns_allowed,
)
from tests.support.ramp_steps import a_step

NONE = QueueCounts()
SENT = 630.0
"""The step's last send: in minute 10."""

LATE = SENT + 1000
"""Everything had its time."""

GOOD = Reading(LATE, main=NONE, dead_letters=NONE, ages={660.0: 20.0}, deleted=6)
"""The step has left at 660 s, the begin of minute 11."""

NO_AGES = replace(GOOD, ages={})


@pytest.mark.parametrize("module", [step_records, verdict_rules])
def test_examples_of_steps_are_right(module: ModuleType) -> None:
    result = doctest.testmod(module)

    assert result.attempted
    assert not result.failed


@pytest.mark.parametrize(
    ("messages", "proven", "sizes"),
    [
        (0, 0, []),
        (10, 0, [1, 2, 6, 1]),
        (81, 0, [1, 2, 6, 18, 54]),
        # A later plan goes on.
        (0, 9, []),
        (10, 3, [6, 4]),
        (80, 9, [18, 54, 8]),
    ],
)
def test_each_step_is_twice_all_before(messages: int, proven: int, sizes: list[int]) -> None:
    assert step_sizes(messages, proven) == sizes


@pytest.mark.parametrize(
    ("text", "sent", "most"),
    [
        (None, 0, 0),
        (None, 20, 0),
        (None, 21, 1),
        (None, 199, 1),
        (None, 200, 2),
        ("0", 10_000, 0),
        ("3", 1, 3),
        ("0%", 10_000, 0),
        ("2.5%", 39, 0),
        ("2.5%", 40, 1),
    ],
)
def test_returns_that_may_come(text: str | None, sent: int, most: int) -> None:
    assert returns_allowed(text, sent) == most
    assert text is None or ALLOWED_RETURNS.fullmatch(text)


@pytest.mark.parametrize(
    "text", ["", "-1", "1.5", "101%", "100.1%", "1 %", "%", "many", "1e3", "٣", "1_000", "3\n"]
)
def test_other_texts_are_refused(text: str) -> None:
    assert not ALLOWED_RETURNS.fullmatch(text)


def looks(*changes: dict[str, Any], template: Reading = GOOD) -> list[Reading]:
    """A look every 10 s, of which each is good but for its changes."""
    readings = []
    for number, changed in enumerate(changes):
        readings.append(replace(template, at=LATE + 10 * number, **changed))
    return readings


IN_MAIN = "the step may still be in the main queue"
WAITS = "dead letters wait in the DLQ"
EXPIRED = "the step may have expired in the main queue before anybody received it"
BUSY = {"main": QueueCounts(1, 20, 300)}
DAY = 86_400
TIMES = QueueTimes(failure=90, retention=DAY)


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (looks({}), WAITS),
        (looks({}, {}), ""),
        # Each obstacle by itself keeps the verdict.
        (looks({}, {}, {"obstacle": "the queue is paused"}), "the queue is paused"),
        (looks({}, {"dead_letters": QueueCounts(visible=1)}, {}), WAITS),
        (looks({}, {"dead_letters": QueueCounts(visible=1)}, {}, {}), ""),
        (looks({}, {}, {"dead_letters": None}), WAITS),
        (looks({}, {}, {"deleted": None}), "deleted ? messages since the step, of 6"),
        (looks({}, {}, {"deleted": 5}), "deleted 5 messages since the step, of 6"),
        # A failure has the time to return and to be counted.
        ([replace(GOOD, at=at) for at in (800, 809)], "a failure may return for another 1 s"),
        ([replace(GOOD, at=at) for at in (810, 820)], ""),
        # A message as old as the step may be of it; counts mean nothing beside the metric.
        *((looks(*[{"ages": {660: age}}] * 3), IN_MAIN) for age in (30.0, 400.0)),
        (looks(*[{"ages": {720: 400.0, 780: 150.0}}] * 3), IN_MAIN),
        (looks(*[{"ages": {660: 400.0, 720: 89.0}}] * 3), ""),
        (looks(*[{"ages": {660: 30.0}, "main": None}] * 3), f"{IN_MAIN}, where ? messages are"),
        # Without the metric two looks at an empty queue do; what failed has returned by then.
        (looks({}, template=NO_AGES), IN_MAIN),
        (looks({}, {}, template=NO_AGES), "a failure may return for another 1 min"),
        (looks(*[{}] * 7, template=NO_AGES), "a failure may return for another 10 s"),
        (looks(*[{}] * 9, template=NO_AGES), ""),
        (looks(*[{"ages": {600: 0.0}}] * 9), ""),
        (looks(BUSY, BUSY, template=NO_AGES), f"{IN_MAIN}, where 321 messages are"),
        (looks({}, {"main": None}, {}, template=NO_AGES), IN_MAIN),
        (looks({}, {"main": QueueCounts(1)}, {}, template=NO_AGES), IN_MAIN),
        (looks({}, {"main": QueueCounts(delayed=1)}, {}, template=NO_AGES), IN_MAIN),
        (looks({}, {"main": QueueCounts(in_flight=1)}, {}, template=NO_AGES), IN_MAIN),
        ([replace(NO_AGES, at=at) for at in (SENT + 10, SENT + 59)], IN_MAIN),
    ],
)
def test_blocker_of_a_verdict(seen: Sequence[Reading], why: str) -> None:
    blocker = blocker_of(seen, 6, SENT, TIMES)

    assert (blocker.reason == "") is (why == "")
    assert why in blocker.reason


def test_step_has_not_left_the_queue_before_it_was_sent() -> None:
    """A message of a step that nobody saw in the queue may fail and return for its whole time."""
    seen = [replace(NO_AGES, at=SENT + after) for after in (60, 70)]

    assert blocker_of(seen, 6, SENT, TIMES).ready_at == SENT + 90 + 60


LATE_METRIC = 810.0 + 15 * 60
"""15 minutes after everything had its time, from which on no metric is late."""


@pytest.mark.parametrize(
    ("seen", "why", "is_final"),
    [
        # What can still happen tells.
        (looks({}, {}, {"obstacle": "the queue is paused"}), "the queue is paused", False),
        (looks({}, {"dead_letters": QueueCounts(visible=1)}), WAITS, False),
        ([replace(GOOD, at=809)], "a failure may return", False),
        (looks({"ages": {660: 30.0}}), IN_MAIN, False),
        ([replace(GOOD, at=LATE_METRIC - 1, deleted=5)] * 2, "deleted 5 messages", False),
        # Nothing that can still happen does.
        ([replace(GOOD, at=LATE_METRIC, deleted=5)] * 2, "deleted 5 messages", True),
        ([replace(GOOD, at=LATE_METRIC, deleted=None)] * 2, "deleted ? messages", True),
        (looks({}, {"uncounted": 2}), "the replay function could not count 2 returns", True),
        ([replace(GOOD, at=SENT + DAY, ages={660: 30.0})], EXPIRED, True),
        ([replace(GOOD, at=SENT + DAY - 1, ages={660: 30.0})], IN_MAIN, False),
        ([replace(GOOD, at=SENT + DAY, main=None, ages={})], EXPIRED, True),
        # It was seen to leave in time, or only when it must have expired.
        ([replace(GOOD, at=SENT + 2 * DAY)] * 2, "", False),
        ([replace(GOOD, at=SENT + 2 * DAY, ages={SENT + DAY + 30: 9.0})] * 2, EXPIRED, True),
        ([replace(NO_AGES, at=SENT + 2 * DAY)] * 2, EXPIRED, True),
    ],
)
def test_a_step_waits_only_for_what_can_still_happen(
    seen: Sequence[Reading], why: str, *, is_final: bool
) -> None:
    blocker = blocker_of(seen, 6, SENT, TIMES)

    assert why in blocker.reason
    assert blocker.is_final is is_final


def step(
    number: int, messages: int = 1, *, before: int = 0, proven: int = 0, is_open: bool = False
) -> Step:
    return a_step(
        number, "g", messages, before=before, proven=proven, sent_at=None if is_open else 9.0
    )


ONE = step(1)
TWO = step(2, 2, proven=1)
OPEN = step(2, 2, proven=1, is_open=True)
LATER = [step(3, before=5), step(4, 2, before=6, proven=1)]
RAINS = VerdictBlocker("it rains")
POURS = VerdictBlocker("it pours", is_final=True)
CLEAR = VerdictBlocker()
NOT_COUNTED = "what failed again is not counted any more"


@pytest.mark.parametrize(
    ("own", "left", "returned", "blocker", "allowed", "verdict", "why"),
    [
        ([ONE, TWO], 7, 0, CLEAR, None, "good", ""),
        ([ONE, TWO], 7, 0, RAINS, None, "unknown", "it rains"),
        ([ONE, TWO], 7, 0, POURS, None, "unproven", "it pours"),
        # Too many returns are bad, whatever else is known.
        ([ONE, TWO], 7, 1, RAINS, None, "bad", "1 of 3 messages failed again, 0 allowed"),
        ([ONE, TWO], 7, 1, POURS, None, "bad", "1 of 3 messages failed again, 0 allowed"),
        ([ONE, OPEN], 0, 1, CLEAR, None, "bad", "1 of 3 messages failed again, 0 allowed"),
        # Only what SQS confirmed is sent.
        ([ONE, step(2, 0)], 7, 1, CLEAR, None, "bad", "1 of 1 message failed again"),
        # What failed again before the first step does not count; later steps count together.
        (LATER, 7, 5, CLEAR, None, "good", ""),
        (LATER, 7, 6, CLEAR, None, "bad", "1 of 3"),
        (LATER, 7, 6, CLEAR, "1", "good", ""),
        # Returns that are not counted any more are never known.
        ([ONE, TWO], 7, None, CLEAR, None, "unproven", NOT_COUNTED),
        ([ONE, TWO], 7, None, RAINS, None, "unknown", "it rains"),
        # The last step needs no verdict once it is sent.
        ([ONE, TWO], 0, 0, RAINS, None, "sent", ""),
        ([ONE, TWO], 0, None, CLEAR, None, "sent", ""),
        ([ONE, OPEN], 0, 0, RAINS, None, "unknown", "it rains"),
    ],
)
def test_verdict(
    own: list[Step],
    left: int,
    returned: int | None,
    blocker: VerdictBlocker,
    allowed: str | None,
    verdict: str,
    why: str,
) -> None:
    ramp = group_ramp("g", own, left, returned, allowed, blocker, in_order=False)

    assert ramp.verdict == verdict
    assert (ramp.reason == "") is (why == "")
    assert why in ramp.reason


def test_on_fifo_a_return_that_may_come_still_goes_first() -> None:
    on_fifo = group_ramp("g", [ONE, TWO], 7, 1, "5", CLEAR, in_order=True)
    on_standard = group_ramp("g", [ONE, TWO], 7, 1, "5", CLEAR, in_order=False)

    why = "what failed again must go first: collect again"
    assert on_fifo == GroupRamp("g", 2, 4, 3, 1, 5, Verdict.RETURNED, why)
    assert on_standard == GroupRamp("g", 2, 4, 3, 1, 5, Verdict.GOOD)


@pytest.mark.parametrize(
    ("last", "verdict", "proven"),
    [
        (None, Verdict.UNKNOWN, 0),
        (step(3, 6, proven=3), Verdict.GOOD, 9),
        (step(3, 6, proven=3), Verdict.UNPROVEN, 3),
        # Nothing of it could be sent.
        (step(3, 0, proven=3), Verdict.GOOD, 3),
    ],
)
def test_only_a_good_step_lets_the_next_one_grow(
    last: Step | None, verdict: Verdict, proven: int
) -> None:
    assert proven_after(last, "g", verdict) == proven


@pytest.mark.parametrize("is_of_this_run", [False, True])
def test_what_is_unproven_is_repeated_by_a_later_run(*, is_of_this_run: bool) -> None:
    continued = set()
    for verdict in Verdict:
        ramp = GroupRamp("g", 1, 4, 1, 0, 0, verdict)
        if may_have_a_step(ramp, is_of_this_run=is_of_this_run):
            continued.add(verdict)

    assert continued == ({Verdict.GOOD} if is_of_this_run else {Verdict.GOOD, Verdict.UNPROVEN})
    assert may_have_a_step(None, is_of_this_run=is_of_this_run)


def test_repeated_step_has_the_same_number() -> None:
    repeated = [ONE, step(2, 2, proven=1), step(3, 2, proven=1)]

    ramp = group_ramp("g", repeated, 18, 0, None, CLEAR, in_order=False)

    assert (ramp.step, ramp.steps, ramp.sent) == (2, 4, 5)


def test_last_count_of_a_group_is_the_newest_of_all_queues(tmp_path: Path) -> None:
    archive = open_archive(str(tmp_path), creates=True)
    old = LastCount(5.0, {"g": 1, "h": 4})
    new = LastCount(9.0, {"g": 2})
    Steps(archive, "p", "main").note_returns(LastCount(1.0, {"g": 0}))
    Steps(archive, "p", "main").note_returns(new)
    Steps(archive, "p", "other").note_returns(old)
    Steps(archive, "p", "main").create(ONE)

    assert last_counts(archive, "p") == {"g": new, "h": old}
    assert last_counts(archive, "q") == {}


EARLIER = {
    "p-3": [a_step(1, "other", left=9)],
    "p-2": [a_step(1, "g", left=9), a_step(2, "done", left=0), a_step(3, "halted", left=9)],
    "p-1": [a_step(1, "done", left=9), a_step(2, "old", left=9)],
}


@pytest.mark.parametrize(
    ("group_id", "state", "plan_id"),
    [
        ("g", GroupState(), "p-2"),
        ("old", GroupState(), "p-1"),
        ("new", GroupState(), None),
        # Its ramp came to its end in the last plan that had it.
        ("done", GroupState(), None),
        # Halted since, and decided again.
        ("halted", GroupState(halts=1), None),
        # Decided since; what was decided in the same plan was there before its steps.
        ("g", GroupState(plan_id="p-4", action="redrive"), None),
        ("g", GroupState(plan_id="p-2", action="redrive"), "p-2"),
        ("g", GroupState(plan_id="p-1", action="redrive"), "p-2"),
    ],
)
def test_plan_whose_ramp_a_group_goes_on_with(
    group_id: str, state: GroupState, plan_id: str | None
) -> None:
    assert unfinished_plan(EARLIER, group_id, state) == plan_id


def test_steps_of_the_last_seven_plans_before_are_read(tmp_path: Path) -> None:
    archive = open_archive(str(tmp_path), creates=True)
    for number in range(12):
        plan = f"2026110{number}" if number < 10 else f"202611{number}"
        archive.write(f"ledger/runs/{plan}/run.json", b"{}")
        if number != 8:
            Steps(archive, plan, "main").create(a_step(1, f"g-{number}"))
    archive.write("ledger/runs/restore-1/run.json", b"{}")
    Steps(archive, "20261107", "other").create(a_step(1, "elsewhere"))

    earlier = earlier_steps(archive, "20261110", "main")

    assert [*earlier] == ["20261109", "20261107", "20261106", "20261105", "20261104", "20261103"]
    assert [*earlier["20261107"][0].messages] == ["g-7"]


def test_of_two_runs_the_first_record_counts_for_both(tmp_path: Path) -> None:
    archive = open_archive(str(tmp_path))
    steps = Steps(archive, "p", "main")
    first = step(1, is_open=True)
    assert steps.create(first)
    assert not steps.create(replace(first, run_id="run-b", messages={"g": 9}))
    assert (steps.read(), ended_steps(steps.read())) == ([first], 0)

    assert steps.create(ONE)
    assert not steps.create(replace(ONE, messages={}))
    steps.create(OPEN)
    archive.write(f"{steps.table(3, 'run-1')}/part.parquet", b"")

    assert (steps.read(), ended_steps(steps.read())) == ([ONE, OPEN], 1)
    assert Steps(archive, "p", "other").read() == Steps(archive, "q", "main").read() == []
    archive.write("ledger/plan_id=p/steps/main/00001.sent.json", b"{}")
    with pytest.raises(ArchiveError, match=r"00001\.sent\.json"):
        steps.read()
