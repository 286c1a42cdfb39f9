"""Sixty days with twelve faults that are born, fixed and reborn: what each report calls them.

A release a day. A fault is in some of the releases. Messages fail on the release that runs, or for
some hours on the one before; they are parked at once, or days later. People resolve what they
fixed, or only think that they fixed, redrive some of it and leave the rest; some analyses are
killed. The world knows which release came when; the analysis knows only names of versions.
"""

import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.archive.group_events import add_event, read_memory, write_seen
from spark_reprocess.triage.events import EventKind, GroupEvent
from spark_reprocess.triage.status import FailedOn, Found, Outcome, Status, outcome

START = datetime(2026, 9, 1, tzinfo=UTC)
DAYS = 60
FAULTS = 12
DAY = timedelta(days=1)


def version_names(scheme: str, chance: Random) -> list[str | None]:
    """The name of each day's release, in the order of the releases."""
    match scheme:
        case "numbers":
            return [str(number) for number in range(5, 5 + DAYS)]
        case "semantic":
            return [f"v1.{n // 2}.0" if n % 2 else f"1.{n // 2}.0-rc.1" for n in range(DAYS)]
        case "commits":
            return [f"{chance.randrange(16**7):07x}x" for _ in range(DAYS)]
        case _:
            return [None] * DAYS


@dataclass(frozen=True)
class Failed:
    """A message that failed on the release of a day, and when it was parked."""

    fault: int
    release: int
    parked_at: datetime


@dataclass
class World:
    """What really happens.

    Attributes:
        bad: by fault, the releases that have it.
        waiting: undecided messages, and those that are not parked yet.
        seen: messages that a finished analysis saw.
        resolved: by fault, the release and the time of the last resolve.
        listed: faults that a finished analysis listed.
        present: those that the last one listed.
    """

    scheme: str
    seed: int
    archive: Archive
    chance: Random = field(init=False)
    bad: list[set[int]] = field(default_factory=list)
    waiting: list[Failed] = field(default_factory=list)
    seen: set[Failed] = field(default_factory=set)
    resolved: dict[int, tuple[int, datetime]] = field(default_factory=dict)
    listed: set[int] = field(default_factory=set)
    present: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.chance = Random(f"{self.scheme} {self.seed}")
        self.names = version_names(self.scheme, self.chance)
        for _ in range(FAULTS):
            # Born, fixed, reborn, fixed, and perhaps reborn again.
            turns = sorted(self.chance.sample(range(1, DAYS), self.chance.choice((2, 4, 5))))
            spans = itertools.zip_longest(turns[::2], turns[1::2], fillvalue=DAYS)
            self.bad.append({day for born, fixed in spans for day in range(born, fixed)})

    def live(self, day: int, now: datetime) -> None:
        """A day's failures, decisions and words."""
        for fault, bad in enumerate(self.bad):
            for _ in range(self.chance.randrange(4)):
                lags = self.chance.random() < 0.2
                release = max(0, day - 1) if lags else day
                if release in bad:
                    late = self.chance.choice((0.0, 0.0, 0.3, 2.5, 6.0)) + self.chance.random() / 9
                    self.waiting.append(Failed(fault, release, now + late * DAY))
            if fault in self.present or day - 1 in bad:
                self._care(fault, day, now)

    def _care(self, fault: int, day: int, now: datetime) -> None:
        """Resolve the fault in a release, and redrive some of its messages, perhaps."""
        said = self.resolved.get(fault)
        fixed = max((n for n in range(day + 1) if n - 1 in self.bad[fault]), default=0)
        if day in self.bad[fault]:
            # A fix that does not hold.
            fixed = day
        is_new = said is None or said[0] < fixed
        if is_new and self.chance.random() < (0.05 if day in self.bad[fault] else 0.4):
            self.resolved[fault] = (fixed, now)
            version = self.names[fixed] or "99"
            add_event(
                self.archive,
                GroupEvent(group_id(fault), EventKind.RESOLVED, now, "ada@desk", version=version),
            )
        if self.chance.random() < 0.3:
            share = self.chance.choice((0.5, 1.0))
            self.waiting = [
                one
                for one in self.waiting
                if one.fault != fault or one.parked_at > now or self.chance.random() >= share
            ]

    def analyze(self, day: int, now: datetime) -> tuple[Outcome, dict[int, list[Failed]]]:
        """An analysis; return what it says, and the undecided messages by fault."""
        parked: dict[int, list[Failed]] = {}
        for one in self.waiting:
            if one.parked_at <= now:
                parked.setdefault(one.fault, []).append(one)
        groups = []
        for fault, messages in parked.items():
            last: dict[str | None, datetime] = {}
            for one in messages:
                name = self.names[one.release]
                last[name] = max(one.parked_at, last.get(name, one.parked_at))
            times = [one.parked_at for one in messages]
            failed_on = tuple(FailedOn(name, 1, time) for name, time in last.items())
            groups.append(Found(group_id(fault), len(messages), min(times), max(times), failed_on))
        report_id = f"{now:%Y%m%dT%H%M%SZ}-aaaaaa"
        result = outcome(read_memory(self.archive), report_id, now, groups)
        return result, parked

    def finish(
        self, day: int, now: datetime, result: Outcome, parked: dict[int, list[Failed]]
    ) -> None:
        write_seen(self.archive, f"{now:%Y%m%dT%H%M%SZ}-aaaaaa", now, result.memory)
        self.seen.update(itertools.chain.from_iterable(parked.values()))
        self.listed |= parked.keys()
        self.present = set(parked)

    def truth(self, fault: int, undecided: list[Failed]) -> Status:
        """What the report should say, by the order in which releases really came."""
        said = self.resolved.get(fault)
        if said is None:
            if fault not in self.listed:
                return Status.NEW
            return Status.KNOWN if fault in self.present else Status.SEEN_AGAIN
        fixed, time = said
        if self.names[0] is None:
            is_back = any(one.parked_at > time for one in undecided)
            return Status.SEEN_AGAIN if is_back else Status.RESOLVED
        ever = [*undecided, *(one for one in self.seen if one.fault == fault)]
        is_back = any(one.release >= fixed for one in ever)
        return Status.REGRESSED if is_back else Status.RESOLVED


