"""Whose turn it is to act on an archive: runs that share their claims may go on side by side.

Claims keep two runs of one plan apart, chunk by chunk. Two different plans cut the same messages
into different chunks, so no claim of the one stops the other: their runs take turns. So does an
erase, which takes files away that the others read. An analysis sends nothing, so it waits for an
erase alone, and an erase waits for it: the report of an analysis that has read an erased message
would otherwise be written after the erase has looked for reports.

``turns/<run_id>.json`` says who runs what, since when, and until when it counts as alive; its run
writes it anew now and then. ``turns/<run_id>.end.json`` says that it is over. A run announces
itself first and looks round after that, so of two that start at the same moment at least one sees
the other. One that was killed counts as alive until its time is up; it sends nothing after that.

A turn can be shared, and of two that start together both may be sent away: an operator tries again.
What a schedule starts holds a lease (``lease``) besides, which always one of them gets.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.ledger import require_version, timestamp
from spark_reprocess.errors import ArchiveError, BusyError

TURNS = "turns"
ANALYZE = "analyze"
"""The claims of every analysis."""

_ERASE = "erase "
_END = ".end.json"
_RENEWALS = 10
"""How often a run renews its time before it would be up."""


@dataclass(frozen=True, slots=True)
class Run:
    """A run that acts on an archive's messages.

    Attributes:
        claims: what its claims are filed under; runs that have the same do not get in each
            other's way.
        what: for people, ``plan p-1`` for one.
    """

    run_id: str
    claims: str
    what: str
    who: str


def erase_run(erase_id: str, who: str) -> Run:
    """An erase: it is alone, so nobody has its claims."""
    return Run(erase_id, f"{_ERASE}{erase_id}", "an erase", who)


class Turn:
    """A run's turn, from its announcement to its end."""

    def __init__(
        self, archive: Archive, run: Run, ttl_seconds: float, now_seconds: Callable[[], float]
    ) -> None:
        """Count as alive for *ttl_seconds* after each renewal."""
        self._archive = archive
        self._run = run
        self._ttl_seconds = ttl_seconds
        self._now_seconds = now_seconds
        self._started = self._renewed_at = now_seconds()
        self._is_over = threading.Event()

    def trouble(self) -> str:
        """Say why the run must stop: it could not renew its time. Empty while all is well."""
        age = self._now_seconds() - self._renewed_at
        if age < self._ttl_seconds / 2:
            return ""
        return (
            f"{TURNS}/{self._run.run_id}.json was not renewed for {age:.0f} s (the archive cannot "
            "be written, or this machine slept), so another run may have begun"
        )

    def announce(self) -> None:
        """Write down, durably, that the run is alive.

        Raises:
            ArchiveError: it cannot be written.
        """
        now = self._now_seconds()
        content = {
            "version": 1,
            **asdict(self._run),
            "since": timestamp(self._started),
            "alive_until": timestamp(now + self._ttl_seconds),
        }
        self._archive.write(f"{TURNS}/{self._run.run_id}.json", json.dumps(content).encode())
        self._renewed_at = now

    def renew(self) -> None:
        """Announce it again and again until ``end``; the body of a thread of its own.

        Not once its time was up, on a machine that slept: others may have begun since, so it stays
        in ``trouble``.
        """
        while not self._is_over.wait(self._ttl_seconds / _RENEWALS):
            if self._now_seconds() - self._renewed_at >= self._ttl_seconds:
                return
            with suppress(ArchiveError):
                self.announce()

    def end(self) -> None:
        """Write down that it is over. Where that fails, its time runs out by itself."""
        self._is_over.set()
        content = {"version": 1, "ended": timestamp(self._now_seconds())}
        with suppress(ArchiveError):
            self._archive.write(f"{TURNS}/{self._run.run_id}{_END}", json.dumps(content).encode())


@contextmanager
def taking_turns(
    archive: Archive,
    run: Run,
    ttl_seconds: float,
    now_seconds: Callable[[], float] = time.time,
) -> Iterator[Turn]:
    """Hold the turn for *run* until the block ends.

    Raises:
        BusyError: it is another run's turn; the sentence says whose, and until when.
        ArchiveError: the archive cannot be read or written.
    """
    turn = Turn(archive, run, ttl_seconds, now_seconds)
    turn.announce()
    renewing = threading.Thread(target=turn.renew, name="turn", daemon=True)
    try:
        for other in others_alive(archive, run, now_seconds()):
            raise BusyError(
                f"{other.run.what} is being carried out by {other.run.who} since {other.since} "
                f"(run {other.run.run_id}); it acts on the same messages, so this run has to "
                f"wait for its end. If it was killed, it counts as dead from {other.alive_until} on"
            )
        renewing.start()
        yield turn
    finally:
        turn.end()
        if renewing.ident is not None:
            renewing.join()


@dataclass(frozen=True, slots=True)
class Announcement:
    """What a run wrote of itself. Times are ISO 8601, UTC."""

    run: Run
    since: str
    alive_until: str

    def is_alive(self, now_seconds: float) -> bool:
        """Whether it may be acting."""
        return datetime.fromisoformat(self.alive_until).timestamp() > now_seconds


def others_alive(archive: Archive, run: Run, now_seconds: float) -> list[Announcement]:
    """Return the runs that may be acting now and that *run* must not meet.

    Raises:
        ArchiveError: the archive cannot be read.
    """
    paths = archive.list(TURNS)
    ended = {path.removesuffix(_END) for path in paths if path.endswith(_END)}
    open_turns = (p for p in paths if not p.endswith(_END) and p.removesuffix(".json") not in ended)
    found = [_read(archive, path) for path in open_turns]
    return [one for one in found if _disturb(one.run, run) and one.is_alive(now_seconds)]


def _disturb(one: Run, other: Run) -> bool:
    """Whether two runs must not act at the same time."""
    claims = {one.claims, other.claims}
    if ANALYZE in claims:
        return any(each.startswith(_ERASE) for each in claims)
    return len(claims) > 1


def _read(archive: Archive, path: str) -> Announcement:
    try:
        raw: dict[str, Any] = json.loads(archive.read(path) or b"")
        require_version(archive, path, raw)
        run = Run(**{one.name: raw[one.name] for one in fields(Run)})
        found = Announcement(run, raw["since"], raw["alive_until"])
        found.is_alive(0)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArchiveError(
            f"archive {archive.root}: {path} cannot be read ({type(error).__name__}); somebody "
            "changed it: if no run is going on, remove it"
        ) from error
    return found
