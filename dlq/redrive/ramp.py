"""A redrive by ramp: step after step to one destination, each judged before the next.

The run's own tasks send a step, and its messages stand in the ledger like any other. What a run has
not finished, the next one goes on with: the records of the steps say where it was, also for a group
of a later plan.

While a run waits for a verdict it does not hold the archive lock. Whoever takes it meanwhile to act
closes this run: then it ends, and the next one goes on.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from dlq.archive.group_records import add_statement
from dlq.archive.ledger.claims import (
    POSITION,
    Ledger,
    chunk_count,
    in_order_units,
)
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
from dlq.plan.ramp import (
    LOOKS_A_MINUTE,
    PATIENCE_MINUTES,
    GroupRamp,
    LastCount,
    QueueTimes,
    Step,
    Steps,
    earlier_steps,
    ended_steps,
)
from dlq.redrive.execution import (
    TaskRunner,
    known_limit,
    look_until,
    write_rows,
)
from dlq.redrive.readings import Probe
from dlq.redrive.sending.stop_signals import TableWatch
from dlq.redrive.summary import Sent, Tally
from dlq.redrive.totals import not_reached
from dlq.redrive.verdicts import Counts, Verdicts
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

_OTHERS_ACTED = (
    "another run has acted on the archive while this one waited for a verdict: run the same "
    "command again"
)


@dataclass
class Ramp:
    """The ramp of one run to one destination.

    Attributes:
        runner: gives its archive lock back while the ramp waits for a verdict.
        probe: looks at the destination, and at what comes back of it.
        work: of this destination's messages that make work, how many of each group.
        limit: of the circuit breaker, as the ramp begins.
        memory: what was known of the groups when the run began.
        watch: sees whether the failure table can be read.
        uncounted: the groups whose counters this run has made.
    """

    runner: TaskRunner
    probe: Probe
    work: Sequence[Tally]
    limit: Limit
    memory: GroupMemory
    watch: TableWatch
    uncounted: Collection[str] = ()
    _left: Counter[str] = field(default_factory=Counter)
    """By group id, how many messages this run has to send that it has found in no step yet."""
    _taken: list[pa.Table] = field(default_factory=list)
    """The messages of the steps that this run has begun to send."""
    _blocked: dict[str, Collection[str]] = field(default_factory=dict)
    """Of which groups nothing could be drawn since the last step, and which were held then."""
    _tallies: list[Tally] = field(default_factory=list)
    _counts: dict[str, int] = field(default_factory=dict)
    """How many messages of each group of the plan came back, as read last."""

    def __post_init__(self) -> None:
        """Read the steps of earlier plans. Raises ArchiveError."""
        run = self.runner.run
        request = self.probe.request
        queue = self.probe.queue
        address = QueueAddress.from_url(queue.url)
        self._run = run
        self._in_order = address.is_fifo and not request.allow_reordering
        self.steps = Steps(run.archive, run.plan_id, address.name)

        rows = self.runner.written.rows
        is_work = have_disposition(rows, WORK)
        goes_here = values_among(rows[DESTINATION], [queue.url])
        self.rows = rows.filter(pa.array(goes_here | ~is_work))
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
            uncounted=self.uncounted,
            on_bad=self._stop_group,
        )

    def send(self) -> Sent:
        """Record what is not sent; send step after step, until nothing more may go in this run."""
        sends = [one for one in self.work if one.word == Disposition.SEND]
        others = [one for one in self.work if one not in sends]
        self._left.update({one.group_id: one.count for one in sends})
        context = self.runner.context(self.probe.queue.url, self.limit)
        first = self.runner.execute(self.runner.written, others, context, self.steps.queue)
        stopped_by = first.stopped_by
        has_more = True
        while has_more and not stopped_by:
            if stopped_by := self._lost_lock():
                break
            steps = self._verdicts.steps = self.steps.read()
            # What came back of a group since its step was made stops it before that is sent.
            self._verdicts.judge(self._left_of(sends))
            if len(steps) > ended_steps(steps):
                stopped_by = self._execute(steps[-1])
            else:
                stopped_by = self._await_turn()
                turn = self._turn()
                has_more = bool(turn)
                if turn and not stopped_by:
                    stopped_by = self._begin_next(turn)
        self._verdicts.judge(self._left_of(sends))
        self._note_returns()
        if not stopped_by and (why := self._why_not_all()):
            stopped_by = Stop(StopCause.RAMP, why)
        left = [
            replace(one, word=Disposition.STOPPED) if self._verdicts.is_bad(one.group_id) else one
            for one in not_reached(sends, self._tallies)
        ]
        tallies = (*first.tallies, *self._tallies, *left)
        return Sent(tallies, stopped_by, tuple(self._verdicts.groups.values()))

    def _note_returns(self) -> None:
        """Write down what came back by now, for those who look later."""
        if self._counts:
            # For people alone: what was sent must be answered.
            with suppress(ArchiveError):
                now = self._verdicts.now_seconds()
                self.steps.note_returns(LastCount(now, self._counts))

    def _left_of(self, sends: Sequence[Tally]) -> dict[str, int]:
        """Return how many messages are left of each group, 0 included."""
        return {one.group_id: self._left[one.group_id] for one in sends}

    @property
    def _look_seconds(self) -> float:
        return self.probe.request.minute_seconds / LOOKS_A_MINUTE

    def _await_turn(self) -> Stop | None:
        """Look until a group may have its next step; return what ended that before, else None.

        It ends also where nothing becomes known that could be known soon. Who has to wait gives
        the archive lock back meanwhile. Whoever takes it closes this run, which then sends nothing
        more.
        """
        now_seconds, verdicts = self._verdicts.now_seconds, self._verdicts
        until = now_seconds() + PATIENCE_MINUTES * self.probe.request.minute_seconds

        def is_over() -> bool:
            verdicts.look(self._left)
            waiting = verdicts.waiting(self._left)
            if self._turn() and verdicts.has_looked_enough(waiting):
                return True
            is_late = max(now_seconds(), verdicts.ready_at(waiting)) > until
            if not waiting or is_late or self.watch.lost():
                return True
            if self.runner.lock:
                self.runner.lock.release()
            return False

        with self.runner.progress("ramp", lambda: verdicts.why_not(self._left)):
            stopped_by = look_until(is_over, self._look_seconds, self.runner.deadline)
        # An interrupted run needs no lock: it sends nothing more.
        return stopped_by or self._take_lock_again() or self.watch.lost()

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
        return {one: size for one, size in ready.items() if self._blocked.get(one) != held}

    def _held_groups(self) -> list[str]:
        """Return the groups whose message groups must not go on, because something may return."""
        return self._verdicts.held_groups() if self._in_order else []

    def _why_not_all(self) -> str:
        """Return why messages are left that no step has had; empty if there are none."""
        why = self._verdicts.why_not(self._left)
        is_blocked = any(self._left[group_id] for group_id in self._blocked)
        return why or ("what is left stands behind messages that stay" if is_blocked else "")

    def _begin_next(self, wanted: Mapping[str, int]) -> Stop | None:
        """Make the next step of these groups; return why there can be none."""
        returned, stopped_by = self._known_counts(wanted)
        if stopped_by:
            return stopped_by
        wanted = {one: size for one, size in wanted.items() if one in returned}
        if not wanted:
            why = "somebody removed the counters of what comes back; run again"
            return Stop(StopCause.RAMP, why)
        number = len(self._verdicts.steps) + 1
        run_id = self._run.run_id
        drawn = self._drawn(wanted)
        messages = {row["group_id"]: row["count"] for row in counted_by(drawn, "group_id")}
        if not messages:
            self._blocked |= dict.fromkeys(wanted, self._held_groups())
            return None
        write_whole(self._run.archive, self.steps.table(number, run_id), [drawn])
        step = Step(
            number=number,
            run_id=run_id,
            began_at=self._verdicts.now_seconds(),
            messages=messages,
            returned_before={one: returned[one] for one in messages},
            stops={one: self.memory.state(one).stops for one in messages},
            proven={one: self._verdicts.proven(one) for one in messages},
            left={one: self._left[one] - count for one, count in messages.items()},
        )
        self.steps.create(step)
        self._blocked.clear()
        return None

    def _drawn(self, wanted: Mapping[str, int]) -> pa.Table:
        """Draw so many messages of each group, and say where in the step each of them is."""
        is_fifo = QueueAddress.from_url(self.probe.queue.url).is_fifo
        units = in_order_units(sum(wanted.values())) if is_fifo else None
        # What could not be sent of these is drawn again by runs that begin later.
        taken = pa.concat_tables([_STEP.empty_table(), *self._taken])
        return drawn_step(
            self.rows,
            wanted,
            taken_ids=taken["message_id"],
            returning_ids=self._sent_of(self._held_groups())["message_id"],
            in_order=self._in_order,
            units=units,
        )

    def _sent_of(self, group_ids: Sequence[str]) -> pa.Table:
        """Return what the steps of this plan have of these groups."""
        tables = [
            self._table(step)
            for step in self._verdicts.steps
            if not step.messages.keys().isdisjoint(group_ids)
        ]
        rows = pa.concat_tables([_STEP.empty_table(), *tables])
        return rows.filter(pa.array(values_among(rows["group_id"], group_ids)))

    def _table(self, step: Step) -> pa.Table:
        """Read the messages of a step: ``_STEP``."""
        folder = self.steps.table(step.number, step.run_id)
        return read_whole(self._run.archive, folder, _STEP)

    def _execute(self, step: Step) -> Stop | None:
        """Send what is left of the last step, and write down that it is sent; else return why."""
        limit, stop = known_limit(self.watch, self._look_seconds, self.runner.deadline)
        if stop:
            return stop
        rows = self._rows(step)
        counted = counted_by(rows, "group_id", DISPOSITION)
        known = [Tally(row["group_id"], row[DISPOSITION], row["count"]) for row in counted]
        work = [one for one in known if one.word == Disposition.SEND]
        self._left -= Counter({one.group_id: one.count for one in work})

        def trouble() -> Stop | None:
            if stop := self.watch.trouble(limit):
                return stop
            return Stop(StopCause.BAD_STEP) if self._verdicts.is_any_bad(left) else None

        # A thread reads it meanwhile.
        left = {one: self._left[one] for one in {*self._left, *step.messages}}
        self._verdicts.here.add(step.number)
        unproven = step.messages.keys() & self._left.keys()
        stage = f"{self.steps.queue}-step-{step.number}"
        context = self.runner.context(
            self.probe.queue.url, limit, step=step.number, unproven_groups=unproven
        )
        written = write_rows(self._run.archive, rows, f"{self._run.folder}/steps/{stage}")
        result = self.runner.execute(written, work, context, stage, trouble)
        settled = [one for one in result.tallies if one.word != Disposition.NOT_REACHED]
        self._tallies += settled
        return result.stopped_by or self._end_step(step, (*known, *settled))

    def _end_step(self, step: Step, tallies: Collection[Tally]) -> Stop | None:
        """Write down that a step is sent, by what became of its messages; else return why not."""
        words = {one.word for one in tallies}
        if Disposition.BUSY in words:
            why = (
                f"a task was started again, and what it had begun to send of step {step.number} is "
                "not known yet; run again"
            )
            return Stop(StopCause.RAMP, why)
        is_left = bool(words & {Disposition.NOT_SELECTED, Disposition.OVER_LIMIT})
        if is_left or self._has_other_groups(step):
            why = (
                f"this run does not select all messages of step {step.number}, which another one "
                "has begun; run it as that one, or collect again"
            )
            return Stop(StopCause.RAMP, why)
        sent = Counter(dict.fromkeys(step.messages, 0))
        for one in tallies:
            if one.word in (Disposition.SENT, Disposition.SENT_BEFORE):
                sent[one.group_id] += one.count
        sent_at = self.runner.deadline.clock.now_seconds()
        self.steps.create(replace(step, sent_at=sent_at, messages=sent))
        # On FIFO only a plan that is resolved anew shows what waits behind the others.
        is_short = self._in_order and sent.total() < sum(step.messages.values())
        if not is_short:
            return None
        return Stop(StopCause.RAMP, f"some of step {step.number} could not be sent; run again")

    def _has_other_groups(self, step: Step) -> bool:
        """Whether a run of one group has not read all messages of a step."""
        if self.probe.request.group is None:
            return False
        own_groups = texts_of(self.rows["group_id"].cast(pa.string()).unique())
        return not step.messages.keys() <= set(own_groups)

    def _rows(self, step: Step) -> pa.Table:
        """Return the rows of a step, in its own chunks.

        Nothing goes of a group that was stopped since it was drawn, nor what is behind it.
        """
        table = self._table(step)
        self._taken.append(table)
        rows = self.rows.drop_columns([*POSITION])
        stopped = [one for one in step.messages if self._is_stopped(step, one)]
        if stopped:
            codes = disposition_codes(rows)
            is_send = have_disposition(rows, [Disposition.SEND])
            codes[is_send & values_among(rows["group_id"], stopped)] = code_of(Disposition.STOPPED)
            rows = with_disposition_codes(rows, codes)
            rows = with_waiting(rows) if self._in_order else rows

        own = with_chunks(table, chunk_count(sum(step.messages.values())))
        places = pc.index_in(rows["message_id"], value_set=combined(own["message_id"]))
        rows = rows.filter(places.is_valid())
        of_step = own.take(places.drop_null())
        for name in POSITION:
            rows = with_column(rows, name, of_step[name])
        return rows

    def _is_stopped(self, step: Step, group_id: str) -> bool:
        """Whether a group was stopped since a step of it was drawn."""
        stops = self.memory.state(group_id).stops
        return self._verdicts.is_bad(group_id) or step.stops.get(group_id) != stops

    def _stop_group(self, ramp: GroupRamp) -> None:
        """Write down that nothing more of a group is sent until somebody decides again."""
        if is_group_id(ramp.group_id):
            said = Statement(datetime.now(UTC), self._run.who, stopped=ramp.why)
            add_statement(self._run.archive, ramp.group_id, said)

    def _known_counts(self, groups: Collection[str]) -> tuple[Counts, Stop | None]:
        """Read the counters of this plan until they are known; return also why they are not."""
        counts: Counts | None = None

        def is_over() -> bool:
            nonlocal counts
            counts = self._read_counts(self._run.plan_id, groups)
            return counts is not None or bool(self.watch.lost())

        stopped_by = look_until(is_over, self._look_seconds, self.runner.deadline)
        if counts is None:
            stopped_by = stopped_by or self.watch.lost()
        return counts or {}, stopped_by

    def _read_counts(self, plan_id: str, groups: Collection[str]) -> Counts | None:
        """Read how many came back; a group whose counters are gone is missing. None: not known."""
        table = returns_table(self.probe.request.failure_table or "", self.probe.queue.url)
        try:
            found = table.read(plan_id, groups)
        except TableError as error:
            self.watch.saw(str(error))
            return None
        self.watch.saw("")
        counts = {group_id: returns.returned for group_id, returns in found.items()}
        if plan_id == self._run.plan_id:
            self._counts |= counts
        return counts
