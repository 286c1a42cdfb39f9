"""A redrive by ramp: step after step to one destination, each judged before the next.

The run's own tasks send a step, and its messages stand in the ledger like any other. What a run has
not finished, the next one goes on with: the records of the steps say where it was.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial, reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from dlq_replay.errors import TableError
from dlq_replay.returns import Returns
from dlq_replay.returns_table import ReturnsTable
from spark_reprocess.archive.disposition import Disposition
from spark_reprocess.archive.frames import Held, read_table, write_table
from spark_reprocess.archive.ledger import POSITION, chunk_count
from spark_reprocess.archive.message_order import (
    PARKED_QUEUE,
    arrival_order,
    in_order_units,
    with_positions,
)
from spark_reprocess.errors import ArchiveError
from spark_reprocess.ramp.readings import Probe
from spark_reprocess.ramp.rule import AllowedReturns, GroupRamp, StepWatch, Verdict, step_size
from spark_reprocess.redrive.breaker_gate import WAITING, waiting_for
from spark_reprocess.redrive.dispositions import with_chunks
from spark_reprocess.redrive.execution import TaskRunner
from spark_reprocess.redrive.redrive_values import Sent, Tally
from spark_reprocess.redrive.run_context import RunContext
from spark_reprocess.redrive.steps import (
    GroupStep,
    Step,
    Steps,
    group_ramp,
    of_group,
    sent_of,
)
from spark_reprocess.spark.interrupts import asking_to_stop

_COLUMNS = "message_id string, group_id string, unit string, position long"
_WAITS = f"{WAITING} for the ramp"
_TOO_MANY_RETURNS = f"{_WAITS}: more messages came back than may"
_SENT = (Disposition.SENT, Disposition.SENT_BEFORE)
_NOT_CHOSEN = (Disposition.NOT_SELECTED, Disposition.OVER_LIMIT)


@dataclass
class Ramp:
    """The ramp of one run to one destination.

    Attributes:
        rows: the dispositions of this destination's messages, and of those that make no work.
        to_send: by group id, how many messages are to be sent.
        stops: by group id, how often the group was stopped before; 0 where it is missing.
        stop_group: writes down that a group is stopped, and why.
        ended: how many steps had ended before the dispositions were resolved. What later ones hold
            is never drawn again.
        in_order: whether what stands behind a message of its message group waits.
        is_one_group: whether the other groups are left because of an option.
        name: of the sends among those of the run.
        wait: waits for an event, but no longer than so many seconds.
        groups: by id, how far each group is that has a step.
    """

    runner: TaskRunner
    context: RunContext
    rows: DataFrame
    to_send: Mapping[str, int]
    probe: Probe
    returns: ReturnsTable
    allowed: AllowedReturns
    stops: Mapping[str, int]
    stop_group: Callable[[str, str], object]
    steps: Steps
    ended: int
    name: str
    in_order: bool = False
    is_one_group: bool = False
    now_seconds: Callable[[], float] = time.time
    wait: Callable[[threading.Event, float], object] = threading.Event.wait
    groups: dict[str, GroupRamp] = field(default_factory=dict)
    _executed: dict[int, Mapping[str, int]] = field(default_factory=dict)
    """By number of the step and group id, how many of its messages were to be sent."""
    _blockers: dict[int, str] = field(default_factory=dict)
    """By number of the step, why nobody can tell yet; empty if one can."""
    _tallies: list[Tally] = field(default_factory=list)
    _stopped_by: str = ""

    def send(self) -> Sent:
        """Send step after step, until all is sent or nothing more may go in this run.

        Raises:
            ArchiveError: the archive cannot be read or written.
        """
        while not self._stopped_by and (step := self._next_step()):
            self._execute(step)
        known = self.steps.read()
        self._decide(known, self.to_send)
        left = Counter(self.to_send)
        for tally in self._tallies:
            left[tally.group_id] -= tally.count
        rest = [
            Tally(one, Disposition.STOPPED if self._is_bad(one) else Disposition.NOT_REACHED, count)
            for one, count in left.items()
            if count > 0
        ]
        return Sent((*self._tallies, *rest), self._stopped_by, tuple(self.groups.values()))

    def _next_step(self) -> Step | None:
        """Return the next step: one that this run has not carried out yet, or a new one."""
        known = self.steps.read()
        for step in known[self.ended :]:
            if step.number not in self._executed:
                return step
        self._judge(known, self._left())
        left = self._left()
        wanted = {
            one: step_size(sent_of(self._of(known, one), one), count)
            for one, count in left.items()
            if one not in self.groups or self.groups[one].verdict is Verdict.GOOD
        }
        return self._new_step(known, wanted, left) if wanted and not self._stopped_by else None

    def _undrawn(self) -> dict[str, int]:
        """Return by group how many messages no step has."""
        left = Counter(self.to_send)
        for opened in list(self._executed.values()):
            left.subtract(opened)
        return {one: left[one] for one in self.to_send if left[one] > 0}

    def _left(self) -> dict[str, int]:
        """Return the same of the groups that are not stopped."""
        return {one: n for one, n in self._undrawn().items() if not self._is_bad(one)}

    def _is_bad(self, group_id: str) -> bool:
        return group_id in self.groups and self.groups[group_id].verdict is Verdict.BAD

    def _of(self, known: Iterable[Step], group_id: str) -> list[Step]:
        return list(of_group(known, group_id, self.stops.get(group_id, 0)))

    def _new_step(
        self, known: Sequence[Step], wanted: Mapping[str, int], left: Mapping[str, int]
    ) -> Step | None:
        """Draw the next step, and write it down; of two runs at once the first one's counts."""
        returns = self._read_returns(wanted)
        number, archive = len(known) + 1, self.runner.archive
        folder = self.steps.table(number, self.context.run_id)
        drawn = self._drawn(known, wanted)
        with ExitStack() as stack:
            held = Held.of(drawn, sum(wanted.values()), stack)
            write_table(held.frame if held.table is None else held.table, archive, folder)
            counts = {row["group_id"]: row["count"] for row in held.counts("group_id")}
        if not counts:
            self._stopped_by = f"{_WAITS}: what is left stands behind messages that stay"
            return None
        groups = {
            one: GroupStep(
                number=len(self._of(known, one)) + 1,
                messages=count,
                is_last=count == left[one],
                returned_before=returns[one].returned if one in returns else 0,
                stops=self.stops.get(one, 0),
            )
            for one, count in counts.items()
        }
        run_id, who = self.context.run_id, self.context.who
        self.steps.create(Step(number, run_id, who, self.now_seconds(), folder, groups))
        return self.steps.read()[number - 1]

    def _drawn(self, known: Sequence[Step], wanted: Mapping[str, int]) -> DataFrame:
        """Draw so many messages of each group, and say where in the step each of them is.

        On FIFO the heads of message groups come first, and what stands behind one that is not drawn
        is not drawn either. Otherwise their ids decide, which are random.
        """
        rows, order = self._candidates(known), ["message_id"]
        if self.in_order:
            arrived = Window.partitionBy(PARKED_QUEUE, "message_group_id").orderBy(*arrival_order())
            rows = rows.withColumn("depth", F.row_number().over(arrived))
            order = ["depth", "message_id"]
        most = F.create_map(*(F.lit(one) for pair in wanted.items() for one in pair))
        rank = F.row_number().over(Window.partitionBy("group_id").orderBy(*order))
        drawn = rows.withColumn("drawn", F.coalesce(rank <= most[F.col("group_id")], F.lit(False)))  # noqa: FBT003
        if self.in_order:
            before = F.sum(F.col("drawn").cast("int")).over(
                arrived.rowsBetween(Window.unboundedPreceding, -1)
            )
            is_next = F.coalesce(before, F.lit(0)) == F.col("depth") - 1
            drawn = drawn.withColumn("drawn", F.col("drawn") & is_next)
        units = in_order_units(sum(wanted.values())) if self.context.to_fifo else None
        positioned = with_positions(drawn.where("drawn"), units)
        return positioned.select("message_id", "group_id", "unit", "position")

    def _candidates(self, known: Sequence[Step]) -> DataFrame:
        rows = self.rows.where(F.col("disposition") == Disposition.SEND)
        if taken := [self._table(step) for step in known[self.ended :]]:
            rows = rows.join(reduce(DataFrame.union, taken), "message_id", "left_anti")
        return rows.drop(*POSITION)

    def _table(self, step: Step) -> DataFrame:
        return read_table(self.rows.sparkSession, self.runner.archive, step.table, _COLUMNS)

    def _execute(self, step: Step) -> None:
        """Send what is left of a step, and write down that it is sent."""
        chunks = chunk_count(sum(part.messages for part in step.groups.values()))
        name = f".{self.steps.queue}.{step.number:05d}"
        table = with_chunks(self._table(step), chunks, name).drop("group_id")
        rows = self.rows.drop(*POSITION).join(table, "message_id")
        found = Counter[tuple[str, str]]()
        for row in rows.groupBy("group_id", "disposition").count().collect():
            found[row["group_id"], row["disposition"]] = row["count"]
        opened = {one: found[one, Disposition.SEND] for one in step.groups}
        self._executed[step.number] = opened
        settled: list[Tally] = []
        # What could not be sent of a step that is sent is drawn again, by runs that begin later.
        if step.sent_at is None:
            settled = self._send_open(step, rows, opened)
        sent = Counter({one: found[one, Disposition.SENT_BEFORE] for one in step.groups})
        for tally in settled:
            sent[tally.group_id] += tally.count if tally.word in _SENT else 0
        words = {tally.word for tally in settled}
        others = [Disposition.BUSY, *_NOT_CHOSEN]
        others += [Disposition.LEAVE] if self.is_one_group else []
        is_shared = Disposition.BUSY in words or any(found[g, w] for g in opened for w in others)
        if step.sent_at is None and not self._stopped_by:
            if is_shared:
                self._stopped_by = self._wait_for_other_run(step)
            else:
                step = self.steps.end(step, self.now_seconds(), sent)
        if not self._stopped_by:
            step = self.steps.read()[step.number - 1]
            settled = [one for one in settled if one.word != Disposition.BUSY]
            settled += _sent_by_others(step, opened, settled, sent)
            unsent = sum(opened.values()) - sum(one.count for one in settled if one.word in _SENT)
            if self.in_order and unsent:
                # Only a plan that is resolved anew shows what waits behind these.
                self._stopped_by = f"{_WAITS}: some of step {step.number} could not be sent"
        self._tallies += [one for one in settled if one.word != Disposition.NOT_REACHED]

    def _send_open(self, step: Step, rows: DataFrame, opened: Mapping[str, int]) -> list[Tally]:
        """Send the open messages of a step; return what became of them."""
        tallies: dict[str, list[Tally]] = {}
        for attempt in range(len(step.groups) + 1):
            going = {one: n for one, n in opened.items() if n and not self._is_bad(one)}
            work = [Tally(one, Disposition.SEND, count) for one, count in going.items()]
            limit = self.probe.read_limit()
            self._stopped_by = waiting_for(limit)
            if self._stopped_by or not work:
                break
            unproven = frozenset(one for one, part in step.groups.items() if not part.is_last)
            context = replace(self.context, limit=limit, step=step.number, unproven_groups=unproven)
            name = f"{self.name}-step-{step.number}-{attempt}"
            result = self.runner.execute(
                rows.where(F.col("group_id").isin(*going)),
                work,
                context,
                name,
                partial(self._returns_trouble, step),
            )
            tallies |= {one: [t for t in result.tallies if t.group_id == one] for one in going}
            self._stopped_by = result.stopped_by
            if result.stopped_by != _TOO_MANY_RETURNS:
                break
            self._decide(self.steps.read(), going)
            if self.in_order:
                # What stands behind a message of a stopped group must not go.
                break
        return [one for of_group in tallies.values() for one in of_group]

    def _returns_trouble(self, step: Step) -> str:
        """Return why the step must stop now: too much came back; empty if it need not."""
        try:
            known = self.steps.read()
        except ArchiveError:
            # The tasks cannot read it either, and stop by themselves.
            return ""
        found = self._states(known, step.groups, self._read_returns(step.groups))
        is_bad = any(one.verdict is Verdict.BAD and not self._is_bad(one.group_id) for one in found)
        return _TOO_MANY_RETURNS if is_bad else ""

    def _wait_for_other_run(self, step: Step) -> str:
        """Wait until another run has sent the step; return why not, empty if it has."""
        why = f"{_WAITS}: another run has messages of step {step.number} to send"

        def has_ended() -> bool:
            return self.steps.read()[step.number - 1].sent_at is not None

        until = self.now_seconds() + self._patience_seconds
        return self._wait(has_ended, until, lambda: why) or ("" if has_ended() else why)

    @property
    def _patience_seconds(self) -> float:
        return self.probe.rules.patience * self.probe.rules.minute_seconds

    def _judge(self, known: Sequence[Step], left: Collection[str]) -> None:
        """Decide about the last step of each of these groups; wait until that is possible."""
        steps = {own[-1].number: own[-1] for one in left if (own := self._of(known, one))}
        if not steps:
            return
        rules, failure_seconds = self.probe.rules, self.probe.redelivery.failure_seconds
        watches = {
            number: StepWatch(
                step.began_at,
                (step.sent_at or step.began_at) + self.probe.redelivery.delay_seconds,
                failure_seconds,
                rules,
            )
            for number, step in steps.items()
        }

        groups = {*left, *(one for step in steps.values() for one in step.groups)}

        def is_decided() -> bool:
            now, returns = self.now_seconds(), self._read_returns(groups)
            for number, watch in watches.items():
                reading = self.probe.read(watch.first_sent_at, now)
                why = watch.blocker(reading, now, _expected(steps[number], returns))
                self._blockers[number] = why
            self._decide(known, left, returns)
            is_known = all(one in returns for one in left)
            is_seen = is_known and not any(self._blockers[number] for number in steps)
            return is_seen or all(map(self._is_bad, left))

        def status() -> str:
            return " and ".join(filter(None, {self._blockers[number] for number in steps}))

        ready_at = max(watch.ready_at for watch in watches.values())
        until = self.now_seconds() + self._patience_seconds
        self._stopped_by = self._wait(is_decided, until if ready_at <= until else 0, status)
        waiting = [self.groups[one] for one in left if one in self.groups]
        waiting = [one for one in waiting if one.verdict is Verdict.UNKNOWN]
        if waiting and not self._stopped_by:
            ready_at = max(watch.ready_at for watch in watches.values())
            after = f"{datetime.fromtimestamp(ready_at, UTC):%H:%M} UTC"
            self._stopped_by = (
                f"{_WAITS}: step {waiting[0].step} can be judged after {after}: {waiting[0].why}"
            )

    def _wait(self, is_over: Callable[[], bool], until: float, status: Callable[[], str]) -> str:
        """Look until it is over, or until a moment; return why the run must stop, else empty."""
        reasons, is_stopping = list[str](), threading.Event()

        def stop(why: str) -> None:
            reasons.append(why)
            is_stopping.set()

        rules = self.probe.rules
        with (
            asking_to_stop(stop),
            self.runner.deadline.watched(stop),
            self.runner.progress("ramp", status),
        ):
            while not is_over() and not reasons and self.now_seconds() < until:
                self.wait(is_stopping, rules.minute_seconds / rules.looks)
        return reasons[0] if reasons else ""

    def _decide(
        self,
        known: Sequence[Step],
        group_ids: Iterable[str],
        returns: Mapping[str, Returns] | None = None,
    ) -> None:
        """Note how far these groups are, and stop those of which too many came back."""
        returns = self._read_returns(group_ids) if returns is None else returns
        for one in self._states(known, group_ids, returns):
            if one.verdict is Verdict.BAD and not self._is_bad(one.group_id):
                self.stop_group(one.group_id, one.why)
            self.groups[one.group_id] = one

    def _states(
        self, known: Sequence[Step], group_ids: Iterable[str], returns: Mapping[str, Returns]
    ) -> list[GroupRamp]:
        """Return how far those of the groups are that have a step."""
        left = self._undrawn()
        return [
            group_ramp(
                one,
                own,
                left.get(one, 0),
                returns.get(one),
                self.allowed,
                self._blockers.get(own[-1].number, "nobody has looked yet"),
                in_order=self.in_order,
            )
            for one in group_ids
            if (own := self._of(known, one))
        ]

    def _read_returns(self, group_ids: Iterable[str]) -> dict[str, Returns]:
        """Return what came back; a group of which that is not known is missing."""
        try:
            return self.returns.read(self.context.plan_id, [*group_ids])
        except TableError:
            return {}


def _sent_by_others(
    step: Step, opened: Mapping[str, int], settled: Sequence[Tally], known: Mapping[str, int]
) -> list[Tally]:
    """Return how many open messages other runs sent, as far as the record of the step says.

    *known* is how many of a group this run knows to be sent.
    """
    mine = Counter[str]()
    for tally in settled:
        mine[tally.group_id] += tally.count
    counts = {
        one: min(count - mine[one], (step.sent or {}).get(one, 0) - known[one])
        for one, count in opened.items()
    }
    return [Tally(one, Disposition.SENT_BEFORE, n) for one, n in counts.items() if n > 0]


def _expected(step: Step, returns: Mapping[str, Returns]) -> int:
    """Return how many messages of a step have succeeded if nothing else comes back."""
    back = sum(
        max(0, returns[one].returned - part.returned_before)
        for one, part in step.groups.items()
        if one in returns
    )
    return sum((step.sent or {}).values()) - back
