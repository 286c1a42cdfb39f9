"""The archive lock: one run at a time acts on an archive.

A redrive, a restore and an erase hold this lock, and each excludes all others, also a run of the
same plan. An analysis holds it, too, and conflicts with an erase alone: otherwise a report could
quote a message that was erased while the report was written.

A run that lost the lock may not have noticed: its tasks are on other machines, and a machine may
sleep. So a run that takes the lock to act writes ``closing`` for every run that has not ended, of
every plan, before it reads any claim. ``claims`` describes what a task does then. A run also looks
for a newer lock after it has written its record, see ``require_newest``. So if a run lost the lock,
either its record was found and the run was closed, or it finds the newer lock, and claims nothing.

``locks/000007.json`` names the holder of a lock and its use. Numbers count up from 1. The holder
writes the file again every tenth of its life, and a last time, with ``ended``, on release. Later
runs need not read a lock with a file ``locks/000007.end.json``.

To take the lock, a run does this:

1. It reads all locks that were not released, and watches those that conflict. If one of them is
   renewed, the run is refused. A lock that stays the same for its whole life, by the clock of the
   run that watches, is dead.
2. When all that conflict are released or dead, it creates the next number, by create-if-absent.
3. If another run has created that number in the meantime, it watches that one in the same way, and
   is refused or tries the number after it.

So a run that creates a number has checked every smaller one. Of several that conflict and start
together, the first to create a number gets the lock. Runs that do not conflict with it take the
numbers after it.

No code compares times of two machines. A dead lock stays dead: its holder does not renew it after
its life, by its own clock. If a lock is taken too early in spite of that, the earlier holder and
its tasks find a conflicting lock with a greater number, and stop.
"""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, StrEnum, auto

from dlq.archive.ledger.claims import close_open_runs, timestamp
from dlq.archive.storage.files import Archive
from dlq.archive.storage.records import damage_named, record_bytes, record_of
from dlq.errors import ArchiveError, BusyError
from dlq.progress import Progress, repeating, silent

LOCK_SECONDS = 120.0
"""The life of a lock without a renewal: a run that waits for it watches it this long before it is
dead. The run that holds it stops after half of that."""

_LOCKS = "locks"
_END = ".end.json"
_NUMBER = re.compile(rf"{_LOCKS}/(\d+)\.(end\.)?json")
_RENEWALS = 10
"""The number of renewals in the life of a lock."""

_LOOKS = 4 * _RENEWALS
"""The number of looks in that time by a run that waits for the lock."""


def steady_seconds() -> float:
    """Return the seconds since some moment. This clock cannot be set.

    It goes on while the machine sleeps: a run that wakes up sees that its lock is old.
    """
    # On Linux, and only there, the monotonic clock stops while the machine sleeps.
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


@dataclass(frozen=True, slots=True)
class LockClock:
    """The time of the machine that takes and holds a lock.

    Attributes:
        steady_seconds: seconds since any moment; all decisions use this clock.
        sleep: waits for a number of seconds.
        now_seconds: epoch seconds, for people alone.
    """

    steady_seconds: Callable[[], float] = steady_seconds
    sleep: Callable[[float], object] = time.sleep
    now_seconds: Callable[[], float] = time.time


_CLOCK = LockClock()


class LockUse(StrEnum):
    """Purpose of a lock. The values are stored."""

    ANALYZE = "analyze"
    SEND = "send"
    ERASE = "erase"


@dataclass(frozen=True, slots=True)
class LockHolder:
    """Holder of a lock.

    Attributes:
        purpose: the work for people, for example ``plan p-1``.
        who: the person.
    """

    run_id: str
    use: LockUse
    purpose: str
    who: str


@dataclass(frozen=True, slots=True)
class LockView:
    """Data by which a task observes its run's lock, which lives *lock_seconds* without renewal."""

    number: int
    use: LockUse
    lock_seconds: float

    @property
    def path(self) -> str:
        """The path of the file that the run renews."""
        return _path(self.number)


