"""Sizes of steps, returns that may come, verdicts, and the records that several runs share."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_reprocess.archive.storage.files import open_archive
from spark_reprocess.aws.clients import QueueCounts
from spark_reprocess.errors import ArchiveError
from spark_reprocess.plan.policy import ALLOWED_RETURNS
from spark_reprocess.ramp import (
    GroupRamp,
    Reading,
    Step,
    Steps,
    Verdict,
    blocker_of,
    ended_steps,
    group_ramp,
    returns_allowed,
    step_sizes,
)

NONE = QueueCounts()
SENT = 630.0
"""The step's last send: in minute 10."""

LATE = SENT + 1000
"""Everything had its time."""

GOOD = Reading(LATE, main=NONE, dead_letters=NONE, ages={660.0: 20.0}, deleted=6)
"""The step has left at 660 s, the begin of minute 11."""

NO_AGES = replace(GOOD, ages={})


@pytest.mark.parametrize(
    ("messages", "sizes"), [(0, []), (10, [1, 2, 6, 1]), (81, [1, 2, 6, 18, 54])]
)
def test_each_step_is_twice_all_before(messages: int, sizes: list[int]) -> None:
    assert step_sizes(messages) == sizes


@pytest.mark.parametrize(
    ("text", "sent", "most"),
    [
        *[(None, sent, most) for sent, most in [(0, 0), (20, 0), (21, 1), (199, 1), (200, 2)]],
        *[("0", 10_000, 0), ("3", 1, 3), ("0%", 10_000, 0), ("2.5%", 39, 0), ("2.5%", 40, 1)],
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


def looks(*changes: dict[str, Any], of: Reading = GOOD) -> list[Reading]:
    """A look every 10 s, of which each is good but for its changes."""
    return [replace(of, at=LATE + 10 * n, **one) for n, one in enumerate(changes)]


IN_MAIN, WAITS = "the step may still be in the main queue", "dead letters wait in the DLQ"
BUSY = {"main": QueueCounts(1, 20, 300)}


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
        (looks({}, of=NO_AGES), IN_MAIN),
        (looks({}, {}, of=NO_AGES), "a failure may return for another 1 min"),
        (looks(*[{}] * 7, of=NO_AGES), "a failure may return for another 10 s"),
        (looks(*[{}] * 9, of=NO_AGES), ""),
        (looks(*[{"ages": {600: 0.0}}] * 9), ""),
        (looks(BUSY, BUSY, of=NO_AGES), f"{IN_MAIN}, where 321 messages are"),
        *((looks({}, {"main": one}, {}, of=NO_AGES), IN_MAIN) for one in (None, *[QueueCounts(1)])),
        (looks({}, {"main": QueueCounts(delayed=1)}, {}, of=NO_AGES), IN_MAIN),
        (looks({}, {"main": QueueCounts(in_flight=1)}, {}, of=NO_AGES), IN_MAIN),
        ([replace(NO_AGES, at=at) for at in (SENT + 10, SENT + 59)], IN_MAIN),
    ],
)
def test_blocker_of_a_verdict(seen: Sequence[Reading], why: str) -> None:
    blocker, _ = blocker_of(seen, 6, SENT, 90, 60)

    assert (blocker == "") is (why == "")
    assert why in blocker


def step(number: int, messages: int = 1, *, before: int = 0, is_open: bool = False) -> Step:
    counts = {"g": messages}, {"g": before}, {"g": 0}
    return Step(number, "run-1", 5.0, *counts, sent_at=None if is_open else 9.0)


ONE, TWO, OPEN = step(1), step(2, 2), step(2, 2, is_open=True)
LATER = [step(3, before=5), step(4, 2, before=6)]


@pytest.mark.parametrize(
    ("own", "left", "returned", "blocker", "allowed", "verdict", "why"),
    [
        ([ONE, TWO], 7, 0, "", None, "good", ""),
        ([ONE, TWO], 7, 0, "it rains", None, "unknown", "it rains"),
        # Too many returns are bad, whatever else is known.
        ([ONE, TWO], 7, 1, "it rains", None, "bad", "1 of 3 messages came back, 0 may"),
        ([ONE, OPEN], 0, 1, "", None, "bad", "1 of 3 messages came back, 0 may"),
        # Only what SQS confirmed is sent.
        ([ONE, step(2, 0)], 7, 1, "", None, "bad", "1 of 1 message came back"),
        # What came back before the first step does not count; later steps count together.
        (LATER, 7, 5, "", None, "good", ""),
        (LATER, 7, 6, "", None, "bad", "1 of 3"),
        (LATER, 7, 6, "", "1", "good", ""),
        # The counter was made anew after its 90 days.
        (LATER, 7, 2, "", None, "good", ""),
        # Returns that nobody counts are unknown.
        ([ONE, TWO], 7, None, "", None, "unknown", "it is not known what came back"),
        ([ONE, OPEN], 0, None, "", None, "unknown", "it is not known what came back"),
        # The last step needs no verdict once it is sent.
        ([ONE, TWO], 0, 0, "it rains", None, "sent", ""),
        ([ONE, TWO], 0, None, "", None, "sent", ""),
        ([ONE, OPEN], 0, 0, "it rains", None, "unknown", "it rains"),
    ],
)
def test_verdict(
    own: list[Step],
    left: int,
    returned: int | None,
    blocker: str,
    allowed: str | None,
    verdict: str,
    why: str,
) -> None:
    ramp = group_ramp("g", own, left, returned, allowed, blocker, in_order=False)

    assert ramp.verdict == verdict
    assert (ramp.why == "") is (why == "")
    assert why in ramp.why


def test_on_fifo_a_return_that_may_come_still_goes_first() -> None:
    ramp, free = (
        group_ramp("g", [ONE, TWO], 7, 1, "5", "", in_order=in_order) for in_order in (True, False)
    )

    why = "what came back must go first: collect again"
    assert ramp == GroupRamp("g", 2, 4, 3, 1, 5, Verdict.UNKNOWN, why)
    assert free == GroupRamp("g", 2, 4, 3, 1, 5, Verdict.GOOD)


def test_of_two_runs_the_first_record_counts_for_both(tmp_path: Path) -> None:
    archive = open_archive(str(tmp_path))
    steps, first = Steps(archive, "p", "main"), step(1, is_open=True)
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
