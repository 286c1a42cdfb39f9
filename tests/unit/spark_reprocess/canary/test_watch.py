"""The loop on a clock of its own, over queues whose depth is a function of the time."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from spark_reprocess.canary.options import NONE, Share
from spark_reprocess.canary.watch import ObservationWindow, Verdict, Watch, judge

from spark_reprocess.clients import QueueCounts

CANARIES = {"f-1": "g", "f-2": "g", "f-3": "h"}
SENT = {"g": 2, "h": 1}
NOTHING = QueueCounts(0, 0, 0)


@dataclass
class World:
    """Queues at a time; the canaries were sent at 0."""

    main_at: Callable[[float], QueueCounts | None] = lambda _: NOTHING
    dead_at: Callable[[float], int | None] = lambda _: 0
    parked_at: dict[str, float] = field(default_factory=dict)
    others: int = 0
    fetch_fails: Callable[[float], bool] = lambda _: False
    stops_at: float = 10**9
    now: float = 0.0
    archived: set[str] = field(default_factory=set)
    fetches: int = 0

    def main(self) -> QueueCounts | None:
        return self.main_at(self.now)

    def dead_letters_waiting(self) -> int | None:
        return self.dead_at(self.now)

    def parked(self) -> QueueCounts | None:
        there = {one for one, at in self.parked_at.items() if at <= self.now} - self.archived
        return QueueCounts(len(there) + self.others, 0, 0)

    def fetch(self) -> str:
        self.fetches += 1
        if self.fetch_fails(self.now):
            return "the disk is full"
        self.archived |= {one for one, at in self.parked_at.items() if at <= self.now}
        self.others = 0
        return ""

    def returned(self) -> dict[str, str]:
        return dict.fromkeys([*self.archived, "of-an-earlier-canary"], "TimeoutError")

    def watch(self, max_return: Share = NONE) -> Watch:
        return Watch(
            CANARIES,
            SENT,
            max_return,
            ObservationWindow(0.0, 60.0, 150.0),
            self,
            lambda: self.now,
            self.sleep,
            lambda: "interrupted" if self.now >= self.stops_at else "",
        )

    def observed(self, max_return: Share = NONE) -> Watch:
        watch = self.watch(max_return)
        watch.run()
        return watch

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def verdicts(seen: Watch, max_return: Share = NONE) -> dict[str, Verdict]:
    groups = judge(SENT, seen.failures, max_return, seen.unknown)
    return {one.group_id: one.verdict for one in groups}


PASSED, FAILED, UNKNOWN = Verdict.PASSED, Verdict.FAILED, Verdict.UNKNOWN


def waiting(messages: int, in_flight: int = 0) -> QueueCounts:
    return QueueCounts(messages, in_flight, 0)


@pytest.mark.parametrize(
    ("world", "expected", "at_least_seconds"),
    [
        (World(), (PASSED, PASSED), 60 + 150),
        (World(parked_at={"f-1": 95.0}), (FAILED, PASSED), 150),
        (World(main_at=lambda now: waiting(9 * (now < 100))), (PASSED, PASSED), 250),
        (World(main_at=lambda now: waiting(9 * (100 <= now < 130))), (PASSED, PASSED), 130 + 150),
        (World(main_at=lambda _: waiting(4), parked_at={"f-1": 60.0}), (FAILED, UNKNOWN), 60),
        (
            World(dead_at=lambda now: int(now < 200), parked_at={"f-3": 200.0}),
            (PASSED, FAILED),
            200,
        ),
        (World(parked_at={"f-3": 90.0}, archived={"f-3"}), (PASSED, FAILED), 150),
        (World(parked_at={"f-1": 20.0}, fetch_fails=lambda now: now < 100), (FAILED, PASSED), 100),
    ],
    ids=[
        "nothing came back",
        "one group fails",
        "the wait counts from the end of the backlog",
        "a backlog that comes back restarts the wait",
        "a failure that was seen counts although the backlog stays",
        "parked at the last moment",
        "drained by somebody else",
        "a fetch that fails once",
    ],
)
def test_groups_get_their_verdicts_after_the_whole_wait(
    world: World, expected: tuple[Verdict, Verdict], at_least_seconds: float
) -> None:
    assert verdicts(world.observed()) == dict(zip("gh", expected, strict=True))
    assert world.now >= at_least_seconds


def test_wait_ends_early_when_every_group_has_failed() -> None:
    world = World(parked_at={"f-1": 20.0, "f-3": 40.0})

    assert set(verdicts(world.observed()).values()) == {FAILED}
    assert world.now == 40


def test_failures_within_the_threshold_pass_and_keep_their_errors() -> None:
    seen = World(parked_at={"f-1": 95.0}).observed(Share.of("50%"))

    assert seen.failures == {"g": {"f-1": "TimeoutError"}, "h": {}}
    assert verdicts(seen, Share.of("50%")) == {"g": PASSED, "h": PASSED}


NOT_ASKED = "^the main queue could not be asked for its backlog$"


@pytest.mark.parametrize(
    ("world", "reason", "at_least_seconds"),
    [
        (
            World(main_at=lambda _: waiting(4, 1)),
            "queue's backlog was not gone within 2 min 30 s: 4 messages wait and 1 are in flight$",
            0,
        ),
        (
            World(main_at=lambda now: waiting(3 * (now >= 100), 1)),
            "backlog was not gone within 2 min 30 s: 3 messages wait and 1 are in",
            100,
        ),
        (World(main_at=lambda now: waiting(9 * (now % 60 < 30))), "backlog came back 4 times", 0),
        (World(main_at=lambda now: NOTHING if now < 150 else None), NOT_ASKED, 150),
        (World(main_at=lambda _: None), NOT_ASKED, 0),
        (World(dead_at=lambda _: 3), r"is its replay function running\?", 150 + 120),
        (
            World(others=2, fetch_fails=lambda _: True),
            "^the parked queue could not be fetched: the disk is full$",
            0,
        ),
    ],
)
def test_what_cannot_be_observed_is_unknown(
    world: World, reason: str, at_least_seconds: float
) -> None:
    seen = world.observed()

    assert re.search(reason, seen.unknown)
    assert set(verdicts(seen).values()) == {UNKNOWN}
    assert world.now >= at_least_seconds


@pytest.mark.parametrize("stops_at", [0.0, 42.0])
def test_interruption_is_unknown(stops_at: float) -> None:
    world = World(stops_at=stops_at)

    seen = world.observed()

    assert seen.unknown == "interrupted"
    assert world.now <= stops_at + 5


def test_status_says_what_is_waited_for() -> None:
    world = World(main_at=lambda now: QueueCounts(1200, 3, 0) if now < 20 else NOTHING)
    watch = world.watch()
    said: list[str] = []

    def listen(_: float) -> bool:
        said.append(watch.status())
        return False

    world.fetch_fails = listen
    world.others = 1

    watch.run()

    assert said[0] == (
        "main queue: 1,200 waiting, 3 in flight; at most 3 min 28 s until its backlog is gone; "
        "0 of 3 came back"
    )
