"""The plan lock: at most one plan acts on an archive at a time; runs of one plan share it.

The ledger's claims keep two runs of one plan apart, chunk by chunk. Two plans cut the same messages
into different chunks, so no claim of one plan stops the other. An erase removes files that others
read. So a redrive, a restore and an erase hold this lock. An analysis holds it, too, and conflicts
with an erase alone: else a report could quote a message that was erased while it was written.

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
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum, auto

from spark_reprocess.archive.ledger.claims import timestamp
from spark_reprocess.archive.storage.files import Archive
from spark_reprocess.archive.storage.records import damage_named, record_bytes, record_of
from spark_reprocess.errors import ArchiveError, BusyError
from spark_reprocess.progress import Progress, repeating, silent

LOCK_SECONDS = 120.0
"""The life of a lock without a renewal: a run that waits for it watches it for so long before it is
dead. The run that holds it stops after half of that."""

ANALYZE = "analyze"
"""The claims of every analysis."""

_LOCKS = "locks"
_ERASE = "erase "
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
        lock_seconds: float = LOCK_SECONDS,
        clock: LockClock = _CLOCK,
        progress: Progress = silent,
    ) -> None:
        """Take the lock; raise BusyError if a lock that conflicts is alive. See ``plan_lock``."""
        self._archive = archive
        self._holder = holder
        self._lock_seconds = lock_seconds
        self._clock = clock
        self._progress = progress
        self._since = timestamp(clock.now_seconds())
        self._renewed_at = clock.steady_seconds()
        self._renewals = 0
        self.view = LockView(self._take(), holder.claims, lock_seconds)
        """What the run's tasks need to observe the lock."""
        self._observer = LockObserver(archive, self.view, clock.steady_seconds)

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
        now = self._clock.steady_seconds()
        if self._age() >= self._lock_seconds:
            return
        self._renewals += 1
        self._archive.write(self.view.path, self._content())
        # A write that ended too late does not count: another run may have begun before its end.
        if self._age() < self._lock_seconds:
            self._renewed_at = now

    def release(self) -> None:
        """Let others take the lock. If that cannot be written, the lock's life ends by itself."""
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
            if lock.ended is None and _conflict(lock.holder, self._holder.claims)
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
                f"plan lock, and counts as dead if it does not renew it for {seconds:.0f} s more"
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
def plan_lock(
    archive: Archive,
    holder: LockHolder,
    lock_seconds: float = LOCK_SECONDS,
    clock: LockClock = _CLOCK,
    progress: Progress = silent,
) -> Iterator[PlanLock]:
    """Hold the plan lock until the block ends. A thread renews it.

    If a run that conflicts has not released it, this waits until that run renews it, a tenth of its
    life at most, or is dead, after its whole life: *progress* says so meanwhile.

    Raises:
        BusyError: a run that conflicts holds it. The sentence says who does what, and since when.
            Nothing was written.
    """
    lock = PlanLock(archive, holder, lock_seconds, clock, progress)

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


def running(archive: Archive) -> set[str]:
    """Return the ids of the runs that may hold the plan lock; for a run that holds it.

    A run that was killed is among them until a run that conflicts with it takes the lock.
    """
    _, paths = _open_locks(archive)
    locks = filter(None, [_read(archive, path) for path in paths])
    return {lock.holder.run_id for lock in locks if lock.ended is None}


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
        return record_of(_Lock, json.loads(content))


def _path(number: int) -> str:
    return f"{_LOCKS}/{number:06d}.json"


def _end_path(path: str) -> str:
    return path.removesuffix(".json") + _END
