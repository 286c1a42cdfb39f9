"""How fast a run may send while a circuit breaker of its destination is not closed.

The driver reads the breakers of the run's destinations every ten seconds, and writes what follows
from them to ``ledger/plan_id=<id>/pace-<run_id>``. Tasks look there before each chunk: they need no
right on the table. Where the table cannot be read, nothing is slowed down.
"""

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol

from dlq_replay.addresses import QueueAddress
from dlq_replay.breaker import (
    UNKNOWN_ERROR,
    BreakerRules,
    BreakerState,
    Phase,
    closing,
    ramp_step,
)
from dlq_replay.breaker_worker import OTHER_ERRORS
from dlq_replay.errors import BreakerTableError
from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.ledger import plan_folder
from spark_reprocess.errors import ArchiveError
from spark_reprocess.figures import minute
from spark_reprocess.redrive.stop_signals import StopSignals

READ_SECONDS = 10.0
LOOK_SECONDS = 2.0
"""How often the driver reads the table, and how often a task that waits looks again."""

UNWATCHED_SECONDS = 600
"""A breaker that is open although nobody has sent a probe for so long: no dead letter is left that
could be one. Then a run sends slowly, and what comes of it moves the breaker on."""

_RAMP_SHARE = 0.5
"""The part of a ramp's limit that a run takes; replays take the other."""


class Breakers(Protocol):
    """The breakers of one queue. ``breaker_table.DynamoDbBreakers`` is one."""

    def read(self, names: Iterable[str]) -> tuple[frozenset[str], Mapping[str, BreakerState]]:
        """Read the error types that have a breaker, their breakers, and those of *names*.

        Raises BreakerTableError where the table is missing, refuses or does not answer.
        """


def messages_per_second(state: BreakerState, now_seconds: int, rules: BreakerRules) -> float | None:
    """How fast a run may send messages that one breaker guards: 0 is not at all, None no limit."""
    slow = rules.ramp_min_count / rules.slot_seconds * _RAMP_SHARE
    match state.phase:
        case Phase.CLOSED:
            return None
        case Phase.OPEN:
            probed_at = max(state.numbers.get(one, 0) for one in ("opened_at", "probe_at"))
            is_over = closing(state, now_seconds, rules) is not None
            return slow if is_over or now_seconds - probed_at > UNWATCHED_SECONDS else 0.0
        case Phase.RAMP:
            step = ramp_step(state, now_seconds, rules)
            if step is not None and not step.put:
                # The ramp is over; the next batch of the replay function will say so.
                return None
            return state.numbers["ramp"] / rules.slot_seconds * _RAMP_SHARE


@dataclass(frozen=True, slots=True)
class Pace:
    """What the breakers of one queue allow a run.

    Attributes:
        types: error types with a breaker of their own; others share one.
        per_second: messages a second over all tasks, by the name of a breaker that is not closed.
        open_since: epoch seconds, by the name of an open breaker.
    """

    types: frozenset[str] = frozenset()
    per_second: Mapping[str, float] = field(default_factory=dict)
    open_since: Mapping[str, int] = field(default_factory=dict)

    def limit(self, error_types: Iterable[str | None]) -> float | None:
        """The lowest rate of messages that failed with these types; None for no limit."""
        known = {*self.types, UNKNOWN_ERROR}
        names = {
            one if one in known else OTHER_ERRORS
            for one in (error_type or UNKNOWN_ERROR for error_type in error_types)
        }
        limits = [self.per_second[name] for name in names if name in self.per_second]
        return min(limits, default=None)

    def sentences(self, queue: str) -> list[str]:
        """Say which breakers hold messages up, one sentence each."""
        return [
            f"messages of {queue} that failed with {name}: its circuit breaker is open since "
            f"{minute(datetime.fromtimestamp(self.open_since[name], UTC))} UTC: they wait until it "
            "closes"
            for name, per_second in self.per_second.items()
            if per_second == 0
        ]


def read_pace(table: Breakers, now_seconds: int, rules: BreakerRules) -> Pace:
    """Read the breakers of a queue.

    Raises:
        BreakerTableError: the table is missing, refuses or does not answer.
    """
    types, states = table.read({UNKNOWN_ERROR, OTHER_ERRORS})
    limits = {
        name: messages_per_second(state, now_seconds, rules) for name, state in states.items()
    }
    return Pace(
        types,
        {name: limit for name, limit in limits.items() if limit is not None},
        {name: one.numbers["opened_at"] for name, one in states.items() if one.phase is Phase.OPEN},
    )