class ArchiveLock:
    """A lock that is held, for one thread and a second one that renews it: see ``archive_lock``."""

    def __init__(
        self,
        archive: Archive,
        holder: LockHolder,
        lock_seconds: float = LOCK_SECONDS,
        clock: LockClock = _CLOCK,
        progress: Progress = silent,
    ) -> None:
        """Take the lock; raise BusyError if one that conflicts is alive. See ``archive_lock``."""
        self._archive = archive
        self._holder = holder
        self._lock_seconds = lock_seconds
        self._clock = clock
        self._progress = progress
        self._changing = threading.RLock()
        self._is_held = False
        self._hold()

    def _hold(self) -> None:
        """Take the lock, under a number of its own, and close the runs that have not ended."""
        self._since = timestamp(self._clock.now_seconds())
        self._renewed_at = self._clock.steady_seconds()
        self._renewals = 0
        self.view = LockView(self._take(), self._holder.use, self._lock_seconds)
        """For the run's tasks."""
        self._observer = LockObserver(self._archive, self.view, self._clock.steady_seconds)
        self._is_held = True

    @property
    def is_held(self) -> bool:
        """True until it is released."""
        return self._is_held

    def take_again(self) -> None:
        """Take the lock again after ``release``; as ``archive_lock`` does. Tasks need a new view.

        Raises:
            BusyError: a run that conflicts holds it.
            ArchiveError: the lock, or the marker of a run, cannot be written.
        """
        self._hold()
        self.close_others()

    def close_others(self) -> None:
        """Close all other runs that have not ended; for an analysis do nothing."""
        if self._holder.use is not LockUse.ANALYZE:
            close_open_runs(self._archive, own_run_id=self._holder.run_id)

    def require(self) -> None:
        """Raise ArchiveError if the run must stop: another one has begun, or may have begun."""
        trouble = self._observer.trouble()
        age = self._age()
        if not trouble and age >= self._lock_seconds / 2:
            trouble = f"{self.view.path} was not renewed for {age:.0f} s"
        if trouble:
            raise ArchiveError(
                f"archive {self._archive.root}: {trouble}: run the same command again"
            )

    def renew(self) -> None:
        """Extend the lock's life from now, unless it is over, or the lock was released."""
        with self._changing:
            if self._is_held:
                self._renew()

    def _renew(self) -> None:
        now = self._clock.steady_seconds()
        if self._age() >= self._lock_seconds:
            return
        self._renewals += 1
        self._archive.write(self.view.path, self._content())
        # A write that ended too late does not count: another run may have begun before its end.
        if self._age() < self._lock_seconds:
            self._renewed_at = now

    def release(self) -> None:
        """Let others take the lock. If that cannot be written, the lock's life ends by itself.

        No renewal is written after that: it would undo the release. Safe to repeat.
        """
        with self._changing:
            if not self._is_held:
                return
            self._is_held = False
            ended = timestamp(self._clock.now_seconds())
            with suppress(ArchiveError):
                self._archive.write(self.view.path, self._content(ended))
                self._archive.write(_end_path(self.view.path), b"")

    def _take(self) -> int:
        number, paths = _open_locks(self._archive)
        dead = self._wait_for(paths)
        while True:
            number += 1
            self._renewed_at = self._clock.steady_seconds()
            if self._archive.create(_path(number), self._content()):
                break
            dead += self._wait_for([_path(number)])

        for path in dead:
            # The next run need not watch it again. If this cannot be written, it does.
            with suppress(ArchiveError):
                self._archive.write(_end_path(path), b"")
        return number

    def _wait_for(self, paths: Sequence[str]) -> list[str]:
        """Watch those of these locks that conflict, until all are released or dead.

        Returns:
            The paths of the dead ones.

        Raises:
            BusyError: one of them is alive.
        """
        watched = dict[str, _Lock]()
        for path in paths:
            lock = _read(self._archive, path)
            if lock is None or lock.ended is not None:
                continue
            if _conflict(lock.holder.use, self._holder.use):
                watched[path] = lock
        if not watched:
            return []
        began_at = self._clock.steady_seconds()

        def status() -> str:
            # Another thread calls this, so "watched" may change meanwhile.
            lock = next(iter(list(watched.values())), None)
            if lock is None:
                return ""
            seconds = max(0, lock.lock_seconds - (self._clock.steady_seconds() - began_at))
            return (
                f"{lock.holder.purpose} by {lock.holder.who} (run {lock.holder.run_id}) holds the "
                f"archive lock, and counts as dead if it does not renew it for {seconds:.0f} s more"
            )

        dead = list[str]()
        with self._progress("waiting", status):
            while watched:
                dead += self._look(watched, began_at)
                if watched:
                    life_seconds = min(lock.lock_seconds for lock in watched.values())
                    self._clock.sleep(life_seconds / _LOOKS)
        return dead

    def _look(self, watched: dict[str, "_Lock"], began_at: float) -> list[str]:
        """Remove the locks that are released or dead from *watched*; return the dead ones."""
        dead = list[str]()
        for path, lock in list(watched.items()):
            # Before the read: the lock has stayed the same for at least this long.
            unchanged_seconds = self._clock.steady_seconds() - began_at
            match life_of(lock, _read(self._archive, path), unchanged_seconds):
                case Life.ALIVE:
                    raise BusyError(
                        f"{lock.holder.purpose} is being carried out by {lock.holder.who} since "
                        f"{lock.since} (run {lock.holder.run_id}); it acts on the same messages, "
                        "so this run has to wait for its end"
                    )
                case Life.DEAD:
                    dead.append(path)
                    del watched[path]
                case Life.ENDED:
                    del watched[path]
        return dead

    def _content(self, ended: str | None = None) -> bytes:
        lock = _Lock(
            holder=self._holder,
            since=self._since,
            lock_seconds=self._lock_seconds,
            renewals=self._renewals,
            ended=ended,
        )
        return record_bytes(lock)

    def _age(self) -> float:
        return self._clock.steady_seconds() - self._renewed_at


