"""A redrive by ramp: step after step to one destination, each judged before the next.

The run's own tasks send a step, and its messages stand in the ledger like any other. What a run has
not finished, the next one goes on with: the records of the steps say where it was. A run that sees
another one at work on the same ramp ends.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from dlq_replay.aws.returns_table import ReturnsTable
from dlq_replay.errors import TableError
from dlq_replay.replaying.returns import Returns
from spark_reprocess.archive.group_records import add_statement
from spark_reprocess.archive.ledger.claims import POSITION, chunk_count
from spark_reprocess.archive.ledger.disposition import Disposition
from spark_reprocess.archive.messages.frames import Held, read_table, write_table
from spark_reprocess.archive.messages.message_order import (
    PARKED_QUEUE,
    arrival_order,
    in_order_units,
    with_positions,
    with_waiting,
)
from spark_reprocess.aws.clients import returns_table
from spark_reprocess.aws.limits import read_limit
from spark_reprocess.groups.triage import Statement, is_group_id
from spark_reprocess.ramp.rule import (
    LOOKS_A_MINUTE,
    PATIENCE_MINUTES,
    GroupRamp,
    Reading,
    StepWatch,
    Verdict,
    step_size,
)
from spark_reprocess.ramp.steps import Step, Steps, ended_steps, group_ramp
from spark_reprocess.redrive.execution import TaskRunner, look_until, not_reached
from spark_reprocess.redrive.readings import Probe
from spark_reprocess.redrive.redrive_values import RedriveOptions, Sent, Tally
from spark_reprocess.redrive.resolving.dispositions import with_chunks
from spark_reprocess.redrive.run_context import RunContext
from spark_reprocess.redrive.sending.stop_signals import WAITING, waiting_for

_COLUMNS = "message_id string, group_id string, unit string, position long"
_WAITS = f"{WAITING} for the ramp"
_IS_SHARED = f"{_WAITS}: another run goes on with it"
_NOT_LOOKED = "nobody has looked yet"
_SENT = (Disposition.SENT, Disposition.SENT_BEFORE)


@dataclass
class Ramp:
    """The ramp of one run to one destination.

    Attributes:
        rows: the dispositions of this destination's messages, and of those that make no work.
        work: of this destination's messages that make work, how many of each group.
        stops: by group id, how often the group was stopped before.
        ended: how many steps are sent: first, when the dispositions were resolved.
        name: of the sends among those of the run.
        wait: waits for an event, but no longer than so many seconds.
    """

    runner: TaskRunner
    context: RunContext
    options: RedriveOptions
    rows: DataFrame
    work: Sequence[Tally]
    stops: Mapping[str, int]
    probe: Probe
    steps: Steps
    ended: int
    name: str
    now_seconds: Callable[[], float] = time.time
    wait: Callable[[threading.Event, float], object] = threading.Event.wait
    _groups: dict[str, GroupRamp] = field(default_factory=dict)
    _executed: dict[int, Mapping[str, int]] = field(default_factory=dict)
    """By number of the step and group id, how many of its messages this run had to send."""
    _blocker: str = _NOT_LOOKED
    _tallies: list[Tally] = field(default_factory=list)
    _stopped_by: str = ""

    def send(self) -> Sent:
        """Record what is not sent; send step after step, until nothing more may go in this run.

        Raises:
            ArchiveError: the archive cannot be read or written.
        """
        is_other = F.col("disposition").isin(Disposition.DISCARD, Disposition.RECORD)
        sends = [one for one in self.work if one.word == Disposition.SEND]
        others = [one for one in self.work if one not in sends]
        first = self.runner.execute(self.rows.where(is_other), others, self.context, self.name)
        self._stopped_by = first.stopped_by
        while not self._stopped_by:
            steps = self.steps.read()
            self._decide(steps)
            if ended_steps(steps) != self.ended:
                self._stopped_by = _IS_SHARED
            elif len(steps) > self.ended:
                self._execute(steps[-1], steps)
            elif not self._begin_next(steps):
                break
        steps = self.steps.read()
        self._decide(steps)
        rest = [
            replace(one, word=Disposition.STOPPED) if self._is_bad(one.group_id) else one
            for one in not_reached(sends, self._tallies)
        ]
        tallies = (*first.tallies, *self._tallies, *rest)
        return Sent(tallies, self._stopped_by, tuple(self._groups.values()))

    @cached_property
    def _returns(self) -> ReturnsTable:
        return returns_table(self.options.failure_table or "", self.context.destination)

    @cached_property
    def _to_send(self) -> dict[str, int]:
        return {one.group_id: one.count for one in self.work if one.word == Disposition.SEND}

    @property
    def _in_order(self) -> bool:
        """Whether what stands behind a message of its message group waits."""
        return self.context.to_fifo and not self.options.allow_reordering

    def _begin_next(self, steps: Sequence[Step]) -> bool:
        """Wait for the verdicts, and make the next step; return False if there is none."""
        self._await_verdicts(steps)
        left = {one: count for one, count in self._left().items() if not self._is_bad(one)}
        if not left or self._stopped_by:
            return False
        returns = self._read_returns(steps)
        if not left.keys() <= returns.keys():
            self._stopped_by = f"{_WAITS}: it is not known what came back"
            return False
        wanted = {
            one: step_size(self._groups[one].sent if one in self._groups else 0, count)
            for one, count in left.items()
        }
        number, run_id = len(steps) + 1, self.context.run_id
        with ExitStack() as stack:
            drawn = Held.of(self._drawn(steps, wanted), sum(wanted.values()), stack)
            table = drawn.frame if drawn.table is None else drawn.table
            write_table(table, self.runner.archive, self.steps.table(number, run_id))
            messages = {row["group_id"]: row["count"] for row in drawn.counts("group_id")}
        if not messages:
            self._stopped_by = f"{_WAITS}: what is left stands behind messages that stay"
            return False
        before = {one: returns[one].returned for one in messages}
        stops = {one: self.stops.get(one, 0) for one in messages}
        self._blocker = _NOT_LOOKED
        # Of two runs at once the first one's record counts for both.
        self.steps.create(Step(number, run_id, self.now_seconds(), messages, before, stops))
        return True

    def _left(self) -> Counter[str]:
        """Return by group how many messages this run has in no step yet, if there are any."""
        drawn = sum(map(Counter, self._executed.values()), Counter[str]())
        return Counter(self._to_send) - drawn

    def _drawn(self, steps: Sequence[Step], wanted: Mapping[str, int]) -> DataFrame:
        """Draw so many messages of each group, and say where in the step each of them is.

        On FIFO the heads of message groups come first, and what stands behind one that is not drawn
        is not drawn either. Otherwise their ids decide, which are random.
        """
        rows = self.rows.where(F.col("disposition") == Disposition.SEND).drop(*POSITION)
        # What could not be sent of these is drawn again by runs that begin later.
        if taken := [self._table(step) for step in steps if step.number in self._executed]:
            rows = rows.join(reduce(DataFrame.union, taken), "message_id", "left_anti")
        order = ["message_id"]
        if self._in_order:
            arrived = Window.partitionBy(PARKED_QUEUE, "message_group_id").orderBy(*arrival_order())
            rows = rows.withColumn("depth", F.row_number().over(arrived))
            order = ["depth", "message_id"]
        most = F.create_map(*(F.lit(one) for pair in wanted.items() for one in pair))
        rank = F.row_number().over(Window.partitionBy("group_id").orderBy(*order))
        drawn = rows.withColumn("drawn", F.coalesce(rank <= most[F.col("group_id")], F.lit(False)))  # noqa: FBT003
        if self._in_order:
            drawn = drawn.withColumn("drawn", F.min("drawn").over(arrived))
        units = in_order_units(sum(wanted.values())) if self.context.to_fifo else None
        positioned = with_positions(drawn.where("drawn"), units)
        return positioned.select("message_id", "group_id", "unit", "position")

    def _table(self, step: Step) -> DataFrame:
        folder = self.steps.table(step.number, step.run_id)
        return read_table(self.rows.sparkSession, self.runner.archive, folder, _COLUMNS)

    def _execute(self, step: Step, steps: Sequence[Step]) -> None:
        """Send what is left of a step, and write down that it is sent."""
        limit = read_limit(self.options.failure_table, self.context.destination)
        if why := waiting_for(limit):
            self._stopped_by = why
            return
        rows = self._rows(step)
        counted = rows.groupBy("group_id", "disposition").count().collect()
        found = Counter({(row["group_id"], row["disposition"]): row["count"] for row in counted})
        opened = {one: found[one, Disposition.SEND] for one in step.messages}
        self._executed[step.number] = opened

        def trouble() -> str:
            is_bad = any(one.verdict is Verdict.BAD for one in self._states(steps))
            return f"{_WAITS}: more messages came back than may" if is_bad else ""

        result = self.runner.execute(
            rows,
            [Tally(one, Disposition.SEND, count) for one, count in opened.items() if count],
            replace(
                self.context,
                limit=limit,
                step=step.number,
                unproven_groups=frozenset(step.messages.keys() & self._left().keys()),
            ),
            f"{self.name}-step-{step.number}",
            trouble,
        )
        settled = [one for one in result.tallies if one.word != Disposition.NOT_REACHED]
        self._tallies += settled
        sent = Counter({one: found[one, Disposition.SENT_BEFORE] for one in step.messages})
        for tally in settled:
            sent[tally.group_id] += tally.count if tally.word in _SENT else 0
        self._stopped_by = result.stopped_by
        if self._stopped_by:
            return
        words = {word for _, word in found} | {tally.word for tally in settled}
        others = {Disposition.BUSY, Disposition.NOT_SELECTED, Disposition.OVER_LIMIT}
        if words & (others | {Disposition.LEAVE} if self.options.group else others):
            self._stopped_by = f"{_WAITS}: another run has messages of step {step.number} to send"
        elif not self.steps.end(step, self.now_seconds(), sent):
            self._stopped_by = _IS_SHARED
        else:
            self.ended += 1
            if self._in_order and sum(sent.values()) < sum(step.messages.values()):
                # Only a plan that is resolved anew shows what waits behind these.
                self._stopped_by = f"{_WAITS}: some of step {step.number} could not be sent"

    def _rows(self, step: Step) -> DataFrame:
        """Return the rows of a step, in chunks of its own.

        Nothing goes of a group that was stopped since it was drawn, nor what stands behind it.
        """
        stopped = [one for one in step.messages if self._is_bad(one) or not self._of([step], one)]
        rows, disposition = self.rows.drop(*POSITION), F.col("disposition")
        if stopped:
            is_stopped = F.col("group_id").isin(*stopped) & (disposition == Disposition.SEND)
            word = F.when(is_stopped, Disposition.STOPPED).otherwise(disposition)
            rows = rows.withColumn("disposition", word)
            rows = with_waiting(rows) if self._in_order else rows
        chunks = chunk_count(sum(step.messages.values()))
        name = f".{self.steps.queue}.{step.number:05d}"
        own = with_chunks(self._table(step), chunks, name)
        return rows.join(own.drop("group_id"), "message_id")

    def _await_verdicts(self, steps: Sequence[Step]) -> None:
        """Wait until it is known of each group's last step whether it was good, or too long."""
        groups = [one for one in self._left() if not self._is_bad(one)]
        last = {of[-1].number: of[-1] for one in groups if (of := self._of(steps, one))}.values()
        if not last:
            return
        began_at = min(step.began_at for step in last)
        sent_at = max(step.sent_at or 0 for step in last) + self.probe.redelivery.delay_seconds
        minute = self.options.minute_seconds
        watch = StepWatch(sent_at, self.probe.redelivery.failure_seconds, minute)
        until, looks = self.now_seconds() + PATIENCE_MINUTES * minute, list[Reading]()

        def is_over() -> bool:
            looks.append(self.probe.read(began_at, self.now_seconds()))
            returns = self._read_returns(steps)
            self._blocker = watch.blocker(looks, sum(step.expected(returns) for step in last))
            self._decide(steps)
            is_known = not self._blocker and all(one in returns for one in groups)
            is_late = max(self.now_seconds(), watch.ready_at(looks)) > until
            return is_known or is_late or all(map(self._is_bad, groups))

        with self.runner.progress("ramp", lambda: self._blocker):
            self._stopped_by = look_until(
                is_over, minute / LOOKS_A_MINUTE, self.runner.deadline, self.wait
            )
        waiting = [one for one in self._groups.values() if one.verdict is Verdict.UNKNOWN]
        if waiting and not self._stopped_by:
            after, first = datetime.fromtimestamp(watch.ready_at(looks), UTC), waiting[0]
            self._stopped_by = (
                f"{_WAITS}: step {first.step} can be judged after {after:%H:%M} UTC: {first.why}"
            )

    def _of(self, steps: Iterable[Step], group_id: str) -> list[Step]:
        """Return the steps of a group since it was last stopped."""
        stops = self.stops.get(group_id, 0)
        return [step for step in steps if step.stops.get(group_id) == stops]

    def _is_bad(self, group_id: str) -> bool:
        return group_id in self._groups and self._groups[group_id].verdict is Verdict.BAD

    def _decide(self, steps: Sequence[Step]) -> None:
        """Note how far the groups are, and stop those of which too many came back."""
        for one in self._states(steps):
            if one.verdict is Verdict.BAD:
                said = Statement(datetime.now(UTC), self.context.who, stopped=one.why)
                if is_group_id(one.group_id):
                    add_statement(self.runner.archive, one.group_id, said)
            self._groups[one.group_id] = one

    def _states(self, steps: Sequence[Step]) -> list[GroupRamp]:
        """Return how far the groups are that have a step and are not stopped by this run."""
        left, returns = self._left(), self._read_returns(steps)
        return [
            group_ramp(
                one,
                own,
                left[one],
                returns.get(one),
                self.options.allow_returns,
                self._blocker,
                in_order=self._in_order,
            )
            for one in self._to_send
            if (own := self._of(steps, one)) and not self._is_bad(one)
        ]

    def _read_returns(self, steps: Iterable[Step]) -> dict[str, Returns]:
        """Return what came back; a group of which that is not known is missing."""
        groups = {*self._to_send, *(one for step in steps for one in step.messages)}
        try:
            return self._returns.read(self.context.plan_id, groups)
        except TableError:
            return {}