def group_id(fault: int) -> str:
    return f"g-{fault:010x}"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("scheme", ["numbers", "semantic", "none"])
def test_every_transition_is_right_in_the_next_report(
    tmp_path: Path, scheme: str, seed: int
) -> None:
    world = World(scheme, seed, open_archive(str(tmp_path)))
    told: set[Status] = set()
    for day in range(DAYS):
        now = START + day * DAY
        world.live(day, now)
        result, parked = world.analyze(day, now + DAY / 2)

        expected = {group_id(one): world.truth(one, messages) for one, messages in parked.items()}
        assert result.statuses == expected, f"day {day}"
        gone = {group_id(fault) for fault in world.present if fault not in parked}
        assert set(result.gone) == gone, f"day {day}"

        told.update(result.statuses.values(), [Status.GONE] if gone else [])
        is_killed = world.chance.random() < 0.15
        if not is_killed:
            world.finish(day, now + DAY / 2, result, parked)

    # The days were not idle: every word was used, regressed where there is an order.
    assert told == set(Status) - ({Status.REGRESSED} if scheme == "none" else set())


@pytest.mark.parametrize("seed", range(3))
def test_releases_ordered_by_first_sight_never_regress_but_where_sight_was_out_of_order(
    tmp_path: Path, seed: int
) -> None:
    world = World("commits", seed, open_archive(str(tmp_path)))
    regressed = 0
    for day in range(DAYS):
        now = START + day * DAY
        world.live(day, now)
        result, parked = world.analyze(day, now + DAY / 2)
        first_seen = result.memory.first_seen
        for fault, undecided in parked.items():
            status, truth = result.statuses[group_id(fault)], world.truth(fault, undecided)
            if status is truth:
                regressed += truth is Status.REGRESSED
            elif status is Status.REGRESSED:
                fixed = world.names[world.resolved[fault][0]]
                ever = {*undecided, *(one for one in world.seen if one.fault == fault)}
                names = {world.names[one.release] for one in ever}
                assert any(first_seen[one] > first_seen[fixed] for one in names if one and fixed), (
                    f"day {day}: {status}, not {truth}"
                )
            else:
                # No order is known, so it is at most seen again, and only by what came later.
                assert status in {Status.SEEN_AGAIN, Status.RESOLVED}
                time = world.resolved[fault][1]
                is_later = any(one.parked_at > time for one in undecided)
                assert is_later or status is Status.RESOLVED
        world.finish(day, now + DAY / 2, result, parked)

    assert regressed
