"""Sixty days with twelve faults that are born, fixed and reborn: what each report calls them.

Messages are parked at once or days later. People resolve what they fixed, or only think that they
fixed, and say that it is not; they redrive some of it and leave the rest; some analyses are killed.
"""

import itertools
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import pytest

from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.archive.group_records import add_statement, read_memory, write_seen
from spark_reprocess.triage import Found, Outcome, Statement, Status, outcome

START = datetime(2026, 9, 1, tzinfo=UTC)
DAYS = 60
FAULTS = 12
DAY = timedelta(days=1)


@dataclass(eq=False)
class Failed:
    """A message that failed, and when it was parked."""

    fault: int
    parked_at: datetime


@dataclass
class World:
    """What really happens.

    Attributes:
        bad: by fault, the days on which the consumer has it.
        waiting: undecided messages, and those that are not parked yet.
        seen: messages that a finished analysis saw.
        resolved: by fault, since when people call it resolved.
        listed: faults that a finished analysis listed.
        present: those that the last one listed.
    """

    seed: int
    archive: Archive
    chance: Random = field(init=False)
    bad: list[set[int]] = field(default_factory=list)
    waiting: list[Failed] = field(default_factory=list)
    seen: list[Failed] = field(default_factory=list)
    resolved: dict[int, datetime] = field(default_factory=dict)
    listed: set[int] = field(default_factory=set)
    present: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.chance = Random(self.seed)
        for _ in range(FAULTS):
            # Born, fixed, reborn, fixed, and perhaps reborn again.
            turns = sorted(self.chance.sample(range(1, DAYS), self.chance.choice((2, 4, 5))))
            spans = itertools.zip_longest(turns[::2], turns[1::2], fillvalue=DAYS)
            self.bad.append({day for born, fixed in spans for day in range(born, fixed)})

    def live(self, day: int, now: datetime) -> None:
        """A day's failures, decisions and words."""
        for fault, bad in enumerate(self.bad):
            for _ in range(self.chance.randrange(4) if day in bad else 0):
                late = self.chance.choice((0.0, 0.0, 0.3, 2.5, 6.0)) + self.chance.random() / 9
                self.waiting.append(Failed(fault, now + late * DAY))
            if fault in self.present:
                self._care(fault, is_bad=day in bad, now=now)

    def _care(self, fault: int, *, is_bad: bool, now: datetime) -> None:
        """Resolve the fault, perhaps, and redrive some of its messages, perhaps."""
        is_resolved = None
        if self.chance.random() < (0.05 if is_bad else 0.4):
            is_resolved = True
            self.resolved[fault] = now
        elif self.chance.random() < 0.02:
            is_resolved = False
            self.resolved.pop(fault, None)
        if is_resolved is not None:
            said = Statement(now, "ada@desk", is_resolved=is_resolved)
            add_statement(self.archive, group_id(fault), said)
        if self.chance.random() < 0.3:
            share = self.chance.choice((0.5, 1.0))
            self.waiting = [
                one
                for one in self.waiting
                if one.fault != fault or one.parked_at > now or self.chance.random() >= share
            ]

    def analyze(self, now: datetime) -> tuple[Outcome, dict[int, list[Failed]]]:
        """An analysis; return what it says, and the undecided messages by fault."""
        parked: dict[int, list[Failed]] = {}
        for one in self.waiting:
            if one.parked_at <= now:
                parked.setdefault(one.fault, []).append(one)
        groups = [
            Found(group_id(fault), len(messages), max(one.parked_at for one in messages))
            for fault, messages in parked.items()
        ]
        return outcome(read_memory(self.archive), report_id(now), now, groups), parked

    def finish(self, now: datetime, result: Outcome, parked: dict[int, list[Failed]]) -> None:
        write_seen(self.archive, report_id(now), now, result.memory)
        self.seen += itertools.chain.from_iterable(parked.values())
        self.listed |= parked.keys()
        self.present = set(parked)

    def truth(self, fault: int, undecided: list[Failed]) -> Status:
        """What the report should say."""
        since = self.resolved.get(fault)
        if since is None:
            return Status.KNOWN if fault in self.listed else Status.NEW
        ever = [*undecided, *(one for one in self.seen if one.fault == fault)]
        is_back = any(one.parked_at > since for one in ever)
        return Status.REGRESSED if is_back else Status.RESOLVED


def group_id(fault: int) -> str:
    return f"g-{fault:010x}"


def report_id(now: datetime) -> str:
    return f"{now:%Y%m%dT%H%M%SZ}-aaaaaa"


@pytest.mark.parametrize("seed", range(3))
def test_every_transition_is_right_in_the_next_report(tmp_path: Path, seed: int) -> None:
    world = World(seed, open_archive(str(tmp_path)))
    told: set[Status] = set()
    for day in range(DAYS):
        now = START + day * DAY
        world.live(day, now)
        result, parked = world.analyze(now + DAY / 2)

        expected = {group_id(one): world.truth(one, messages) for one, messages in parked.items()}
        assert result.statuses == expected, f"day {day}"
        gone = {group_id(fault) for fault in world.present if fault not in parked}
        assert set(result.gone) == gone, f"day {day}"

        told.update(result.statuses.values(), [Status.GONE] if gone else [])
        is_killed = world.chance.random() < 0.15
        if not is_killed:
            world.finish(now + DAY / 2, result, parked)

    # The days were not idle: every word was used.
    assert told == set(Status)
