"""The loop on a clock of its own, over queues whose depth is a function of the time."""

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


def test_nothing_came_back_and_all_pass_after_the_whole_wait() -> None:
    world = World()

    seen = world.observed()

    assert verdicts(seen) == {"g": Verdict.PASSED, "h": Verdict.PASSED}
    assert world.now >= 60 + 150


def test_one_group_fails_and_the_other_passes() -> None:
    world = World(parked_at={"f-1": 95.0})

    seen = world.observed()

    assert {one: len(ids) for one, ids in seen.failures.items()} == {"g": 1, "h": 0}
    assert seen.failures == {"g": {"f-1": "TimeoutError"}, "h": {}}
    assert verdicts(seen) == {"g": Verdict.FAILED, "h": Verdict.PASSED}
    assert world.now >= 150


def test_wait_ends_early_when_every_group_has_failed() -> None:
    world = World(parked_at={"f-1": 20.0, "f-3": 40.0})

    assert set(verdicts(world.observed()).values()) == {Verdict.FAILED}
    assert world.now == 40


def test_failures_within_the_threshold_pass() -> None:
    seen = World(parked_at={"f-1": 95.0}).observed(Share.of("50%"))

    assert verdicts(seen, Share.of("50%")) == {"g": Verdict.PASSED, "h": Verdict.PASSED}


def test_backlog_that_never_goes_is_unknown() -> None:
    seen = World(main_at=lambda _: QueueCounts(4, 1, 0)).observed()

    assert seen.unknown == (
        "the main queue's backlog was not gone within 2 min 30 s: "
        "4 messages wait and 1 are in flight"
    )
    assert set(verdicts(seen).values()) == {Verdict.UNKNOWN}


def test_failure_that_was_seen_counts_although_the_backlog_never_goes() -> None:
    seen = World(main_at=lambda _: QueueCounts(4, 0, 0), parked_at={"f-1": 60.0}).observed()

    assert verdicts(seen) == {"g": Verdict.FAILED, "h": Verdict.UNKNOWN}


def test_wait_counts_from_the_end_of_the_backlog() -> None:
    world = World(main_at=lambda now: QueueCounts(9, 0, 0) if now < 100 else NOTHING)

    assert set(verdicts(world.observed()).values()) == {Verdict.PASSED}
    assert world.now >= 250


def test_backlog_that_comes_back_restarts_the_wait() -> None:
    world = World(main_at=lambda now: QueueCounts(9 if 100 <= now < 130 else 0, 0, 0))

    assert set(verdicts(world.observed()).values()) == {Verdict.PASSED}
    assert world.now >= 130 + 150


def test_backlog_that_comes_back_and_stays_is_unknown() -> None:
    world = World(main_at=lambda now: QueueCounts(3 if now >= 100 else 0, 1, 0))

    seen = world.observed()

    assert "backlog was not gone within 2 min 30 s: 3 messages wait and 1 are in" in seen.unknown
    assert seen.main_queue == QueueCounts(3, 1, 0)


def test_backlog_that_comes_back_again_and_again_is_unknown() -> None:
    world = World(main_at=lambda now: QueueCounts(9 if now % 60 < 30 else 0, 0, 0))

    assert "backlog came back 4 times" in world.observed().unknown


def test_counts_at_the_verdict_are_handed_on() -> None:
    assert World(main_at=lambda _: QueueCounts(0, 7, 1)).observed().main_queue == QueueCounts(
        0, 7, 1
    )


def test_main_queue_that_cannot_be_asked_any_more_is_unknown() -> None:
    seen = World(main_at=lambda now: NOTHING if now < 150 else None).observed()

    assert seen.unknown == "the main queue could not be asked for its backlog"
    assert set(verdicts(seen).values()) == {Verdict.UNKNOWN}


def test_main_queue_that_cannot_be_asked_is_unknown() -> None:
    seen = World(main_at=lambda _: None).observed()

    assert seen.unknown == "the main queue could not be asked for its backlog"


def test_dead_letters_that_nobody_parks_are_unknown() -> None:
    world = World(dead_at=lambda _: 3)

    seen = world.observed()

    assert "is its replay function running?" in seen.unknown
    assert world.now >= 150 + 120


def test_canary_that_is_parked_at_the_last_moment_counts() -> None:
    world = World(
        dead_at=lambda now: 1 if now < 200 else 0,
        parked_at={"f-3": 200.0},
    )

    assert verdicts(world.observed()) == {"g": Verdict.PASSED, "h": Verdict.FAILED}


def test_canary_that_somebody_else_drained_counts() -> None:
    world = World(parked_at={"f-3": 90.0}, archived={"f-3"})

    assert verdicts(world.observed()) == {"g": Verdict.PASSED, "h": Verdict.FAILED}


def test_parked_queue_that_cannot_be_fetched_is_unknown() -> None:
    seen = World(others=2, fetch_fails=lambda _: True).observed()

    assert seen.unknown == "the parked queue could not be fetched: the disk is full"


def test_fetch_that_fails_once_is_made_good() -> None:
    world = World(parked_at={"f-1": 20.0}, fetch_fails=lambda now: now < 100)

    assert verdicts(world.observed()) == {"g": Verdict.FAILED, "h": Verdict.PASSED}


def test_other_parked_messages_are_fetched_and_not_counted() -> None:
    world = World(others=500)

    assert world.observed().failures == {"g": {}, "h": {}}
    assert world.fetches >= 1


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
