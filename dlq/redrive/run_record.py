"""Begins and ends a run: its record, its edits, its dispositions, its results."""

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from dlq.archive.ledger.claims import RunRecord, plan_folder, record_run, timestamp
from dlq.archive.ledger.run_results import write_result_files
from dlq.archive.ledger.stop import record_stop
from dlq.archive.lock import ArchiveLock, require_newest
from dlq.archive.storage.files import ArchiveProof
from dlq.aws.actor import caller
from dlq.aws.clients import ClientFactory, region_of
from dlq.engine import Engine
from dlq.errors import ArchiveError
from dlq.memory import available_bytes, require_memory_to_send
from dlq.plan.plan import PlannedGroup
from dlq.progress import Progress
from dlq.redrive.request import RestoreRequest
from dlq.redrive.resolving.resolve import ResolvedPlan
from dlq.redrive.send_run import SendRun
from dlq.redrive.sending.stop_signals import Deadline
from dlq.redrive.sending.task_runner import TaskRunner
from dlq.redrive.sending.written_rows import write_rows
from dlq.redrive.summary import RedriveSummary, Sent
from dlq.redrive.totals import summarize


def begin_run(
    engine: Engine,
    run: SendRun,
    resolved: ResolvedPlan,
    lock: ArchiveLock | None,
    *,
    make_sender: ClientFactory,
    progress: Progress,
    deadline: Deadline,
) -> TaskRunner:
    """Record the run, its edits and its dispositions; return what sends its messages.

    Raises:
        InputError: the plan is sealed, or its messages do not fit into memory. Nothing was claimed.
        ArchiveError: something cannot be recorded, or another run has taken the lock, which has
            maybe not seen the record. Nothing was claimed.
    """
    if engine.holds_rows:
        require_memory_to_send(resolved.work_bytes, available_bytes(engine.reserved_bytes))
    region = region_of(next(iter(resolved.work), run.destination), "us-east-1")
    record = RunRecord(
        run_id=run.run_id,
        plan_id=run.plan_id,
        verb="restore" if isinstance(run.request, RestoreRequest) else "redrive",
        actor=run.who,
        caller=caller(engine.application_id, region),
        reason=run.request.reason,
        time=timestamp(time.time()),
        destination=run.destination,
        destinations=[*resolved.work],
        policy_sha256=run.policy_sha256,
    )
    proof = record_and_fence(run, record, lock)
    _record_edits(run, record)

    # An engine may run a task again. From the ledger alone it would then decide once more.
    written = write_rows(run.archive, resolved.dispositions, f"{run.folder}/dispositions")
    return TaskRunner(
        engine=engine,
        run=run,
        written=written,
        lock=lock,
        proof=proof,
        make_sender=make_sender,
        progress=progress,
        deadline=deadline,
    )


def record_and_fence(run: SendRun, record: RunRecord, lock: ArchiveLock | None) -> ArchiveProof:
    """Write the record of the run; return what each task looks for before it sends.

    Raises:
        InputError: the plan is sealed.
        ArchiveError: it cannot be written, or another run has taken the lock, which has maybe not
            seen the record.
    """
    proof = record_run(run.archive, record)
    if lock:
        require_newest(run.archive, lock.view)
    return proof


def _record_edits(run: SendRun, record: RunRecord) -> None:
    """Write the text of each edit, whose digest each claim names for each message."""
    for group_id, edit in run.editor.edits.items():
        path = f"{plan_folder(run.plan_id)}/edits/{group_id}.{edit.digest}.json"
        content = {
            "run_id": record.run_id,
            "who": record.actor,
            "time": record.time,
            "text": edit.text,
        }
        # The first run that used the edit stays.
        run.archive.create(path, json.dumps(content).encode())


def end_run(
    runner: TaskRunner,
    groups: Sequence[PlannedGroup],
    resolved: ResolvedPlan,
    sent: Mapping[str, Sent],
) -> RedriveSummary:
    """Close the run, and say what became of the messages *sent* to each destination."""
    run = runner.run
    with runner.progress("putting the results into one file", str):
        notes = write_result_files(run.archive, (run.plan_id, run.run_id))
    summary = replace(summarize(run, groups, resolved, sent), notes=notes)
    if summary.stopped_by:
        # For people alone: what was sent must be answered.
        with suppress(ArchiveError):
            record_stop(run.archive, run.plan_id, run.run_id, summary.stopped_by)
    return summary