@contextmanager
def archive_lock(
    archive: Archive,
    holder: LockHolder,
    lock_seconds: float = LOCK_SECONDS,
    clock: LockClock = _CLOCK,
    progress: Progress = silent,
) -> Iterator[ArchiveLock]:
    """Hold the archive lock until the block ends. A thread renews it.

    If a run that conflicts has not released it, this waits until that run renews it (a tenth of its
    life at most) or is dead (after its whole life). *progress* shows this meanwhile.

    All runs that have not ended are closed when the block begins. An analysis closes none: it reads
    claims and makes none.

    Raises:
        BusyError: a run that conflicts holds it. The sentence names the person, the work and the
            time when it began. Nothing was written.
        ArchiveError: the lock, or the marker of a run, cannot be written.
    """
    lock = ArchiveLock(archive, holder, lock_seconds, clock, progress)

    def renew() -> None:
        # The next renewal may succeed. Until then the lock's age grows.
        with suppress(ArchiveError):
            lock.renew()

    try:
        # A renewal that is written after the release would undo it.
        with repeating(renew, lock_seconds / _RENEWALS, "archive lock"):
            lock.close_others()
            yield lock
    finally:
        lock.release()


def require_newest(archive: Archive, view: LockView) -> None:
    """Raise ArchiveError if another run has taken the lock, or if that cannot be read.

    A run calls this after it has written its record. A run that took the lock before may not have
    seen the record, so this run must not make a claim then.
    """
    _, taken_by = _newer_lock(archive, view.use, view.number + 1)
    if taken_by:
        raise ArchiveError(f"archive {archive.root}: {taken_by}: run the same command again")


