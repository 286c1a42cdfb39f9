"""The plan lock: at most one plan acts on an archive at a time; runs of one plan share it.

The ledger's claims keep two runs of one plan apart, chunk by chunk. Two plans cut the same messages
into different chunks, so no claim of one plan stops the other. An erase removes files that others
read. So a redrive, a restore and an erase hold this lock. An analysis holds it, too, and conflicts
with an erase alone: else a report could quote a message that was erased while it was written.

``locks/000007.json`` says who holds the lock for what, and until when it counts as alive. Numbers
count up from 1. Its holder writes it anew every tenth of its life, and a last time, with ``ended``,
on release. ``locks/000007.end.json`` spares later runs to read it.

To take the lock, a run reads all locks that were not released. If one of them is alive and
conflicts, the run is refused. Otherwise it creates the next number, if absent. If another run has
created that number in the meantime, it reads that one file, and is refused or tries the number
after it. So a run that creates a number has checked every smaller one. Of several that conflict and
start together, the first to create a number gets the lock, and those that share take the numbers
after it.

A lock that is over never gets alive again: its holder does not renew it after its life. A process
that dies, even right after it created its file, counts as alive until then. Takers compare the
times in the files with their own clocks. If a clock is wrong and a lock is taken too early, the
earlier holder and its tasks find a conflicting lock with a greater number, and stop.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime

from spark_reprocess.archive.ledger.claims import timestamp
from spark_reprocess.archive.storage.files import Archive
from spark_reprocess.archive.storage.records import damage_named, record_bytes, record_of
from spark_reprocess.errors import ArchiveError, BusyError
from spark_reprocess.progress import repeating

LOCK_SECONDS = 120.0
"""The life of a lock without a renewal. Its run stops after half of that."""

ANALYZE = "analyze"
"""The claims of every analysis."""

_LOCKS = "locks"
_ERASE = "erase "
_END = ".end.json"
_NUMBER = re.compile(rf"{_LOCKS}/(\d+)\.(end\.)?json")
_RENEWALS = 10
"""How often a run renews its lock in the life of the lock."""


@dataclass(frozen=True, slots=True)
class LockHolder:
    """A run that acts on an archive's messages.

    Attributes:
        claims: what its claims are filed under. Runs with the same value share the lock.
        what: for people, ``plan p-1`` for one.
    """

    run_id: str
    claims: str
    what: str
    who: str


def erase_holder(erase_id: str, who: str) -> LockHolder:
    """Return the holder for an erase. Its claims are its own, so it does not share the lock."""
    return LockHolder(erase_id, f"{_ERASE}{erase_id}", "an erase", who)


@dataclass(frozen=True, slots=True)
class LockView:
    """What a task needs to observe its run's lock, which lives *lock_seconds* without a renewal."""

    number: int
    claims: str
    lock_seconds: float

    @property
    def path(self) -> str:
        """The path of the file that the run renews."""
        return _path(self.number)


class PlanLock:
    """A lock that is held, for one thread beside that which renews it; see ``plan_lock``."""

    def __init__(
        self,
        archive: Archive,
        holder: LockHolder,
        lock_seconds: float,
        now_seconds: Callable[[], float],
    ) -> None:
        """Take the lock; raise BusyError if a lock that conflicts is alive."""
        self._archive = archive
        self._holder = holder
        self._lock_seconds = lock_seconds
        self._now_seconds = now_seconds
        self._since = self._renewed_at = now_seconds()
        self.view = LockView(self._take(), holder.claims, lock_seconds)
        """What the run's tasks need to observe the lock."""
        self._observer = LockObserver(archive, self.view, now_seconds)

    def require(self) -> None:
        """Raise ArchiveError if the run must stop: another one has begun, or may have begun."""
        trouble, age = self._observer.trouble(), self._age()
        if not trouble and age >= self._lock_seconds / 2:
            trouble = f"{self.view.path} was not renewed for {age:.0f} s"
        if trouble:
            raise ArchiveError(
                f"archive {self._archive.root}: {trouble}: run the same command again"
            )

    def renew(self) -> None:
        """Extend the lock's life from now, unless it is over."""
        now = self._now_seconds()
        if self._age() >= self._lock_seconds:
            return
        self._archive.write(self.view.path, self._content(now))
        # A write that ended too late does not count: another run may have begun before its end.
        if self._age() < self._lock_seconds:
            self._renewed_at = now

    def release(self) -> None:
        """Let others take the lock. If that cannot be written, the lock's life ends by itself."""
        now = self._now_seconds()
        with suppress(ArchiveError):
            self._archive.write(self.view.path, self._content(now, timestamp(now)))
            self._archive.write(_end_path(self.view.path), b"")

    def _take(self) -> int:
        number, paths = _open_locks(self._archive)
        for path in paths:
            self._require_no_conflict(path)
        while True:
            number += 1
            self._renewed_at = self._now_seconds()
            if self._archive.create(_path(number), self._content(self._renewed_at)):
                return number
            self._require_no_conflict(_path(number))

    def _require_no_conflict(self, path: str) -> None:
        other = _read(self._archive, path)
        if other is None or not _conflict(other.holder, self._holder.claims):
            return
        if other.is_alive(self._now_seconds()):
            raise BusyError(
                f"{other.holder.what} is being carried out by {other.holder.who} since "
                f"{other.since} (run {other.holder.run_id}); it acts on the same messages, so this "
                "run has to wait for its end. If it was killed, it counts as dead from "
                f"{other.alive_until} on"
            )

    def _content(self, now: float, ended: str | None = None) -> bytes:
        until = timestamp(now + self._lock_seconds)
        return record_bytes(_Lock(self._holder, timestamp(self._since), until, ended))

    def _age(self) -> float:
        return self._now_seconds() - self._renewed_at


