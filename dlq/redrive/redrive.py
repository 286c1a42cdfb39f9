"""The verb ``redrive``: what a plan says, done to exactly the messages that it froze.

Resolve the plan: one disposition per message. Write the dispositions into the archive. Send, to one
destination after the other. Summarize.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from botocore.exceptions import BotoCoreError, ClientError

from dlq.archive.group_records import read_memory
from dlq.archive.ledger.claims import open_run_notes
from dlq.archive.ledger.disposition import Disposition
from dlq.archive.ledger.stop import Stop
from dlq.archive.messages.message_reading import FILE
from dlq.archive.storage.files import Archive
from dlq.aws.clients import ClientFactory, aws_client, read_limit, sqs_sender
from dlq.engine import Engine
from dlq.explain.signature.payload import Pointer, pointer_in_attributes, unwrap
from dlq.explain.triage import GroupMemory
from dlq.figures import counted
from dlq.ids.columns import have_disposition
from dlq.progress import Progress, silent
from dlq.redrive.halted_plan import halted_note
from dlq.redrive.ramping.ramp import Ramp
from dlq.redrive.ramping.readings import begin_counters, unread_limits
from dlq.redrive.ramping.step_records import Forecast, step_sizes
from dlq.redrive.ramping.verdict_rules import LOOKS_A_MINUTE
from dlq.redrive.resolving.archived_rows import read_archived
from dlq.redrive.resolving.edits import edit_samples
from dlq.redrive.resolving.resolve import ResolvedPlan, resolved_plan
from dlq.redrive.run_record import begin_run, end_run
from dlq.redrive.send_run import RedriveRun
from dlq.redrive.sending.stop_signals import Clock, Deadline, TableWatch
from dlq.redrive.sending.task_runner import TaskRunner
from dlq.redrive.sending.waiting import look_until, wait_for_limit
from dlq.redrive.summary import RedriveSummary, Sent, Tally
from dlq.redrive.totals import first_stop, not_reached, summarize
from dlq_replay.aws.sqs import describe
from dlq_replay.wire.addresses import QueueAddress

_CLOCK = Clock()

_POINTER_SAMPLE = 100
"""The number of messages that are looked at for pointers to S3."""


def redrive(
    engine: Engine,
    run: RedriveRun,
    *,
    make_sender: ClientFactory = sqs_sender,
    progress: Progress = silent,
    clock: Clock = _CLOCK,
    announce: Callable[[str], object] = str,
) -> RedriveSummary:
    """Say what the plan would do now, and with ``execute`` do it. Safe to repeat at any time.

    *run* comes from ``prepare``. *announce* gets, before the first message is sent, a sentence for
    each thing that nobody watches in this run. They are notes of the summary, too.

    Raises:
        InputError: an edit is not what this engine takes, or the messages do not fit into memory;
            the plan's faults are all named. Nothing was sent.
        BusyError: another redrive or restore is going on, or an erase. Nothing was sent.
        ArchiveError: the archive cannot be used. Nothing was sent.
    """
    deadline = Deadline.after(run.request.time_budget_seconds, clock)
    if run.editor.attribute_sql:
        # Read before without an engine, which alone knows the types.
        run.plan_file.plan(engine.attribute_fault)
    memory = read_memory(run.archive)
    # Locked before the plan is resolved: what another plan decides after that would not be seen.
    with run.locked(progress) as lock:
        with progress("resolving each message", str):
            resolved = resolved_plan(engine, run)
        notes = [*run.queue_notes, *resolved.notes, *_halted_notes(resolved, memory)]
        if run.request.queue is not None:
            notes.append(f"only messages of queue {run.request.queue} count in this run")
        if not run.request.execute:
            summary = _dry_run(engine, run, resolved)
            return replace(summary, notes=(*notes, *summary.notes))

        newly_counted, unwatched = _begin_counting(run, resolved)
        for note in unwatched:
            announce(note)

        runner = begin_run(
            engine,
            run,
            resolved,
            lock,
            make_sender=make_sender,
            progress=progress,
            deadline=deadline,
        )
        sender = _DestinationSender(runner, run, memory, newly_counted)
        sent = sender.send_all(resolved.work)
        summary = end_run(runner, run.plan.groups, resolved, sent)
    return replace(
        summary,
        notes=(*notes, *unwatched, *summary.notes),
        decisions_sha256=run.plan.decisions_sha256,
    )


def _halted_notes(resolved: ResolvedPlan, memory: GroupMemory) -> list[str]:
    """Return a sentence for each group that somebody, or a ramp, has halted."""
    # In the plan's order, each once: a repeated dry run says the same.
    notes: dict[str, str] = {}
    for tally in resolved.planned:
        if tally.disposition == Disposition.HALTED:
            notes[tally.group_id] = halted_note(tally.group_id, memory.halted[tally.group_id])
    return list(notes.values())


def _dry_run(engine: Engine, run: RedriveRun, resolved: ResolvedPlan) -> RedriveSummary:
    """Return what the run would do, with what an operator should know before it does."""
    rows = resolved.dispositions
    notes = [run.why_no_ramp] if run.why_no_ramp else []
    notes += open_run_notes(run.archive)
    notes += _pointer_notes(run.archive, rows, run.request.pointer_bucket)
    shows = run.request.has_samples
    samples = edit_samples(engine, run.archive, rows, run.editor, run.masks) if shows else ()
    return replace(
        summarize(run, run.plan.groups, resolved),
        samples=samples,
        notes=tuple(notes),
        forecast=_forecast(run, resolved.work),
        decisions_sha256=run.plan.decisions_sha256,
    )


def _begin_counting(run: RedriveRun, resolved: ResolvedPlan) -> tuple[set[str], list[str]]:
    """Make the counters of what fails again.

    Return the groups that had none, and a sentence for each thing that nobody watches in this run.
    """
    group_ids = {tally.group_id for tally in _to_send(resolved.work)}
    if not group_ids:
        return set(), []
    newly_counted, why_uncounted = begin_counters(run.request, run.plan_id, group_ids)
    why_unlimited = unread_limits(run.request, resolved.work)
    reasons = (run.why_no_ramp, why_uncounted, why_unlimited)
    return newly_counted, [reason for reason in reasons if reason]


def _to_send(work: Mapping[str, Sequence[Tally]]) -> Iterator[Tally]:
    """Yield the counts of what is to be sent, of all destinations."""
    for tally in chain.from_iterable(work.values()):
        if tally.disposition == Disposition.SEND:
            yield tally


@dataclass(slots=True)
class _DestinationSender:
    """Sends to one destination after the other; where ramps wait, they wait together.

    Attributes:
        memory: what was known of the groups when the run began.
        newly_counted: the groups whose counters this run has made.
        sent: the results of the destinations that have ended.
        waiting: the ramps that wait for a verdict, by destination.
    """

    runner: TaskRunner
    run: RedriveRun
    memory: GroupMemory
    newly_counted: Collection[str]
    sent: dict[str, Sent] = field(default_factory=dict)
    waiting: dict[str, Ramp] = field(default_factory=dict)

    def send_all(self, work: Mapping[str, Sequence[Tally]]) -> dict[str, Sent]:
        """Send to each destination; return the results in the order of *work*.

        What stops the run stops all destinations. A limit of the circuit breaker, a failure table
        that cannot be read for a minute, a queue that takes no messages, or a ramp that waits for
        too long, stops its own destination alone. Limited ones come last, and before them those
        with the largest groups: a ramp waits between its steps, and a single message has one.
        """
        table = self.run.request.failure_table
        is_limited = {url: bool(read_limit(table, url).sentence) for url in work}
        largest = {url: max(tally.count for tally in work[url]) for url in work}
        for url in sorted(work, key=lambda url: (is_limited[url], largest[url], url)):
            while self._shares_a_group(work[url]):
                self._await_ramps()
            if self._run_stop():
                self.sent[url] = Sent(tuple(not_reached(work[url])))
            else:
                with self._others_waiting():
                    self._begin(url, work[url])
        while self.waiting:
            self._await_ramps()
        return {url: self.sent[url] for url in work}

    def _run_stop(self) -> Stop | None:
        """Return why the run ends, if it does."""
        stop = first_stop(self.sent.values())
        if stop and not stop.cause.stops_one_destination:
            return stop
        return None

    def _shares_a_group(self, work: Sequence[Tally]) -> bool:
        """Return whether a ramp that waits has a group of *work*.

        What fails again is counted by group, not by queue.
        """
        groups = {tally.group_id for tally in work}
        for ramp in self.waiting.values():
            if not groups.isdisjoint(tally.group_id for tally in ramp.work):
                return True
        return False

    def _begin(self, url: str, work: Sequence[Tally]) -> None:
        """Send to one destination, by ramp where something tells how a step went."""
        request = self.run.request
        deadline = self.runner.deadline
        # Whoever asks for everything at once does without the table.
        patience_seconds = None if request.goes_at_once else request.minute_seconds
        read = partial(read_limit, request.failure_table, url)
        watch = TableWatch(read, deadline.clock.now_seconds, patience_seconds)
        limit, stop = wait_for_limit(watch, request.minute_seconds / LOOKS_A_MINUTE, deadline)
        if stop:
            self.sent[url] = Sent(tuple(not_reached(work)), stop)
            return

        if self.run.probes:
            ramp = Ramp(
                runner=self.runner,
                probe=self.run.probes[url],
                work=work,
                limit=limit,
                memory=self.memory,
                watch=watch,
                newly_counted=self.newly_counted,
            )
            self._note(url, ramp, ramp.begin())
            return
        self.sent[url] = self.runner.execute(
            self.runner.written,
            work,
            self.runner.context(url, limit),
            QueueAddress.from_url(url).name,
            lambda: watch.trouble(limit),
        )

    def _note(self, url: str, ramp: Ramp, result: Sent | None) -> None:
        """Note the result of a ramp, or that it waits."""
        if result is None:
            self.waiting[url] = ramp
        else:
            self.waiting.pop(url, None)
            self.sent[url] = result

    def _await_ramps(self) -> None:
        """Wait until a ramp may go on, and let each go on that may; or end all with the run.

        While all wait, the archive lock is given back. Whoever takes it closes this run, which
        then sends nothing more.
        """
        deadline = self.runner.deadline
        ready: list[str] = []

        def is_over() -> bool:
            for url, ramp in self.waiting.items():
                if ramp.look():
                    ready.append(url)
            if not ready and self.runner.lock:
                self.runner.lock.release()
            return bool(ready)

        stop = self._run_stop()
        if not stop:
            every_seconds = self.run.request.minute_seconds / LOOKS_A_MINUTE
            with self.runner.progress("ramp", self._why_waiting):
                stop = look_until(is_over, every_seconds, deadline)

        with self._others_waiting():
            for url in list(self.waiting) if stop else ready:
                ramp = self.waiting[url]
                self._note(url, ramp, ramp.go_on(stop or self._run_stop()))

    @contextmanager
    def _others_waiting(self) -> Iterator[None]:
        """Let the ramps that wait wait longer by the time of this block: nobody looks meanwhile."""
        now_seconds = self.runner.deadline.clock.now_seconds
        began_at = now_seconds()
        yield
        seconds = now_seconds() - began_at
        for ramp in self.waiting.values():
            ramp.wait_longer(seconds)

    def _why_waiting(self) -> str:
        """Return why the first ramp waits, and how many others do."""
        # A copy: progress asks in a thread of its own.
        ramps = list(self.waiting.values())
        if not ramps:
            return ""
        why = ramps[0].why_waiting
        if len(ramps) == 1:
            return why
        name = QueueAddress.from_url(ramps[0].probe.queue.url).name
        return f"{name}: {why} ({counted(len(ramps) - 1, 'other queue')} waiting)"


def _pointer_notes(archive: Archive, dispositions: pa.Table, bucket: str | None) -> Iterator[str]:
    """Yield how many bodies of messages to send are pointers to S3, by a sample of them.

    Forms and envelopes are those that the report knows. Their objects are looked up in *bucket*,
    also those whose bucket the message does not say.
    """
    to_send = np.flatnonzero(have_disposition(dispositions, [Disposition.SEND]))
    # The same ones each time, so that a repeated dry run says the same.
    sample = np.random.default_rng(0).permutation(to_send)[:_POINTER_SAMPLE]
    messages = dispositions.select(["message_id", FILE]).take(pa.array(np.sort(sample)))
    columns = ("message_id", "body", "attributes")
    rows = read_archived(archive, messages, columns, lambda table: table)
    pointers = list(_pointers(rows))
    if not pointers:
        return

    keys = [pointer.key for pointer in pointers if bucket and pointer.bucket in (bucket, "")]
    note = f"{len(pointers)} of {counted(rows.num_rows, 'sampled message')} are pointers to S3"
    checks: list[str] = []
    if keys:
        try:
            gone = gone_objects(aws_client("s3"), bucket or "", keys)
        except (ClientError, BotoCoreError) as error:
            yield f"{note}, not checked: {describe(error)}"
            return
        checks.append(f"the objects of {gone} are gone")
    unchecked = len(pointers) - len(keys)
    if unchecked:
        checks.append(f"{unchecked} not checked, their bucket is not that of --pointer-bucket")
    yield f"{note}: {'; '.join(checks)}"


def _pointers(rows: pa.Table) -> Iterator[Pointer]:
    """Yield where the body of each of these messages is, if it is on S3."""
    for row in rows.to_pylist():
        texts = [(name, value["string_value"]) for name, value in row["attributes"] or ()]
        pointer = unwrap(row["body"] or "").pointer or pointer_in_attributes(texts)
        if pointer is not None:
            yield pointer


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


def _forecast(run: RedriveRun, work: Mapping[str, Sequence[Tally]]) -> Forecast | None:
    """Return the ramp that the run would be; None where everything would go at once."""
    if not run.probes:
        return None
    most_sizes: tuple[int, ...] = ()
    longest_seconds = 0.0
    for url, tallies in work.items():
        largest = max((tally.count for tally in _to_send({url: tallies})), default=0)
        sizes = tuple(step_sizes(largest))
        # Nobody waits for the last step. The ramps of several queues wait together.
        waits = max(0, len(sizes) - 1)
        failure_seconds = run.probes[url].queue.failure_seconds
        seconds = waits * (failure_seconds + 2 * run.request.minute_seconds)
        longest_seconds = max(longest_seconds, seconds)
        most_sizes = max(most_sizes, sizes, key=sum)
    return Forecast(most_sizes, longest_seconds)