def _newer_lock(archive: Archive, use: LockUse, number: int) -> tuple[int, str]:
    """Look for a conflicting lock from *number* on, alive or not: it took the place of this one.

    Returns:
        The number of that lock, and a sentence that names its holder. If there is none, the first
        unused number, and an empty text.
    """
    while newer := _read(archive, _path(number)):
        if _conflict(newer.holder.use, use):
            who = f"{_path(number)}: {newer.holder.purpose} by {newer.holder.who}"
            return number, f"another run has taken the lock ({who}), because this run seemed dead"
        number += 1
    return number, ""


class LockObserver:
    """Observes whether a run still holds the lock. For one thread at a time."""

    def __init__(
        self,
        archive: Archive,
        view: LockView,
        steady_seconds: Callable[[], float] = steady_seconds,
    ) -> None:
        """Count the lock as renewed at this moment."""
        self._archive = archive
        self._view = view
        self._steady_seconds = steady_seconds
        self._next = view.number + 1
        self._seen: _Lock | None = None
        self._renewed_at = steady_seconds()

    def trouble(self) -> str:
        """Return why the run must stop; empty if it need not. Makes two small reads.

        The clocks of machines differ: the lock counts as renewed when this observer sees that the
        file has changed. A read that fails shows no renewal.
        """
        reason = ""
        with suppress(ArchiveError):
            reason = self._observe()
        age = self._steady_seconds() - self._renewed_at
        if reason or age < self._view.lock_seconds / 2:
            return reason
        return f"the driver has not renewed {self._view.path} for {age:.0f} s"

    def _observe(self) -> str:
        self._next, taken_by = _newer_lock(self._archive, self._view.use, self._next)
        if taken_by:
            return taken_by
        lock = _read(self._archive, self._view.path)
        if lock and lock.ended is not None:
            return f"{self._view.path} says that the run has ended"
        if lock and lock != self._seen:
            self._seen = lock
            self._renewed_at = self._steady_seconds()
        return ""


@dataclass(frozen=True, slots=True)
class _Lock:
    """Content of the file of a lock. Times are ISO 8601, UTC.

    Attributes:
        lock_seconds: the life of the lock without a renewal.
        renewals: the number of renewals, so that each of them changes the file.
        ended: None before the release.
    """

    holder: LockHolder
    since: str
    lock_seconds: float
    renewals: int = 0
    ended: str | None = None


class Life(Enum):
    """State of a lock's holder, for a run that waits for the lock."""

    UNKNOWN = auto()
    ALIVE = auto()
    DEAD = auto()
    ENDED = auto()


def life_of(first: _Lock, latest: _Lock | None, unchanged_seconds: float) -> Life:
    """Judge the holder of a lock by two looks at its file. Pure.

    Args:
        first: the content of the file at the first look.
        latest: the content at the second look; None if the file is gone.
        unchanged_seconds: between the looks, by the clock of the process that looks.
    """
    if latest is None or latest.ended is not None:
        return Life.ENDED
    if latest != first:
        return Life.ALIVE
    return Life.DEAD if unchanged_seconds >= first.lock_seconds else Life.UNKNOWN


def _conflict(first: LockUse, second: LockUse) -> bool:
    """Return whether two holders must not act at the same time."""
    if LockUse.ANALYZE in (first, second):
        return LockUse.ERASE in (first, second)
    return True


def _open_locks(archive: Archive) -> tuple[int, list[str]]:
    """Return the greatest number that was taken, and the paths of locks that were not released."""
    listed = archive.list(_LOCKS)
    last = 0
    for path in listed:
        match = _NUMBER.fullmatch(path)
        if match:
            last = max(last, int(match[1]))

    # All numbers up to the last one exist. A listing may lack a file that is created meanwhile.
    paths = map(_path, range(1, last + 1))
    return last, [path for path in paths if _end_path(path) not in listed]


def _read(archive: Archive, path: str) -> _Lock | None:
    content = archive.read(path)
    if content is None:
        return None
    with damage_named(archive, path, advice="if no run is going on, remove it"):
        return record_of(_Lock, json.loads(content))


def _path(number: int) -> str:
    return f"{_LOCKS}/{number:06d}.json"


def _end_path(path: str) -> str:
    return path.removesuffix(".json") + _END
