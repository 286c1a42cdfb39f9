"""A redrive by ramp: step after step to one destination, each judged before the next.

The run's own tasks send a step, and its messages are in the ledger like any other. The records of
the steps say how far a group is, so the next run, also one of a later plan, goes on where this one
ended.

Where a ramp has to wait for a verdict it says so to its caller, which lets the ramps of other
destinations go on meanwhile. While all wait, the run does not hold the archive lock. Another run
that takes the lock marks this one as closed: then it ends, and the next one goes on.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from dlq.archive.group_records import add_statement
from dlq.archive.ledger.claims import POSITION, Ledger, chunk_count, in_order_units
from dlq.archive.ledger.disposition import WORK, Disposition
from dlq.archive.ledger.stop import Stop, StopCause
from dlq.archive.messages.message_store import combined
from dlq.archive.storage.table_parts import read_whole, write_whole
from dlq.aws.clients import Limit, returns_table
from dlq.errors import ArchiveError, BusyError
from dlq.explain.triage import GroupMemory, Statement, is_group_id
from dlq.ids.columns import (
    DESTINATION,
    DISPOSITION,
    code_of,
    disposition_codes,
    have_disposition,
    texts_of,
    values_among,
    with_column,
    with_disposition_codes,
)
from dlq.ids.counts import counted_by
from dlq.ids.order import with_chunks, with_waiting
from dlq.ids.steps import drawn_step
from dlq.redrive.ramping.readings import ReturnsProbe
from dlq.redrive.ramping.step_records import LastCount, Step, Steps, earlier_steps, ended_steps
from dlq.redrive.ramping.verdict_rules import (
    LOOKS_A_MINUTE,
    PATIENCE_MINUTES,
    GroupRamp,
    QueueTimes,
)
from dlq.redrive.ramping.verdicts import Counts, Verdicts
from dlq.redrive.sending.stop_signals import TableWatch
from dlq.redrive.sending.task_runner import TaskRunner
from dlq.redrive.sending.waiting import look_until, wait_for_limit
from dlq.redrive.sending.written_rows import write_rows
from dlq.redrive.summary import Sent, Tally
from dlq.redrive.totals import not_reached
from dlq_replay.errors import TableError
from dlq_replay.wire.addresses import QueueAddress

_STEP_TYPES: dict[str, pa.DataType] = {
    "message_id": pa.string(),
    "group_id": pa.string(),
    "unit": pa.string(),
    "position": pa.int64(),
}
_STEP = pa.schema(_STEP_TYPES)
"""The columns of the table of a step."""

_LEFT_OUT = (Disposition.NOT_SELECTED, Disposition.OVER_LIMIT)
"""Messages that a run leaves because it was asked for less."""

_OTHERS_ACTED = (
    "another run has acted on the archive while this one waited for a verdict: run the same "
    "command again"
)


@dataclass
class Ramp:
    """The ramp of one run to one destination.

    ``begin`` it; while it waits, ``look``; when the wait is over, let it ``go_on``.

    Attributes:
        runner: sends the steps. Its archive lock may be given back while the ramp waits.
        probe: measures the destination, and how much of it fails again.
        work: how many messages of each group this run sends there, or discards.
        limit: of the circuit breaker, as the ramp begins.
        memory: what was known of the groups when the run began.
        watch: sees whether the failure table can be read.
        newly_counted: the groups that had no counters until this run made them.
    """

    runner: TaskRunner
    probe: ReturnsProbe
    work: Sequence[Tally]
    limit: Limit
    memory: GroupMemory
    watch: TableWatch
    newly_counted: Collection[str] = ()
    _left: Counter[str] = field(default_factory=Counter)
    """By group id, how many messages this run has to send, beside those of the steps so far."""
    _taken: list[pa.Table] = field(default_factory=list)
    """The messages of the steps that this run has begun to send."""
    _blocked: dict[str, Collection[str]] = field(default_factory=dict)
    """Groups of which no message could be drawn, each with the groups that were held then: it is
    tried again when those are others."""
    _tallies: list[Tally] = field(default_factory=list)
    """The outcomes of the messages of the steps that this run has sent."""
    _counts: dict[str, int] = field(default_factory=dict)
    """The number of messages of each group of the plan that failed again, as read last."""
    _sends: list[Tally] = field(default_factory=list)
    """What this run has to send."""
    _discarded: Sequence[Tally] = ()
    """The outcomes of the other messages."""
    _wait_until: float | None = None
    """The time at which a wait for a verdict ends; None where it does not wait."""
    _looked_at: float = 0
    _is_over: bool = False
    """The time and the result of the last look of a wait."""

    def __post_init__(self) -> None:
        """Read the steps of earlier plans. Raises ArchiveError."""
        run = self.runner.run
        request = self.probe.request
        queue = self.probe.queue
        address = QueueAddress.from_url(queue.url)
        self._run = run
        self._in_order = address.is_fifo and not request.allow_reordering
        self.steps = Steps(run.archive, run.plan_id, address.name)

        self._verdicts = Verdicts(
            plan_id=run.plan_id,
            earlier=earlier_steps(run.archive, run.plan_id, address.name),
            state=self.memory.state,
            read_counts=self._read_counts,
            read=self.probe.read,
            now_seconds=self.runner.deadline.clock.now_seconds,
            times=QueueTimes(
                queue.failure_seconds, queue.retention_seconds, request.minute_seconds
            ),
            delay_seconds=queue.delay_seconds,
            allowed=request.allow_returns,
            in_order=self._in_order,
            newly_counted=self.newly_counted,
            on_bad=self._halt_group,
        )

    def begin(self) -> Sent | None:
        """Record the discards, and send until it waits; return as ``go_on``."""
        others: list[Tally] = []
        for tally in self.work:
            if tally.disposition == Disposition.SEND:
                self._sends.append(tally)
                self._left[tally.group_id] += tally.count
            else:
                others.append(tally)

        context = self.runner.context(self.probe.queue.url, self.limit)
        first = self.runner.execute(self.runner.written, others, context, self.steps.queue)
        self._discarded = first.tallies
        return self._sent_until_wait(first.stopped_by)

    def go_on(self, stop: Stop | None = None) -> Sent | None:
        """Send step after step, until it has to wait again, or nothing more may go in this run.

        *stop* is why the run ends, if it does: then nothing more is sent.

        Returns:
            The result; None while it waits for a verdict.
        """
        # An interrupted run needs no lock: it sends nothing more.
        return self._sent_until_wait(stop or self._take_lock_again() or self.watch.lost())

    def _sent_until_wait(self, stop: Stop | None) -> Sent | None:
        if not stop:
            stop = self._send_steps()
            if not stop and self._wait_until is not None:
                return None

        self._verdicts.judge(self._left_of(self._sends))
        self._note_returns()
        if not stop and (why := self._why_not_all()):
            stop = Stop(StopCause.RAMP, why)

        tallies = (*self._discarded, *self._tallies, *self._not_sent(self._sends))
        return Sent(tallies, stop, tuple(self._verdicts.groups.values()))

    def _send_steps(self) -> Stop | None:
        """Send steps until no group may have one now; return what cut that short, else None.

        Each round does one thing, by what the archive says of the steps so far:

        - The last step is not recorded as sent: send what is left of it.
        - It is: once a group may have its next step, record that one, whose messages go in the
          round after. None may now: wait. None may at all: the ramp ends.

        For two groups, A of 9 messages and B of 1, of which nothing fails again: step 1 with one
        message of each; step 2 with two more of A; step 3 with the last six of A. Where A's message
        of step 1 fails again, A is halted, and eight of A stay.
        """
        while True:
            if stop := self._lost_lock():
                return stop
            steps = self._verdicts.steps = self.steps.read()
            # What failed again of a group since its step was made halts it before that is sent.
            self._verdicts.judge(self._left_of(self._sends))

            if len(steps) > ended_steps(steps):
                if stop := self._execute(steps[-1]):
                    return stop
                continue

            if not self.look():
                return None
            self._wait_until = None
            turn = self._turn()
            stop = self.watch.lost()
            if stop or not turn:
                return stop
            if stop := self._begin_next(turn):
                return stop

    def _not_sent(self, sends: Sequence[Tally]) -> list[Tally]:
        """Return by group what no step has sent: it is halted, or was not reached."""
        tallies: list[Tally] = []
        for tally in not_reached(sends, self._tallies):
            if self._verdicts.is_bad(tally.group_id):
                tallies.append(replace(tally, disposition=Disposition.HALTED))
            else:
                tallies.append(tally)
        return tallies

    def _note_returns(self) -> None:
        """Write down what failed again by now, for those who look later."""
        if self._counts:
            # Only people read it: its failure must not hide the answer.
            with suppress(ArchiveError):
                now = self._verdicts.now_seconds()
                self.steps.note_returns(LastCount(now, self._counts))

    def _left_of(self, sends: Sequence[Tally]) -> dict[str, int]:
        """Return how many messages are left of each group, 0 included."""
        return {tally.group_id: self._left[tally.group_id] for tally in sends}

    @property
    def look_seconds(self) -> float:
        """The time between two looks."""
        return self.probe.request.minute_seconds / LOOKS_A_MINUTE

    @property
    def why_waiting(self) -> str:
        """Why no group has its next step now; see ``Verdicts.why_not``."""
        return self._verdicts.why_not(self._left)

    def look(self) -> bool:
        """Look how the last step went; return whether the wait for a verdict is over.

        It is over where a group may have its next step, and where nothing becomes known that could
        be known soon. Two looks within half of ``look_seconds`` are one: queues would say the same.
        """
        verdicts = self._verdicts
        now = verdicts.now_seconds()
        if self._wait_until is None:
            self._wait_until = now + PATIENCE_MINUTES * self.probe.request.minute_seconds
        elif now - self._looked_at < self.look_seconds / 2:
            return self._is_over

        verdicts.look(self._left)
        waiting = verdicts.waiting(self._left)
        may_go_on = bool(self._turn()) and verdicts.has_looked_enough(waiting)
        is_late = max(verdicts.now_seconds(), verdicts.ready_at(waiting)) > self._wait_until
        self._looked_at = now
        self._is_over = may_go_on or not waiting or is_late or bool(self.watch.lost())
        return self._is_over

    def wait_longer(self, seconds: float) -> None:
        """Wait longer for a verdict: nobody looked for this time, as other ramps sent steps."""
        if self._wait_until is not None:
            self._wait_until += seconds

    def _lost_lock(self) -> Stop | None:
        """Return why this run must record no step: it has lost the lock, and maybe did not know."""
        if not self.runner.lock:
            return None
        try:
            self.runner.lock.require()
        except ArchiveError as error:
            return Stop(StopCause.LOCK_LOST, str(error))
        return None

    def _take_lock_again(self) -> Stop | None:
        """Take the lock if it was given back; return why this run must send nothing more."""
        lock = self.runner.lock
        run = self._run
        if not lock or lock.is_held:
            return None
        try:
            lock.take_again()
            is_closed = Ledger(run.archive, run.plan_id, run.run_id).is_closing()
        except BusyError as error:
            return Stop(StopCause.LOCK_LOST, f"{error}; then run the same command again")
        except ArchiveError as error:
            return Stop(StopCause.ARCHIVE, str(error))
        if is_closed:
            return Stop(StopCause.LOCK_LOST, _OTHERS_ACTED)
        return None

    def _turn(self) -> dict[str, int]:
        """Return the groups that may have their next step now: how many messages it may have."""
        held = self._held_groups()
        ready = self._verdicts.ready(self._left)
        turn: dict[str, int] = {}
        for group_id, size in ready.items():
            if self._blocked.get(group_id) != held:
                turn[group_id] = size
        return turn

    def _held_groups(self) -> list[str]:
        """Return the groups whose message groups must not go on, because something may return."""
        return self._verdicts.held_groups() if self._in_order else []

    def _why_not_all(self) -> str:
        """Return why messages are left that no step has had; empty if there are none."""
        if why := self._verdicts.why_not(self._left):
            return why
        is_blocked = any(self._left[group_id] for group_id in self._blocked)
        return "what is left waits behind messages that stay" if is_blocked else ""

    def _begin_next(self, wanted: Mapping[str, int]) -> Stop | None:
        """Record the next step of these groups; return why there can be none.

        *wanted* is how many messages of each group it may have.
        """
        returned, stopped_by = self._known_counts(wanted)
        if stopped_by:
            return stopped_by
        counted = {group_id: size for group_id, size in wanted.items() if group_id in returned}
        if not counted:
            why = "somebody removed the counters of what fails again; run again"
            return Stop(StopCause.RAMP, why)

        drawn = self._drawn(counted)
        messages = {row["group_id"]: row["count"] for row in counted_by(drawn, "group_id")}
        if not messages:
            self._blocked |= dict.fromkeys(counted, self._held_groups())
            return None

        step = self._step_of(messages, returned)
        # The table first: a step that is recorded has all of its messages.
        write_whole(self._run.archive, self.steps.table(step.number, step.run_id), [drawn])
        self.steps.create(step)
        self._blocked.clear()
        return None

    def _step_of(self, messages: Mapping[str, int], returned: Counts) -> Step:
        """Return the record of the next step, with these numbers of messages by group."""
        returned_before: dict[str, int] = {}
        halts: dict[str, int] = {}
        proven: dict[str, int] = {}
        left: dict[str, int] = {}
        for group_id, count in messages.items():
            returned_before[group_id] = returned[group_id]
            halts[group_id] = self.memory.state(group_id).halts
            proven[group_id] = self._verdicts.proven(group_id)
            left[group_id] = self._left[group_id] - count
        return Step(
            number=len(self._verdicts.steps) + 1,
            run_id=self._run.run_id,
            began_at=self._verdicts.now_seconds(),
            messages=messages,
            returned_before=returned_before,
            halts=halts,
            proven=proven,
            left=left,
        )

    def _drawn(self, wanted: Mapping[str, int]) -> pa.Table:
        """Draw these numbers of messages by group, and say where in the step each of them is."""
        is_fifo = QueueAddress.from_url(self.probe.queue.url).is_fifo
        units = in_order_units(sum(wanted.values())) if is_fifo else None
        # What could not be sent of these is drawn again by runs that begin later.
        taken = pa.concat_tables([_STEP.empty_table(), *self._taken])
        return drawn_step(
            self._rows_here(),
            wanted,
            taken_ids=taken["message_id"],
            returning_ids=self._sent_of(self._held_groups())["message_id"],
            in_order=self._in_order,
            units=units,
        )

    def _rows_here(self) -> pa.Table:
        """Return what goes here, and what stays. It is not kept: many ramps may wait."""
        rows = self.runner.written.rows
        is_work = have_disposition(rows, WORK)
        goes_here = values_among(rows[DESTINATION], [self.probe.queue.url])
        return rows.filter(pa.array(goes_here | ~is_work))

    def _sent_of(self, group_ids: Sequence[str]) -> pa.Table:
        """Return what the steps of this plan have of these groups."""
        tables = [_STEP.empty_table()]
        for step in self._verdicts.steps:
            if not step.messages.keys().isdisjoint(group_ids):
                tables.append(self._table(step))
        rows = pa.concat_tables(tables)
        return rows.filter(pa.array(values_among(rows["group_id"], group_ids)))

    def _table(self, step: Step) -> pa.Table:
        """Read the messages of a step: ``_STEP``."""
        folder = self.steps.table(step.number, step.run_id)
        return read_whole(self._run.archive, folder, _STEP)

    def _execute(self, step: Step) -> Stop | None:
        """Send what is left of the last step, and write down that it is sent; else return why."""
        limit, stop = wait_for_limit(self.watch, self.look_seconds, self.runner.deadline)
        if stop:
            return stop
        rows = self._rows(step)
        planned: list[Tally] = []
        work: list[Tally] = []
        for row in counted_by(rows, "group_id", DISPOSITION):
            tally = Tally(row["group_id"], row[DISPOSITION], row["count"])
            planned.append(tally)
            if tally.disposition == Disposition.SEND:
                work.append(tally)
                self._left[tally.group_id] -= tally.count
        # Groups of which nothing is left go.
        self._left = +self._left

        # A copy: a thread reads it meanwhile.
        left = {group_id: self._left[group_id] for group_id in {*self._left, *step.messages}}

        def trouble() -> Stop | None:
            if stop := self.watch.trouble(limit):
                return stop
            return Stop(StopCause.BAD_STEP) if self._verdicts.is_any_bad(left) else None

        self._verdicts.here.add(step.number)
        stage = f"{self.steps.queue}-step-{step.number}"
        written = write_rows(self._run.archive, rows, f"{self._run.folder}/steps/{stage}")
        context = self.runner.context(
            self.probe.queue.url,
            limit,
            step=step.number,
            # Of the other groups nothing is left that a halt could keep back.
            unproven_groups=step.messages.keys() & self._left.keys(),
        )
        result = self.runner.execute(written, work, context, stage, trouble)

        for tally in result.tallies:
            if tally.disposition != Disposition.NOT_REACHED:
                planned.append(tally)
                self._tallies.append(tally)
        return result.stopped_by or self._end_step(step, planned)

    def _end_step(self, step: Step, tallies: Collection[Tally]) -> Stop | None:
        """Write down that a step is sent, by what became of its messages; else return why not."""
        dispositions = {tally.disposition for tally in tallies}
        if Disposition.IN_PROGRESS in dispositions:
            why = (
                f"a task was started again, and what it had begun to send of step {step.number} is "
                "not known yet; run again"
            )
            return Stop(StopCause.RAMP, why)

        has_left_out = not dispositions.isdisjoint(_LEFT_OUT)
        if has_left_out or self._has_other_groups(step):
            why = (
                f"this run does not select all messages of step {step.number}, which another one "
                "has begun; run it as that one, or collect again"
            )
            return Stop(StopCause.RAMP, why)

        sent = Counter(dict.fromkeys(step.messages, 0))
        for tally in tallies:
            if tally.disposition in (Disposition.SENT, Disposition.SENT_BEFORE):
                sent[tally.group_id] += tally.count
        sent_at = self.runner.deadline.clock.now_seconds()
        self.steps.create(replace(step, sent_at=sent_at, messages=sent))

        # On FIFO only a plan that is resolved again shows what waits behind the others.
        is_short = self._in_order and sent.total() < sum(step.messages.values())
        if not is_short:
            return None
        return Stop(StopCause.RAMP, f"some of step {step.number} could not be sent; run again")

    def _has_other_groups(self, step: Step) -> bool:
        """Return whether a run of one group has not read all messages of a step."""
        if self.probe.request.group is None:
            return False
        own_groups = texts_of(self._rows_here()["group_id"].cast(pa.string()).unique())
        return not step.messages.keys() <= set(own_groups)

    def _rows(self, step: Step) -> pa.Table:
        """Return the rows of a step, in its own chunks.

        Nothing goes of a group that was halted since it was drawn, nor what is behind it.
        """
        table = self._table(step)
        self._taken.append(table)
        rows = self._rows_here().drop_columns([*POSITION])
        halted = [group_id for group_id in step.messages if self._is_halted(step, group_id)]
        if halted:
            codes = disposition_codes(rows)
            is_send = have_disposition(rows, [Disposition.SEND])
            codes[is_send & values_among(rows["group_id"], halted)] = code_of(Disposition.HALTED)
            rows = with_disposition_codes(rows, codes)
            if self._in_order:
                rows = with_waiting(rows)

        own = with_chunks(table, chunk_count(sum(step.messages.values())))
        places = pc.index_in(rows["message_id"], value_set=combined(own["message_id"]))
        rows = rows.filter(places.is_valid())
        of_step = own.take(places.drop_null())
        for name in POSITION:
            rows = with_column(rows, name, of_step[name])
        return rows

    def _is_halted(self, step: Step, group_id: str) -> bool:
        """Return whether a group was halted since a step of it was drawn."""
        halts = self.memory.state(group_id).halts
        return self._verdicts.is_bad(group_id) or step.halts.get(group_id) != halts

    def _halt_group(self, ramp: GroupRamp) -> None:
        """Write down that nothing more of a group is sent until somebody decides again."""
        if is_group_id(ramp.group_id):
            statement = Statement(datetime.now(UTC), self._run.who, halted=ramp.reason)
            add_statement(self._run.archive, ramp.group_id, statement)

    def _known_counts(self, groups: Collection[str]) -> tuple[Counts, Stop | None]:
        """Read the counters of this plan until they are known; return also why they are not."""
        counts: Counts | None = None

        def is_over() -> bool:
            nonlocal counts
            counts = self._read_counts(self._run.plan_id, groups)
            return counts is not None or bool(self.watch.lost())

        stopped_by = look_until(is_over, self.look_seconds, self.runner.deadline)
        if counts is None:
            stopped_by = stopped_by or self.watch.lost()
        return counts or {}, stopped_by

    def _read_counts(self, plan_id: str, groups: Collection[str]) -> Counts | None:
        """Read how many failed again; a group without counters is missing. None: not known."""
        table = returns_table(self.probe.request.failure_table or "", self.probe.queue.url)
        try:
            returns_by_group = table.read(plan_id, groups)
        except TableError as error:
            self.watch.saw(str(error))
            return None
        self.watch.saw("")
        counts = {group_id: returns.returned for group_id, returns in returns_by_group.items()}
        if plan_id == self._run.plan_id:
            self._counts |= counts
        return counts
