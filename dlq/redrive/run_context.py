"""What is the same for every message of a run. Each task carries it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from dlq.archive.ledger.claims import RunRecord, record_run
from dlq.archive.ledger.open_set import has_unknown_sends
from dlq.archive.lock import (
    ArchiveLock,
    LockClock,
    LockHolder,
    LockUse,
    LockView,
    archive_lock,
    require_newest,
)
from dlq.archive.storage.files import Archive, Probe, new_id
from dlq.aws.actor import actor
from dlq.aws.clients import Limit
from dlq.progress import Progress, silent
from dlq.redrive.redrive_values import RedriveOptions, RestoreOptions
from dlq.redrive.resolving.editor import Editor
from dlq_replay.rules.outgoing import redriven_entry, restored_entry
from dlq_replay.wire.addresses import QueueAddress
from dlq_replay.wire.message import Message, SendEntry

_CLOCK = LockClock()
_LOOKS = 60
"""How often a run that waits looks at the time."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """What is the same for every chunk of a run; goes into each claim.

    Attributes:
        request: what the operator asked for.
        destination: URL of the queue that messages go to.
        editor: makes messages of rows; the copy that it finds too large has no context.
        policy_sha256: of the policy that filled in the plan's actions, in hex; None without one.
        step: of which step of a ramp the messages are, from 1; 0 outside a ramp.
        unproven_groups: ids of the groups whose messages are parked at their first return.
        probe: each task checks it before its first claim.
        lock: the archive lock, which each task observes. Neither is there in a dry run.
        limit: what the circuit breaker allowed when sending to *destination* began.
    """

    request: RedriveOptions | RestoreOptions
    plan_id: str
    destination: str
    editor: Editor = field(default_factory=Editor)
    policy_sha256: str | None = None
    run_id: str = field(default_factory=lambda: new_id(time.time()))
    who: str = field(default_factory=actor)
    step: int = 0
    unproven_groups: frozenset[str] = frozenset()
    probe: Probe | None = None
    lock: LockView | None = None
    limit: Limit = field(default_factory=Limit)

    @contextmanager
    def locked(
        self, archive: Archive, progress: Progress = silent, clock: LockClock = _CLOCK
    ) -> Iterator[tuple["RunContext", ArchiveLock | None]]:
        """Yield the context and the archive lock, held until the block ends; a dry run has none.

        A run that sends what is in doubt first waits for the tasks of the runs that it has closed,
        for the life of the lock: by then those that are at work have ended and written results.
        *progress* says whom the run waits for, and how long.

        Raises:
            BusyError: another redrive or restore is going on, or an erase.
            ArchiveError: the lock, or the marker of a run that has not ended, cannot be written.
        """
        if not self.request.execute:
            yield self, None
            return
        archive.check_writable()
        seconds = self.request.lock_seconds
        with archive_lock(archive, self.lock_holder, seconds, clock, progress) as lock:
            closed_at = clock.steady_seconds()
            if self.request.in_doubt == "send" and has_unknown_sends(archive):
                _wait(closed_at + seconds, clock, progress)
            yield replace(self, lock=lock.view), lock

    def recorded(self, archive: Archive, record: RunRecord) -> "RunContext":
        """Write the record of this run; return the context with which it may claim.

        Raises:
            InputError: the plan is sealed.
            ArchiveError: it cannot be written, or another run has taken the lock, which has maybe
                not seen the record.
        """
        probe = record_run(archive, record)
        if self.lock:
            require_newest(archive, self.lock)
        return replace(self, probe=probe)

    @property
    def lock_holder(self) -> LockHolder:
        """Who holds the archive lock for this run."""
        return LockHolder(self.run_id, LockUse.SEND, f"plan {self.plan_id}", self.who)

    @property
    def to_fifo(self) -> bool:
        """Whether the destination keeps the order of message groups."""
        return QueueAddress.from_url(self.destination).is_fifo

    def entry(self, message: Message, group_id: str) -> SendEntry:
        """The copy of *message* to send: a message of the destination, whose dead letter it is."""
        if isinstance(self.request, RestoreOptions):
            return restored_entry(message, self.plan_id, to_fifo=self.to_fifo)
        return redriven_entry(
            message,
            self.plan_id,
            QueueAddress.from_url(self.destination),
            group_id=group_id,
            is_canary=group_id in self.unproven_groups,
            max_message_bytes=self.editor.max_message_bytes,
        )


def _wait(until: float, clock: LockClock, progress: Progress) -> None:
    """Wait until then, by the steady *clock* of this run."""
    seconds = until - clock.steady_seconds()

    def status() -> str:
        left = max(0.0, until - clock.steady_seconds())
        return f"for tasks of a run that was closed: what is in doubt goes again in {left:.0f} s"

    with progress("waiting", status):
        while clock.steady_seconds() < until:
            clock.sleep(seconds / _LOOKS)
