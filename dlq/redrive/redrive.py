"""The verb ``redrive``: what a plan says, done to exactly the messages that it froze.

Resolve the plan: one disposition per message. Write the dispositions into the archive. Send, to one
destination after the other. Summarize.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from botocore.exceptions import BotoCoreError, ClientError

from dlq.archive.group_records import read_memory
from dlq.archive.ledger.claims import open_run_notes
from dlq.archive.ledger.disposition import Disposition
from dlq.archive.ledger.stop import foremost
from dlq.archive.messages.reading import FILE
from dlq.archive.storage.files import Archive
from dlq.aws.clients import (
    ClientFactory,
    aws_client,
    read_limit,
    sqs_client,
    sqs_sender,
)
from dlq.engine import Engine
from dlq.explain.signature.payload import pointer_in_attributes, unwrap
from dlq.figures import counted
from dlq.ids.columns import have_disposition
from dlq.plan.ramp import LOOKS_A_MINUTE, Forecast, Steps, step_sizes
from dlq.progress import Progress, silent
from dlq.redrive.execution import (
    TaskRunner,
    begin,
    end,
    known_limit,
    not_reached,
    summarize,
)
from dlq.redrive.preparation import prepare, stopped_note
from dlq.redrive.ramp import Ramp
from dlq.redrive.readings import (
    Probe,
    begin_counters,
    unread_limits,
)
from dlq.redrive.redrive_values import RedriveOptions, RedriveSummary, Sent, Tally
from dlq.redrive.resolving.archived_rows import read_archived
from dlq.redrive.resolving.editor import Editor
from dlq.redrive.resolving.edits import edit_samples
from dlq.redrive.resolving.resolve import resolved_plan
from dlq.redrive.run_context import RunContext
from dlq.redrive.sending.stop_signals import Clock, Deadline, TableWatch
from dlq_replay.aws.sqs import describe
from dlq_replay.wire.addresses import QueueAddress

_CLOCK = Clock()

_SAMPLED = 100
"""So many messages are looked at for pointers to S3."""


def redrive(
    engine: Engine,
    options: RedriveOptions,
    *,
    make_client: ClientFactory = sqs_client,
    make_sender: ClientFactory = sqs_sender,
    progress: Progress = silent,
    clock: Clock = _CLOCK,
    announce: Callable[[str], object] = str,
) -> RedriveSummary:
    """Say what the plan would do now, and with ``execute`` do it. Safe to repeat at any time.

    *announce* gets, before the first message is sent, a sentence for each thing that nobody watches
    in this run. They are notes of the summary, too.

    Raises:
        InputError: the options, the plan, the archive or the queue do not fit together; the plan's
            faults are all named. Nothing was sent.
        BusyError: another redrive or restore is going on, or an erase. Nothing was sent.
        ArchiveError: the archive cannot be used. Nothing was sent.
    """
    deadline = Deadline.after(options.time_budget_seconds, clock)
    ready = prepare(options, make_client, engine.attribute_fault)
    archive, plan, queues, probes = ready.archive, ready.plan, ready.queues, ready.probes
    memory = read_memory(archive)
    options = replace(options, requires_room=options.requires_room or bool(probes))
    context = RunContext(
        request=options,
        plan_id=plan.plan_id,
        destination=options.destination,
        editor=Editor(plan.edits, plan.plan_id, queues.max_message_bytes),
        policy_sha256=plan.snapshot.policy_sha256,
    )
    with ExitStack() as stack:
        # Before the plan is resolved: what another plan decides after that would not be seen.
        context, lock = stack.enter_context(context.locked(archive, progress))
        steps = {url: Steps(archive, plan.plan_id, _name(url)) for url in probes}
        with progress("resolving each message", str):
            resolved = resolved_plan(engine, archive, plan, options, queues, context.editor)
        work = resolved.work
        stopped = {one.group_id for one in resolved.planned if one.word == Disposition.STOPPED}
        notes = (
            *resolved.notes,
            *(stopped_note(one, memory.stopped[one]) for one in stopped),
        )
        if not options.execute:
            notes += (ready.why_no_ramp,) if ready.why_no_ramp else ()
            notes += tuple(open_run_notes(archive))
            rows = resolved.dispositions
            return replace(
                summarize(plan.groups, resolved, context),
                samples=edit_samples(engine, archive, rows, context.editor, ready.masks)
                if options.has_samples
                else (),
                notes=(*notes, *_pointer_notes(archive, rows, options.pointer_bucket)),
                forecast=_forecast(probes, work, options) if probes else None,
                decisions_sha256=plan.decisions_sha256,
            )
        runner = TaskRunner(engine, archive, make_sender, progress, deadline)
        groups = {t.group_id for of in work.values() for t in of if t.word == Disposition.SEND}
        uncounted = set[str]()
        if groups:
            uncounted, why_uncounted = begin_counters(options, plan.plan_id, groups)
            unseen = filter(None, (ready.why_no_ramp, why_uncounted, unread_limits(options, work)))
            for note in unseen:
                announce(note)
                notes += (note,)

        context, dispositions = begin(engine, archive, resolved, context)

        def send(to_here: RunContext, watch: TableWatch) -> Sent:
            url = to_here.destination
            if lock:
                # A ramp before this one may have given it back, and taken it again.
                to_here = replace(to_here, lock=lock.view)
            if not probes:
                return runner.execute(
                    dispositions,
                    work[url],
                    to_here,
                    _name(url),
                    lambda: watch.trouble(to_here.limit),
                )
            return Ramp(
                runner=runner,
                context=to_here,
                written=dispositions,
                work=work[url],
                memory=memory,
                probe=probes[url],
                steps=steps[url],
                watch=watch,
                lock=lock,
                uncounted=uncounted,
            ).send()

        sent = _send_all(work, options, context, deadline, send)
        summary = end(plan.groups, resolved, context, runner, sent)
    notes += summary.notes
    return replace(summary, notes=notes, decisions_sha256=plan.decisions_sha256)


def _pointer_notes(archive: Archive, dispositions: pa.Table, bucket: str | None) -> Iterator[str]:
    """Yield how many bodies of messages to send are pointers to S3, by a sample of them.

    Forms and envelopes are those that the report knows. Their objects are looked up in *bucket*,
    also those whose bucket the message does not say.
    """
    to_send = np.flatnonzero(have_disposition(dispositions, [Disposition.SEND]))
    # The same ones each time, so that a repeated dry run says the same.
    some = np.random.default_rng(0).permutation(to_send)[:_SAMPLED]
    messages = dispositions.select(["message_id", FILE]).take(pa.array(np.sort(some)))
    rows = read_archived(archive, messages, ("message_id", "body", "attributes"), lambda of: of)
    pointers = []
    for row in rows.to_pylist():
        texts = [(name, value["string_value"]) for name, value in row["attributes"] or ()]
        pointer = unwrap(row["body"] or "").pointer or pointer_in_attributes(texts)
        if pointer is not None:
            pointers.append(pointer)
    if not pointers:
        return
    keys = [pointer.key for pointer in pointers if bucket and pointer.bucket in (bucket, "")]
    note = f"{len(pointers)} of {counted(rows.num_rows, 'sampled message')} are pointers to S3"
    try:
        gone = gone_objects(aws_client("s3"), bucket or "", keys) if keys else 0
    except (ClientError, BotoCoreError) as error:
        yield f"{note}, not checked: {describe(error)}"
        return
    parts = [f"the objects of {gone} are gone"] * bool(keys)
    if left := len(pointers) - len(keys):
        parts.append(f"{left} not checked, their bucket is not that of --pointer-bucket")
    yield f"{note}: {'; '.join(parts)}"


def gone_objects(client: Any, bucket: str, keys: Collection[str]) -> int:  # noqa: ANN401 - S3's
    """Count the *keys* that have no object; raise what else S3 answers."""
    gone = 0
    for key in keys:
        try:
            client.head_object(Bucket=bucket, Key=key)
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:  # noqa: PLR2004
                raise
            gone += 1
    return gone


def _forecast(
    probes: Mapping[str, Probe], work: Mapping[str, Sequence[Tally]], options: RedriveOptions
) -> Forecast:
    counts = [t.count for of in work.values() for t in of if t.word == Disposition.SEND]
    sizes = tuple(step_sizes(max(counts, default=0)))
    failure_seconds = max(probe.queue.failure_seconds for probe in probes.values())
    # Nobody waits for the last step.
    waits = max(0, len(sizes) - 1)
    return Forecast(sizes, waits * (failure_seconds + 2 * options.minute_seconds))


def _send_all(
    work: Mapping[str, Sequence[Tally]],
    options: RedriveOptions,
    context: RunContext,
    deadline: Deadline,
    send: Callable[[RunContext, TableWatch], Sent],
) -> dict[str, Sent]:
    """Send to one destination after the other. What stops the run stops those that follow.

    A limit of the circuit breaker, a failure table that cannot be read for a minute, or a ramp that
    waits, stops its own destination alone. Limited ones come last.
    """
    sent: dict[str, Sent] = {}
    # Whoever asks for everything at once does without the table.
    patience_seconds = None if options.goes_at_once else options.minute_seconds
    table, every_seconds = options.failure_table, options.minute_seconds / LOOKS_A_MINUTE
    is_limited = {url: bool(read_limit(table, url).sentence) for url in work}
    for url in sorted(work, key=lambda url: (is_limited[url], url)):
        stopped_by = foremost(one.stopped_by for one in sent.values() if one.stopped_by)
        if stopped_by and not stopped_by.cause.stops_one_destination:
            sent[url] = Sent(tuple(not_reached(work[url], ())))
            continue
        read = partial(read_limit, table, url)
        watch = TableWatch(read, deadline.clock.now_seconds, patience_seconds)
        limit, stop = known_limit(watch, every_seconds, deadline)
        if stop:
            sent[url] = Sent(tuple(not_reached(work[url], ())), stop)
        else:
            sent[url] = send(replace(context, destination=url, limit=limit), watch)
    return {url: sent[url] for url in work}


def _name(url: str) -> str:
    return QueueAddress.from_url(url).name
