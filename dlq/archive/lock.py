"""The archive lock: one run at a time acts on an archive.

A redrive, a restore and an erase hold this lock, and each excludes all others, also a run of the
same plan. An analysis holds it, too, and conflicts with an erase alone: else a report could quote a
message that was erased while it was written.

A run that lost the lock may not know it yet: its tasks are on other machines, and a machine may
sleep. So whoever takes the lock to act writes ``closing`` for every run that has not ended, of
every plan, before it reads any claim. What a task does then is in ``claims``. A run also looks for
a newer lock after it has written its record, see ``require_newest``. So of a run that lost the lock
either the record was found and closed, or the run finds the newer lock, and claims nothing.

``locks/000007.json`` says who holds the lock for what. Numbers count up from 1. Its holder writes
it anew every tenth of its life, and a last time, with ``ended``, on release.
``locks/000007.end.json`` spares later runs to read it.

To take the lock, a run reads all locks that were not released. It watches those that conflict. If
one of them is renewed, the run is refused. A lock that stays the same for its whole life, by the
clock of the run that watches, is dead. When all that conflict are released or dead, the run creates
the next number, if absent. If another run has created that number in the meantime, it watches that
one in the same way, and is refused or tries the number after it. So a run that creates a number has
checked every smaller one. Of several that conflict and start together, the first to create a number
gets the lock, and those that share take the numbers after it.

Nobody compares times of two machines. A lock that is dead never gets alive again: its holder does
not renew it after its life, by its own clock. If a lock is taken too early all the same, the
earlier holder and its tasks find a conflicting lock with a greater number, and stop.
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
"""The life of a lock without a renewal: a run that waits for it watches it for so long before it is
dead. The run that holds it stops after half of that."""

_LOCKS = "locks"
_END = ".end.json"
_NUMBER = re.compile(rf"{_LOCKS}/(\d+)\.(end\.)?json")
_RENEWALS = 10
"""How often a run renews its lock in the life of the lock."""

_LOOKS = 4 * _RENEWALS
"""How often a run that waits for the lock looks at it in that time."""


def steady_seconds() -> float:
    """Return the seconds since some moment. Nobody sets this clock.

    It goes on while the machine sleeps, so that a run looks at its lock before it goes on.
    """
    # On Linux alone the usual clock for this stops meanwhile.
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


@dataclass(frozen=True, slots=True)
class LockClock:
    """The time of the machine that takes and holds a lock.

    Attributes:
        steady_seconds: decides; seconds since any moment.
        sleep: waits for so many seconds.
        now_seconds: epoch seconds, for people alone.
    """

    steady_seconds: Callable[[], float] = steady_seconds
    sleep: Callable[[float], object] = time.sleep
    now_seconds: Callable[[], float] = time.time


_CLOCK = LockClock()


class LockUse(StrEnum):
    """What the lock is held for. The values are stored."""

    ANALYZE = "analyze"
    SEND = "send"
    ERASE = "erase"


@dataclass(frozen=True, slots=True)
class LockHolder:
    """Who holds the lock for what.

    Attributes:
        what: for people, ``plan p-1`` for one.
    """

    run_id: str
    use: LockUse
    what: str
    who: str


@dataclass(frozen=True, slots=True)
class LockView:
    """What a task needs to observe its run's lock, which lives *lock_seconds* without a renewal."""

    number: int
    use: LockUse
    lock_seconds: float

    @property
    def path(self) -> str:
        """The path of the file that the run renews."""
        return _path(self.number)


