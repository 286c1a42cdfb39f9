"""Sizes of steps, returns that may come, and what keeps a step from being judged."""

from dataclasses import replace
from typing import Any

import pytest

from spark_reprocess.aws.clients import QueueCounts
from spark_reprocess.ramp.rule import (
    Reading,
    StepWatch,
    read_allowed,
    returns_allowed,
    step_sizes,
)

NONE = QueueCounts()
SENT = 630.0
"""The step's last send: in minute 10."""

LATE = SENT + 1000
"""Everything had its time."""

GOOD = Reading(LATE, main=NONE, dead_letters=NONE, ages={660.0: 20.0}, deleted=6)
WATCH = StepWatch(SENT, 90)


def test_each_step_is_twice_all_before() -> None:
    assert step_sizes(0) == []
    assert step_sizes(10) == [1, 2, 6, 1]
    assert step_sizes(81) == [1, 2, 6, 18, 54]


@pytest.mark.parametrize(
    ("text", "sent", "most"),
    [
        *[(None, sent, most) for sent, most in [(0, 0), (20, 0), (21, 1), (199, 1), (200, 2)]],
        *[("0", 10_000, 0), ("3", 1, 3), ("0%", 10_000, 0), ("2.5%", 39, 0), ("2.5%", 40, 1)],
    ],
)
def test_returns_that_may_come(text: str | None, sent: int, most: int) -> None:
    assert returns_allowed(text, sent) == most
    assert text is None or read_allowed(text) == text


@pytest.mark.parametrize(
    "text", ["", "-1", "1.5", "101%", "100.1%", "1 %", "%", "many", "1e3", "٣", "1_000", "3\n"]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="whole number, or a percentage"):
        read_allowed(text)


def blocker(reading: Reading, *times: float) -> str:
    """What the last of several looks says."""
    return WATCH.blocker([replace(reading, at=at) for at in times], 6)


def test_nothing_stands_in_the_way_at_the_second_look() -> None:
    assert blocker(GOOD, LATE) == "dead letters wait in the DLQ"
    assert blocker(GOOD, LATE, LATE + 10) == ""


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"obstacle": "the queue is paused"}, "the queue is paused"),
        ({"ages": {660: 30.0}}, "the step may still be in the main queue, where 0 messages are"),
        ({"ages": {660: 30.0}, "main": None}, "in the main queue, where ? messages are"),
        ({"ages": {}, "main": QueueCounts(1, 20, 300)}, "queue, where 321 messages are"),
        ({"dead_letters": QueueCounts(visible=1)}, "dead letters wait in the DLQ"),
        ({"dead_letters": None}, "dead letters wait in the DLQ"),
        ({"deleted": None}, "deleted ? messages since the step, of 6"),
        ({"deleted": 5}, "deleted 5 messages since the step, of 6"),
    ],
)
def test_each_obstacle_by_itself_keeps_the_verdict(changes: dict[str, Any], why: str) -> None:
    assert why in blocker(replace(GOOD, **changes), LATE, LATE + 10, LATE + 20)


def test_failure_has_the_time_to_return_and_to_be_counted() -> None:
    # The step has left at 660 s, the begin of minute 11.
    assert "for another 1 s" in blocker(GOOD, 800, 809)
    assert blocker(GOOD, 810, 820) == ""


@pytest.mark.parametrize(
    ("ages", "left_at"),
    [
        ({}, None),
        ({600: 0.0}, None),
        ({660: 30.0}, None),
        ({660: 29.9}, 660),
        ({660: 400.0, 720: 89.0}, 720),
        ({720: 400.0, 780: 150.0}, None),
    ],
)
def test_age_of_the_oldest_message_says_when_the_step_has_left(
    ages: dict[float, float], left_at: float | None
) -> None:
    assert WATCH.left_at([Reading(LATE, main=QueueCounts(5), ages=ages)]) == left_at
    # Counts mean nothing where the metric has data.
    empty = Reading(LATE, main=NONE, ages=ages)
    assert not any(at > SENT for at in ages) or WATCH.left_at([empty, empty]) == left_at


@pytest.mark.parametrize(
    ("counts", "times", "has_left"),
    [
        ([NONE, NONE], (LATE, LATE + 10), True),
        ([NONE], (LATE,), False),
        ([NONE, NONE], (SENT + 10, SENT + 59), False),
        ([NONE, QueueCounts(in_flight=1), NONE], (LATE, LATE + 1, LATE + 2), False),
        ([NONE, QueueCounts(delayed=1), NONE, NONE], (LATE, LATE, LATE, LATE), True),
        ([NONE, None, NONE], (LATE, LATE, LATE), False),
    ],
)
def test_two_looks_at_an_empty_queue_do_where_the_metric_has_no_data(
    counts: list[QueueCounts | None], times: tuple[float, ...], *, has_left: bool
) -> None:
    looks = [Reading(at, main=main) for main, at in zip(counts, times, strict=True)]

    assert (WATCH.left_at(looks) is not None) == has_left


def test_run_that_goes_on_much_later_needs_no_more_than_the_lag_of_the_counts() -> None:
    looks = [replace(GOOD, at=90_000 + 10 * look, ages={}) for look in range(10)]
    whys = [WATCH.blocker(looks[: n + 1], 6) for n in range(10)]

    assert "main queue" in whys[0]
    assert whys[1] == "a failure may return for another 1 min"
    assert whys[-1] == ""


def test_looks_without_dead_letters_must_follow_each_other() -> None:
    looks = [GOOD, replace(GOOD, dead_letters=QueueCounts(visible=2)), GOOD, GOOD]

    assert [bool(WATCH.blocker(looks[: n + 1], 6)) for n in range(4)] == [True, True, True, False]
