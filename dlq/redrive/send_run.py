"""One run of a redrive or a restore, in the process that conducts it.

Everything that a person may have mistyped is found when a run is prepared, before an engine starts.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from dlq.archive.ledger.claims import require_unsealed, run_folder
from dlq.archive.ledger.open_set import has_unknown_sends
from dlq.archive.lock import ArchiveLock, LockClock, LockHolder, LockUse, archive_lock
from dlq.archive.messages.dead_letter_schema import READ_COLUMNS
from dlq.archive.storage.files import Archive, new_id
from dlq.aws.actor import actor, text_of
from dlq.aws.clients import ClientFactory, sqs_client, tagging_client
from dlq.errors import InputError
from dlq.explain.signature.mask import Masks, compile_masks
from dlq.ids.origins import Queues
from dlq.plan.plan import Plan
from dlq.plan.plan_file import PlanFile, find_plan
from dlq.plan.plan_reading import SqlCheck
from dlq.progress import Progress, silent
from dlq.redrive.ramping.readings import ReturnsProbe, find_probes
from dlq.redrive.request import RedriveRequest, SendRequest
from dlq.redrive.resolving.editor import Editor
from dlq.redrive.resolving.queues import find_members, find_queues, named_sources
from dlq.sql.allowed import check_sql
from dlq_replay.rules.policy import MAX_MESSAGE_BYTES

_CLOCK = LockClock()
_LOOKS_A_WAIT = 60
"""The number of times that a run looks at the clock during one wait."""


@dataclass(frozen=True, slots=True)
class SendRun:
    """One run: what is asked for, of which archive, by whom.

    Attributes:
        plan_id: whose ledger it writes; a restore has an id of its parked queue.
        destination: URL of the queue of all messages that have no other source queue; empty if
            there is none.
        editor: makes messages of rows.
        policy_sha256: of the policy that filled in the plan's actions, in hex; None without one.
    """

    archive: Archive
    request: SendRequest
    plan_id: str
    destination: str
    _: KW_ONLY
    editor: Editor = field(default_factory=Editor)
    policy_sha256: str | None = None
    run_id: str = field(default_factory=lambda: new_id(time.time()))
    who: str = field(default_factory=actor)

    @property
    def folder(self) -> str:
        """The folder of the archive for the records of this run."""
        return run_folder(self.plan_id, self.run_id)

    def editor_for(self, destination: str) -> Editor:  # noqa: ARG002 - for other runs
        """Return the editor of messages that go to *destination*."""
        return self.editor

    @contextmanager
    def locked(
        self, progress: Progress = silent, clock: LockClock = _CLOCK
    ) -> Iterator[ArchiveLock | None]:
        """Yield the archive lock, held until the block ends; None for a dry run.

        A run that sends what is unconfirmed first waits for the tasks of the runs that it has
        closed, for the life of the lock: by then those that are at work have ended and written
        results.
        *progress* says whom the run waits for, and how long.

        Raises:
            BusyError: another redrive or restore is going on, or an erase.
            ArchiveError: the lock, or the marker of a run that has not ended, cannot be written.
        """
        if not self.request.execute:
            yield None
            return

        self.archive.check_writable()
        holder = LockHolder(self.run_id, LockUse.SEND, f"plan {self.plan_id}", self.who)
        seconds = self.request.lock_seconds
        with archive_lock(self.archive, holder, seconds, clock, progress) as lock:
            # Taking the lock has closed all runs that had not ended.
            closed_at = clock.steady_seconds()
            if self.request.unconfirmed == "send" and has_unknown_sends(self.archive):
                _wait(closed_at + seconds, clock, progress)
            yield lock


@dataclass(frozen=True, slots=True)
class RedriveRun(SendRun):
    """A run of a redrive whose request, plan and queues fit together; ``prepare`` makes it.

    Attributes:
        plan: only the group of the request, if that names one.
        queue_notes: what the operator should know of the queues, a sentence each.
        probes, why_no_ramp: see ``find_probes``.
    """

    request: RedriveRequest
    _: KW_ONLY
    plan_file: PlanFile
    plan: Plan
    queues: Queues
    masks: Masks
    probes: Mapping[str, ReturnsProbe]
    why_no_ramp: str
    queue_notes: Sequence[str] = ()

    def editor_for(self, destination: str) -> Editor:
        """Return what makes the messages that go to *destination*, small enough on all its way."""
        most_bytes = self.queues.max_message_bytes.get(destination, MAX_MESSAGE_BYTES)
        return replace(self.editor, max_message_bytes=most_bytes)


def prepare(
    archive: Archive,
    request: RedriveRequest,
    make_client: ClientFactory = sqs_client,
    sql_check: SqlCheck | None = None,
    make_tagging: Callable[[str], Any] = tagging_client,
) -> RedriveRun:
    """Check the request, read the plan, find the queues, in the order of what that costs.

    *sql_check* checks the SQL of the plan's edits; by default without an engine, see ``check_sql``.
    *make_tagging* is for ``find_members``.

    Raises:
        InputError: something does not fit; the plan's faults are all named. Nothing was sent.
        ArchiveError: the archive cannot be used.
    """
    request.check()
    masks = compile_masks(request.masks)
    check_sql(request.where, READ_COLUMNS)

    plan_file = find_plan(archive, request.plan)
    plan = plan_file.plan(sql_check or _sql_fault)
    if request.group is not None:
        plan = plan.only(request.group)
    require_unsealed(archive, plan.plan_id)
    request.check_decisions(plan)

    queue_notes: list[str] = []
    if request.is_fleet:
        names = named_sources(archive, plan)
        queues, destinations, queue_notes = find_members(request, names, make_client, make_tagging)
    else:
        queues, destinations = find_queues(request, make_client)
    probes, why_no_ramp = find_probes(request, destinations, make_client)
    sizes = queues.max_message_bytes.values()
    return RedriveRun(
        archive,
        request,
        plan.plan_id,
        request.destination,
        # Only an edit may be refused for the smallest queue of all.
        editor=Editor(plan.edits, plan.plan_id, min(sizes, default=MAX_MESSAGE_BYTES)),
        policy_sha256=plan.snapshot.policy_sha256,
        plan_file=plan_file,
        plan=plan,
        queues=queues,
        masks=masks,
        probes=probes,
        why_no_ramp=why_no_ramp,
        queue_notes=queue_notes,
    )


def _sql_fault(sql: str) -> str | None:
    """Return what is wrong with an expression of ``set_attributes``, types apart, else None."""
    try:
        check_sql(sql, READ_COLUMNS, place=None)
    except InputError as error:
        return text_of(error)
    return None


def _wait(until: float, clock: LockClock, progress: Progress) -> None:
    """Wait until then, by the steady *clock* of this run."""
    seconds = until - clock.steady_seconds()

    def status() -> str:
        left = max(0.0, until - clock.steady_seconds())
        return f"for tasks of a run that was closed: what is unconfirmed goes again in {left:.0f} s"

    with progress("waiting", status):
        while clock.steady_seconds() < until:
            clock.sleep(seconds / _LOOKS_A_WAIT)