@contextmanager
def plan_lock(
    archive: Archive,
    holder: LockHolder,
    lock_seconds: float = LOCK_SECONDS,
    now_seconds: Callable[[], float] = time.time,
) -> Iterator[PlanLock]:
    """Hold the plan lock until the block ends. A thread renews it.

    Raises:
        BusyError: a run that conflicts holds it. The sentence says who does what, since when, and
            from when on it counts as dead if it was killed. Nothing was written.
    """
    lock = PlanLock(archive, holder, lock_seconds, now_seconds)

    def renew() -> None:
        # The next renewal may succeed. Until then the lock's age grows.
        with suppress(ArchiveError):
            lock.renew()

    try:
        # A renewal that is written after the release would undo it.
        with repeating(renew, lock_seconds / _RENEWALS, "plan lock"):
            yield lock
    finally:
        lock.release()


def running(archive: Archive, now_seconds: float) -> set[str]:
    """Return the ids of the runs that hold the plan lock."""
    _, paths = _open_locks(archive)
    locks = filter(None, [_read(archive, path) for path in paths])
    return {lock.holder.run_id for lock in locks if lock.is_alive(now_seconds)}


class LockObserver:
    """Observes whether a run still holds the lock. For one thread at a time."""

    def __init__(
        self, archive: Archive, view: LockView, now_seconds: Callable[[], float] = time.time
    ) -> None:
        """Count the lock as renewed at this moment."""
        self._archive = archive
        self._view = view
        self._now_seconds = now_seconds
        self._next = view.number + 1
        self._seen: _Lock | None = None
        self._renewed_at = now_seconds()

    def trouble(self) -> str:
        """Return why the run must stop; empty if it need not. Costs two small reads.

        The clocks of machines differ: the lock counts as renewed when this observer sees that the
        file has changed. A read that fails shows no renewal.
        """
        reason = ""
        with suppress(ArchiveError):
            reason = self._observe()
        age = self._now_seconds() - self._renewed_at
        if reason or age < self._view.lock_seconds / 2:
            return reason
        return f"the driver has not renewed {self._view.path} for {age:.0f} s"

    def _observe(self) -> str:
        # A newer lock that conflicts, alive or not, took the place of this one.
        while newer := _read(self._archive, path := _path(self._next)):
            if _conflict(holder := newer.holder, self._view.claims):
                return (
                    f"another run has taken the lock ({path}: {holder.what} by {holder.who}), "
                    "because this run seemed dead"
                )
            self._next += 1
        lock = _read(self._archive, self._view.path)
        if lock and lock.ended is not None:
            return f"{self._view.path} says that the run has ended"
        if lock and lock != self._seen:
            self._seen, self._renewed_at = lock, self._now_seconds()
        return ""


@dataclass(frozen=True, slots=True)
class _Lock:
    """What a file says. Times are ISO 8601, UTC; *ended* is None before the release."""

    holder: LockHolder
    since: str
    alive_until: str
    ended: str | None = None

    def is_alive(self, now_seconds: float) -> bool:
        """Whether the holder may be acting."""
        until = datetime.fromisoformat(self.alive_until).timestamp()
        return self.ended is None and now_seconds < until


def _conflict(holder: LockHolder, claims: str) -> bool:
    """Whether two holders must not act at the same time."""
    both = {holder.claims, claims}
    if ANALYZE in both:
        return any(one.startswith(_ERASE) for one in both)
    return len(both) > 1


def _open_locks(archive: Archive) -> tuple[int, list[str]]:
    """Return the greatest number that was taken, and the paths of what was not released."""
    listed = archive.list(_LOCKS)
    numbers = (int(found[1]) for path in listed if (found := _NUMBER.fullmatch(path)))
    last = max(numbers, default=0)
    # A folder may be listed without a file that is created meanwhile, but no number is left out.
    paths = map(_path, range(1, last + 1))
    return last, [path for path in paths if _end_path(path) not in listed]


def _read(archive: Archive, path: str) -> _Lock | None:
    if (content := archive.read(path)) is None:
        return None
    with damage_named(archive, path, advice="if no run is going on, remove it"):
        lock = record_of(_Lock, json.loads(content))
        lock.is_alive(0)
        return lock


def _path(number: int) -> str:
    return f"{_LOCKS}/{number:06d}.json"


def _end_path(path: str) -> str:
    return path.removesuffix(".json") + _END
