"""Why a task must stop: a stop marker in the archive, or a lock that nobody renews.

Tasks and driver share nothing but the archive. The driver, at Ctrl-C or at the end of its time
budget, or a task that met an error which concerns all tasks, writes
``ledger/plan_id=<id>/stop-<run_id>-<stage>``. Each task looks at the marker and
at the archive lock before each claim, and before each call when its last look is over a second old.
"""

import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from dlq.archive.ledger.claims import plan_folder
from dlq.archive.ledger.stop import Stop, StopCause, read_marker
from dlq.archive.lock import LockObserver, LockView, steady_seconds
from dlq.archive.storage.files import Archive
from dlq.archive.storage.records import record_bytes
from dlq.aws.clients import Limit
from dlq.errors import ArchiveError
from dlq.figures import duration

LOOK_SECONDS = 1.0
"""The age from which a look is repeated before a call."""


def waiting_for(limit: Limit) -> Stop | None:
    """Return why nothing may be sent under a limit of the circuit breaker; None if something may.

    At a limit of 1 nothing is sent: the consumer does not work.
    """
    return Stop(StopCause.BREAKER, limit.sentence) if limit.per_minute == 1 else None


def fallen(began_with: Limit, now: Limit) -> Stop | None:
    """Return why a send stops: the circuit breaker's limit is lower than when it began; else None.

    A task may be ahead of its share of the lower limit: a new run divides that one.
    """
    before = began_with.per_minute or math.inf
    after = now.per_minute or math.inf
    return Stop(StopCause.BREAKER, now.sentence) if after < before else None


class TableWatch:
    """The failure table, as the driver sees it while it sends to one destination.

    Safe to share between threads.
    """

    def __init__(
        self,
        read_limit: Callable[[], Limit],
        now_seconds: Callable[[], float],
        patience_seconds: float | None,
    ) -> None:
        """Begin with a table that was read just now.

        *patience_seconds*: how long nobody may be able to read it; None where that stops nothing.
        """
        self._read_limit = read_limit
        self._now_seconds = now_seconds
        self._patience_seconds = patience_seconds
        self._known_at = now_seconds()
        self._fault = ""

    @property
    def is_needed(self) -> bool:
        """True if nothing may be sent without the table."""
        return self._patience_seconds is not None

    def saw(self, fault: str) -> None:
        """Note a look at the table: *fault* is why it could not be read, empty if it could."""
        self._fault = fault
        if not fault:
            self._known_at = self._now_seconds()

    def limit(self) -> Limit:
        """Read the limit of the destination now."""
        limit = self._read_limit()
        self.saw(limit.fault)
        return limit

    def lost(self) -> Stop | None:
        """Return why nothing more may be sent: nobody could read the table for too long."""
        if self._patience_seconds is None or not self._fault:
            return None
        seconds = self._now_seconds() - self._known_at
        if seconds < self._patience_seconds:
            return None
        return Stop(
            StopCause.FAILURE_TABLE,
            f"it could not be read for {duration(seconds)}: {self._fault}",
        )

    def trouble(self, began_with: Limit) -> Stop | None:
        """Look once; return why a send that began with this limit must stop, else None."""
        return fallen(began_with, self.limit()) or self.lost()


@dataclass(frozen=True, slots=True)
class Clock:
    """The driver's time.

    Attributes:
        now_seconds: epoch seconds; goes on while the machine sleeps.
        wait: waits for an event, but no longer than a number of seconds.
    """

    now_seconds: Callable[[], float] = time.time
    wait: Callable[[threading.Event, float], object] = threading.Event.wait


@dataclass(frozen=True, slots=True)
class Deadline:
    """When a run ends by itself; without arguments never.

    Attributes:
        until_seconds: by the *clock*.
    """

    until_seconds: float = math.inf
    clock: Clock = Clock()

    @classmethod
    def after(cls, seconds: float | None, clock: Clock) -> "Deadline":
        """Return the deadline that is *seconds* from now; None for no deadline."""
        return cls(math.inf if seconds is None else clock.now_seconds() + seconds, clock)

    @property
    def seconds_left(self) -> float:
        """The time until then: infinite without a deadline, 0 or less when it is over."""
        return self.until_seconds - self.clock.now_seconds()


def stop_marker(plan_id: str, run_id: str, stage: str) -> str:
    """Return the path of the stop marker of one stage of a run. Its content is a ``Stop``."""
    return f"{plan_folder(plan_id)}/stop-{run_id}-{stage}"


class StopSignals:
    """The signals that a task checks before it claims or sends. Safe to share between threads.

    Attributes:
        stopped_by: why nothing more may be sent; None if all is well. Once set, it stays.
    """

    def __init__(
        self,
        archive: Archive,
        marker: str,
        lock: LockView | None,
        steady_seconds: Callable[[], float] = steady_seconds,
        is_abandoned: Callable[[], bool] = lambda: False,
    ) -> None:
        """Observe the stop *marker*, and the archive lock unless there is none.

        Args:
            archive: where they are.
            marker: see ``stop_marker``.
            lock: of the run.
            steady_seconds: goes on while the machine sleeps, so that a task looks before it goes
                on.
            is_abandoned: returns whether the engine does not wait for this task any more.
        """
        self._archive = archive
        self._marker = marker
        self._lock = lock and LockObserver(archive, lock, steady_seconds)
        self._steady_seconds = steady_seconds
        self._is_abandoned = is_abandoned
        self._looking = threading.Lock()
        self._looked_at = float("-inf")
        self._is_stopped = threading.Event()
        self.stopped_by: Stop | None = None

    def look(self) -> bool:
        """Look now; return whether the task may send."""
        with self._looking:
            if not self.stopped_by:
                stop = self._trouble()
                self._looked_at = self._steady_seconds()
                if stop:
                    self.stop_task(stop)
        return not self.stopped_by

    def may_go_on(self) -> bool:
        """Look again if the last look is too old; return whether the task may send."""
        age = self._steady_seconds() - self._looked_at
        return not self.stopped_by and (0 <= age < LOOK_SECONDS or self.look())

    def wait(self, seconds: float) -> None:
        """Wait, but no longer than the task may send."""
        until = self._steady_seconds() + seconds
        while self.may_go_on() and (left := until - self._steady_seconds()) > 0:
            self._is_stopped.wait(min(left, LOOK_SECONDS))

    def stop(self, stop: Stop) -> None:
        """Stop this task, and all others of the run. The first stop is the one that counts."""
        self.stop_task(stop)
        # Where the archive cannot be written, the other tasks meet the same error themselves.
        with suppress(ArchiveError):
            self._archive.create(self._marker, record_bytes(stop))

    def stop_task(self, stop: Stop) -> None:
        """Stop this task alone. The first stop is the one that counts."""
        self.stopped_by = self.stopped_by or stop
        self._is_stopped.set()

    def _trouble(self) -> Stop | None:
        if self._is_abandoned():
            return Stop(StopCause.INTERRUPTED)
        try:
            marker = self._archive.read(self._marker)
        except ArchiveError:
            # No news. The lock cannot be read either, so that the task stops before long.
            marker = None
        if marker is not None:
            return read_marker(marker)
        trouble = self._lock.trouble() if self._lock else ""
        return Stop(StopCause.LOCK_LOST, trouble) if trouble else None