class ArchiveLock:
    """A lock that is held, for one thread beside that which renews it; see ``archive_lock``."""

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
        """What the run's tasks need to observe the lock."""
        self._observer = LockObserver(self._archive, self.view, self._clock.steady_seconds)
        self._is_held = True

    @property
    def is_held(self) -> bool:
        """Whether it was not released."""
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
        """Close all runs that have not ended, but for this one and for an analysis."""
        if self._holder.use is not LockUse.ANALYZE:
            close_open_runs(self._archive, own_run_id=self._holder.run_id)

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

        A renewal that is written after that would undo it, so there is none. Safe to repeat.
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
        """Watch those of these locks that conflict until none is in the way; return the dead ones.

        Raises:
            BusyError: one of them is alive.
        """
        locks = {path: lock for path in paths if (lock := _read(self._archive, path))}
        watched = {
            path: lock
            for path, lock in locks.items()
            if lock.ended is None and _conflict(lock.holder.use, self._holder.use)
        }
        if not watched:
            return []
        began_at = self._clock.steady_seconds()

        def status() -> str:
            # Another thread asks.
            lock = next(iter(list(watched.values())), None)
            if lock is None:
                return ""
            seconds = max(0, lock.lock_seconds - (self._clock.steady_seconds() - began_at))
            return (
                f"{lock.holder.what} by {lock.holder.who} (run {lock.holder.run_id}) holds the "
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
        """Take from *watched* what is in nobody's way any more; return the dead ones of it."""
        dead = list[str]()
        for path, lock in list(watched.items()):
            # Before the read: so long, at least, it has stayed the same.
            unchanged_seconds = self._clock.steady_seconds() - began_at
            match life_of(lock, _read(self._archive, path), unchanged_seconds):
                case Life.ALIVE:
                    raise BusyError(
                        f"{lock.holder.what} is being carried out by {lock.holder.who} since "
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
        lock = _Lock(self._holder, self._since, self._lock_seconds, self._renewals, ended)
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

    If a run that conflicts has not released it, this waits until that run renews it, a tenth of its
    life at most, or is dead, after its whole life: *progress* says so meanwhile.

    All runs that have not ended are closed when the block begins, but for an analysis, which reads
    claims and makes none.

    Raises:
        BusyError: a run that conflicts holds it. The sentence says who does what, and since when.
            Nothing was written.
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

    A run calls this after it has written its record. Whoever took the lock before has maybe not
    seen the record, and this run makes no claim.
    """
    _, taken_by = _newer_lock(archive, view.use, view.number + 1)
    if taken_by:
        raise ArchiveError(f"archive {archive.root}: {taken_by}: run the same command again")


def _newer_lock(archive: Archive, use: LockUse, number: int) -> tuple[int, str]:
    """Look for a lock from *number* on that conflicts, alive or not: it took the place of this one.

    Returns:
        The first number that nobody has, or that of the lock; and who took it, empty if nobody has.
    """
    while newer := _read(archive, path := _path(number)):
        if _conflict(newer.holder.use, use):
            who = f"{path}: {newer.holder.what} by {newer.holder.who}"
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
        """Return why the run must stop; empty if it need not. Costs two small reads.

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
    """What a file says. Times are ISO 8601, UTC; *ended* is None before the release.

    Attributes:
        lock_seconds: the life of the lock without a renewal.
        renewals: how often it was renewed, so that each renewal changes the file.
    """

    holder: LockHolder
    since: str
    lock_seconds: float
    renewals: int = 0
    ended: str | None = None


class Life(Enum):
    """What a run that waits for a lock knows of its holder."""

    UNKNOWN = auto()
    ALIVE = auto()
    DEAD = auto()
    ENDED = auto()


def life_of(first: _Lock, latest: _Lock | None, unchanged_seconds: float) -> Life:
    """Judge the holder of a lock by two looks at its file. Pure.

    Args:
        first: what the file said at the first look.
        latest: what it says at the second look; None if it is gone.
        unchanged_seconds: between the looks, by the clock of the one who looks.
    """
    if latest is None or latest.ended is not None:
        return Life.ENDED
    if latest != first:
        return Life.ALIVE
    return Life.DEAD if unchanged_seconds >= first.lock_seconds else Life.UNKNOWN


def _conflict(first: LockUse, second: LockUse) -> bool:
    """Whether two holders must not act at the same time."""
    if LockUse.ANALYZE in (first, second):
        return LockUse.ERASE in (first, second)
    return True


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
        return record_of(_Lock, json.loads(content))


def _path(number: int) -> str:
    return f"{_LOCKS}/{number:06d}.json"


def _end_path(path: str) -> str:
    return path.removesuffix(".json") + _END
