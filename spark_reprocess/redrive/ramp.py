"""A redrive by ramp: step after step to one destination, each judged before the next.

The run's own tasks send a step, and its messages stand in the ledger like any other. What a run has
not finished, the next one goes on with: the records of the steps say where it was. A run that sees
another one at work on the same ramp ends.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from dlq_replay.errors import TableError
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
from spark_reprocess.groups.triage import GroupMemory, Statement, is_group_id
from spark_reprocess.ramp import (
    LOOKS_A_MINUTE,
    PATIENCE_MINUTES,
    GroupRamp,
    Reading,
    Step,
    Steps,
    Verdict,
    blocker_of,
    ended_steps,
    group_ramp,
    step_size,
)
from spark_reprocess.redrive.execution import (
    TaskRunner,
    known_limit,
    look_until,
    not_reached,
)
from spark_reprocess.redrive.readings import Probe
from spark_reprocess.redrive.redrive_values import Sent, Tally
from spark_reprocess.redrive.resolving.dispositions import with_chunks
from spark_reprocess.redrive.run_context import RunContext
from spark_reprocess.redrive.sending.stop_signals import WAITING, TableWatch

_COLUMNS = "message_id string, group_id string, unit string, position long"
_WAITS = f"{WAITING} for the ramp"
_IS_SHARED = f"{_WAITS}: another run goes on with it"
_NOT_LOOKED = "nobody has looked yet"


@dataclass
class Ramp:
    """The ramp of one run to one destination.

    Attributes:
        rows: the dispositions of this destination's messages, and of those that make no work.
        work: of this destination's messages that make work, how many of each group.
        memory: what was known of the groups when the run began.
        ended: how many steps are sent: first, when the dispositions were resolved.
        watch: sees whether the failure table can be read.
    """

    runner: TaskRunner
    context: RunContext
    rows: DataFrame
    work: Sequence[Tally]
    memory: GroupMemory
    probe: Probe
    steps: Steps
    ended: int
    watch: TableWatch
    _groups: dict[str, GroupRamp] = field(default_factory=dict)
    _left: Counter[str] = field(default_factory=Counter)
    """By group id, how many messages this run has to send that it has found in no step yet."""
    _taken: list[DataFrame] = field(default_factory=list)
    """The messages of the steps that this run has begun to send."""
    _blocker: str = _NOT_LOOKED
    _tallies: list[Tally] = field(default_factory=list)

    def send(self) -> Sent:
        """Record what is not sent; send step after step, until nothing more may go in this run."""
        is_send = F.col("disposition") == Disposition.SEND
        sends = [one for one in self.work if one.word == Disposition.SEND]
        others = [one for one in self.work if one not in sends]
        self._left.update({one.group_id: one.count for one in sends})
        rest, name = self.rows.where(~is_send), self.steps.queue
        first = self.runner.execute(Held(rest), others, self.context, name)
        stopped_by = first.stopped_by
        while True:
            steps = self.steps.read()
            self._decide(steps)
            if stopped_by or not (len(steps) > self.ended or self._open()):
                break
            if ended_steps(steps) != self.ended:
                stopped_by = _IS_SHARED
            elif len(steps) > self.ended:
                stopped_by = self._execute(steps)
            else:
                stopped_by = self._await_verdicts(steps) or self._begin_next(steps)
        left = [
            replace(one, word=Disposition.STOPPED) if self._is_bad(one.group_id) else one
            for one in not_reached(sends, self._tallies)
        ]
        tallies = (*first.tallies, *self._tallies, *left)
        return Sent(tallies, stopped_by, tuple(self._groups.values()))

    @property
    def _look_seconds(self) -> float:
        return self.probe.options.minute_seconds / LOOKS_A_MINUTE

    @property
    def _in_order(self) -> bool:
        """Whether what stands behind a message of its message group waits."""
        return self.context.to_fifo and not self.probe.options.allow_reordering

    def _open(self) -> list[str]:
        """Return the groups that may have another step."""
        return [one for one in self._left if not self._is_bad(one)]

    def _begin_next(self, steps: Sequence[Step]) -> str:
        """Make the next step of the groups that may have one; return why there is none."""
        wanted = {
            one: step_size(self._groups[one].sent if one in self._groups else 0, self._left[one])
            for one in self._open()
        }
        if not wanted:
            return ""
        returned = self._returned(steps)
        if not wanted.keys() <= returned.keys():
            return f"{_WAITS}: it is not known what came back"
        number, run_id = len(steps) + 1, self.context.run_id
        with ExitStack() as stack:
            drawn = Held.of(self._drawn(wanted), sum(wanted.values()), stack)
            write_table(drawn.rows, self.runner.archive, self.steps.table(number, run_id))
            messages = {row["group_id"]: row["count"] for row in drawn.counts("group_id")}
        if not messages:
            return f"{_WAITS}: what is left stands behind messages that stay"
        before = {one: returned[one] for one in messages}
        stops = {one: self.memory.state(one).stops for one in messages}
        self._blocker = _NOT_LOOKED
        # Of two runs at once the first one's record counts for both.
        began_at = self.runner.deadline.clock.now_seconds()
        self.steps.create(Step(number, run_id, began_at, messages, before, stops))
        return ""

    def _drawn(self, wanted: Mapping[str, int]) -> DataFrame:
        """Draw so many messages of each group, and say where in the step each of them is.

        On FIFO the heads of message groups come first, and what stands behind one that is not drawn
        is not drawn either. Otherwise their ids decide, which are random.
        """
        rows = self.rows.where(F.col("disposition") == Disposition.SEND).drop(*POSITION)
        # What could not be sent of these is drawn again by runs that begin later.
        if self._taken:
            rows = rows.join(reduce(DataFrame.union, self._taken), "message_id", "left_anti")
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

    def _execute(self, steps: Sequence[Step]) -> str:
        """Send what is left of the last step, and write down that it is sent; else return why."""
        step = steps[-1]
        limit, why = known_limit(self.watch, self._look_seconds, self.runner.deadline)
        if why:
            return why
        rows = self._rows(step)
        counted = rows.groupBy("group_id", "disposition").count().collect()
        known = [Tally(row["group_id"], row["disposition"], row["count"]) for row in counted]
        work = [one for one in known if one.word == Disposition.SEND]
        self._left -= Counter({one.group_id: one.count for one in work})

        def trouble() -> str:
            if why := self.watch.trouble(limit):
                return why
            is_bad = any(one.verdict is Verdict.BAD for one in self._states(steps))
            return f"{_WAITS}: more messages came back than may" if is_bad else ""

        unproven = frozenset(step.messages.keys() & self._left.keys())
        result = self.runner.execute(
            Held(rows),
            work,
            replace(self.context, limit=limit, step=step.number, unproven_groups=unproven),
            f"{self.steps.queue}-step-{step.number}",
            trouble,
        )
        settled = [one for one in result.tallies if one.word != Disposition.NOT_REACHED]
        self._tallies += settled
        if result.stopped_by:
            return result.stopped_by
        others = {Disposition.BUSY, Disposition.NOT_SELECTED, Disposition.OVER_LIMIT}
        if self.probe.options.group:
            others.add(Disposition.LEAVE)
        sent = Counter(dict.fromkeys(step.messages, 0))
        for one in (*known, *settled):
            if one.word in others:
                return f"{_WAITS}: another run has messages of step {step.number} to send"
            if one.word in (Disposition.SENT, Disposition.SENT_BEFORE):
                sent[one.group_id] += one.count
        sent_at = self.runner.deadline.clock.now_seconds()
        if not self.steps.create(replace(step, sent_at=sent_at, messages=sent)):
            return _IS_SHARED
        self.ended += 1
        # On FIFO only a plan that is resolved anew shows what waits behind the others.
        is_short = self._in_order and sent.total() < sum(step.messages.values())
        return f"{_WAITS}: some of step {step.number} could not be sent" if is_short else ""

    def _rows(self, step: Step) -> DataFrame:
        """Return the rows of a step, in chunks of its own.

        Nothing goes of a group that was stopped since it was drawn, nor what stands behind it.
        """
        folder = self.steps.table(step.number, step.run_id)
        table = read_table(self.rows.sparkSession, self.runner.archive, folder, _COLUMNS)
        self._taken.append(table)
        stopped = [one for one in step.messages if self._is_bad(one) or not self._of([step], one)]
        rows, disposition = self.rows.drop(*POSITION), F.col("disposition")
        if stopped:
            is_stopped = F.col("group_id").isin(*stopped) & (disposition == Disposition.SEND)
            word = F.when(is_stopped, Disposition.STOPPED).otherwise(disposition)
            rows = rows.withColumn("disposition", word)
            rows = with_waiting(rows) if self._in_order else rows
        chunks, name = chunk_count(sum(step.messages.values())), f".{self.steps.queue}."
        own = with_chunks(Held(table), chunks, f"{name}{step.number:05d}")
        return rows.join(own.frame.drop("group_id"), "message_id")

    def _await_verdicts(self, steps: Sequence[Step]) -> str:
        """Wait until it is known of each group's last step whether it was good.

        Return why it is not, and cannot be soon.
        """
        groups = self._open()
        last = {of[-1].number: of[-1] for one in groups if (of := self._of(steps, one))}.values()
        if not last:
            return ""
        began_at, queue = min(step.began_at for step in last), self.probe.queue
        sent_at = max(step.sent_at or 0 for step in last) + queue.delay_seconds
        minute = self.probe.options.minute_seconds
        looks, ready_at = list[Reading](), sent_at
        now_seconds = self.runner.deadline.clock.now_seconds
        until = now_seconds() + PATIENCE_MINUTES * minute

        def is_over() -> bool:
            nonlocal ready_at
            looks.append(self.probe.read(began_at, now_seconds()))
            returned = self._returned(steps)
            expected = sum(step.expected(returned) for step in last)
            times = sent_at, queue.failure_seconds, minute
            self._blocker, ready_at = blocker_of(looks, expected, *times)
            self._decide(steps)
            is_known = not self._blocker and all(one in returned for one in groups)
            is_late = max(now_seconds(), ready_at) > until
            is_lost = bool(self.watch.lost())
            return is_known or is_late or is_lost or all(map(self._is_bad, groups))

        with self.runner.progress("ramp", lambda: self._blocker):
            stopped_by = look_until(is_over, self._look_seconds, self.runner.deadline)
        stopped_by = stopped_by or self.watch.lost()
        waiting = [one for one in self._groups.values() if one.verdict is Verdict.UNKNOWN]
        if stopped_by or not waiting:
            return stopped_by
        after, first = datetime.fromtimestamp(ready_at, UTC), waiting[0]
        return f"{_WAITS}: step {first.step} can be judged after {after:%H:%M} UTC: {first.why}"

    def _of(self, steps: Sequence[Step], group_id: str) -> list[Step]:
        """Return the steps of a group since it was last stopped."""
        stops = self.memory.state(group_id).stops
        return [step for step in steps if step.stops.get(group_id) == stops]

    def _is_bad(self, group_id: str) -> bool:
        return group_id in self._groups and self._groups[group_id].verdict is Verdict.BAD

    def _decide(self, steps: Sequence[Step]) -> None:
        """Note how far the groups are, and stop those of which too many came back."""
        for one in self._states(steps):
            if one.verdict is Verdict.BAD and is_group_id(one.group_id):
                said = Statement(datetime.now(UTC), self.context.who, stopped=one.why)
                add_statement(self.runner.archive, one.group_id, said)
            self._groups[one.group_id] = one

    def _states(self, steps: Sequence[Step]) -> list[GroupRamp]:
        """Return how far the groups are that have a step and are not stopped by this run."""
        returned, allowed = self._returned(steps), self.probe.options.allow_returns
        return [
            group_ramp(
                *(one.group_id, own, self._left[one.group_id], returned.get(one.group_id)),
                *(allowed, self._blocker),
                in_order=self._in_order,
            )
            for one in self.work
            if one.word == Disposition.SEND
            and (own := self._of(steps, one.group_id))
            and not self._is_bad(one.group_id)
        ]

    def _returned(self, steps: Sequence[Step]) -> dict[str, int]:
        """Return how many came back; a group of which that is not known is missing."""
        groups = {one.group_id for one in self.work}.union(*(step.messages for step in steps))
        table = returns_table(self.probe.options.failure_table or "", self.context.destination)
        try:
            found = table.read(self.context.plan_id, groups)
        except TableError as error:
            self.watch.saw(str(error))
            return {}
        self.watch.saw("")
        return {group_id: returns.returned for group_id, returns in found.items()}