class PaceWatch:
    """The driver's part: reads the breakers of the destinations, and writes the pace."""

    def __init__(
        self,
        archive: Archive,
        path: str,
        tables: Mapping[str, Breakers],
        rules: BreakerRules,
        now_seconds: Callable[[], float] = time.time,
    ) -> None:
        """Watch *tables*, by the URL of the queue that each has the breakers of."""
        self._archive, self.path, self._tables = archive, path, tables
        self._rules, self._now_seconds = rules, now_seconds
        self._paces: Mapping[str, Pace] = {}
        self._fault = ""

    def read(self) -> None:
        """Read the breakers. Never raises for what the table does."""
        now = int(self._now_seconds())
        try:
            self._paces = {
                url: read_pace(table, now, self._rules) for url, table in self._tables.items()
            }
            self._fault = ""
        except BreakerTableError as error:
            self._paces, self._fault = {}, str(error)

    def write(self) -> None:
        """Write the pace for the tasks. Never raises for what the archive does."""
        paces = {
            url: {
                "types": sorted(pace.types),
                "per_second": pace.per_second,
                "open_since": pace.open_since,
            }
            for url, pace in self._paces.items()
        }
        # Tasks go on with the pace before; an archive that cannot be written ends the run anyway.
        with suppress(ArchiveError):
            self._archive.write(self.path, json.dumps({"queues": paces}).encode())

    def sentences(self) -> list[str]:
        """Say what holds messages up now, or why that is not known; empty if nothing does."""
        if self._fault:
            return [f"the circuit breakers are not known, and slow nothing down: {self._fault}"]
        return [
            sentence
            for url, pace in self._paces.items()
            for sentence in pace.sentences(QueueAddress.from_url(url).name)
        ]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Read and write every ten seconds until the block ends."""
        is_over = threading.Event()

        def go_on() -> None:
            while not is_over.wait(READ_SECONDS):
                self.read()
                self.write()

        self.read()
        self.write()
        thread = threading.Thread(target=go_on, name="pace", daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()


class Pacer:
    """A task's part: waits before a chunk for as long as the pace asks for. For one thread."""

    def __init__(
        self,
        archive: Archive,
        path: str | None,
        destination: str,
        tasks: int,
        now_seconds: Callable[[], float] = time.time,
    ) -> None:
        """Keep the pace at *path*, as one of *tasks* that send to *destination*; None for none."""
        self._archive, self._path, self._destination = archive, path, destination
        self._tasks, self._now_seconds = tasks, now_seconds
        self._pace = Pace()
        self._looked_at = self._sent_at = float("-inf")

    def wait(self, error_types: Sequence[str | None], signals: StopSignals) -> bool:
        """Wait until a chunk of messages with these error types may go; False if it must not.

        At a limit, a chunk goes only after the time that the chunk before it stands for.
        """
        while not self._is_due(error_types):
            signals.wait(LOOK_SECONDS)
            if signals.stopped_by:
                return False
        self._sent_at = self._now_seconds()
        return True

    def _is_due(self, error_types: Sequence[str | None]) -> bool:
        limit = self._limit(error_types)
        if limit is None:
            return True
        age = self._now_seconds() - self._sent_at
        return limit > 0 and age * limit >= len(error_types) * self._tasks

    def _limit(self, error_types: Sequence[str | None]) -> float | None:
        if self._path is None:
            return None
        now = self._now_seconds()
        if not 0 <= now - self._looked_at < LOOK_SECONDS:
            self._looked_at = now
            # What cannot be read changes nothing: the pace before stays.
            with suppress(ArchiveError, ValueError, KeyError, TypeError, AttributeError):
                self._pace = _parse(self._archive.read(self._path), self._destination)
        return self._pace.limit(error_types)


def pace_path(plan_id: str, run_id: str) -> str:
    """Return the path of a run's pace."""
    return f"{plan_folder(plan_id)}/pace-{run_id}"


def _parse(content: bytes | None, destination: str) -> Pace:
    raw = json.loads(content or b"{}").get("queues", {}).get(destination)
    if raw is None:
        return Pace()
    return Pace(frozenset(raw["types"]), raw["per_second"], raw["open_since"])
