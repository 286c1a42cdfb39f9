"""A canary goes ahead of a run: sent by the run's own machinery, watched, judged.

Its messages stand in the ledger like any other, so a run that dies here is repeated safely; the
next one draws from what is left.
"""

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from pyspark.sql import DataFrame

from spark_reprocess.archive.disposition import Disposition
from spark_reprocess.archive.ledger import (
    LEDGER,
    OUTCOMES,
    Ledger,
    timestamp,
)
from spark_reprocess.canary.options import CanaryOptions
from spark_reprocess.canary.probe import Preflight, QueueProbe
from spark_reprocess.canary.verdict import CanaryReport, judge
from spark_reprocess.canary.watch import Observation, ObservationWindow, Watch
from spark_reprocess.clients import ClientFactory
from spark_reprocess.redrive.canary_draw import Sample
from spark_reprocess.redrive.execution import TaskRunner
from spark_reprocess.redrive.redrive_values import Tally
from spark_reprocess.redrive.run_context import RunContext
from spark_reprocess.spark.interrupts import INTERRUPTED, asking_to_stop

_MAY_RETURN = (Disposition.SENT, Disposition.IN_DOUBT)
_NOTHING_TO_SEND_AHEAD = "none of its messages can go ahead and carry what tells its failure"


@dataclass(frozen=True, slots=True)
class Pick:
    """One canary, and the chunk of the plan that it is part of."""

    message_id: str
    first_id: str
    group_id: str
    unit: str
    chunk: int


@dataclass(frozen=True, slots=True)
class Flight:
    """What became of a canary.

    Attributes:
        settled: message ids that this run has settled as canaries.
        outcomes: what became of them, counted.
        stopped_by: why the run must not go on at all, empty where it may.
    """

    report: CanaryReport
    settled: tuple[str, ...]
    outcomes: tuple[Tally, ...]
    stopped_by: str


@dataclass(frozen=True, slots=True)
class CanaryRun:
    """One canary of one run.

    Attributes:
        planned_drains: the drains of the plan's snapshot.
        name: of its record, and of its sends among those of the run.
    """

    runner: TaskRunner
    context: RunContext
    planned_drains: Sequence[str]
    options: CanaryOptions
    preflight: Preflight
    name: str
    make_client: ClientFactory

    def fly(self, sample: Sample) -> Flight:
        """Send the sample, wait for what comes back, judge each group; write the verdict down.

        Raises:
            ArchiveError: the archive cannot be read, or the verdict cannot be written.
        """
        probe = QueueProbe(
            sample.rows.sparkSession,
            self.runner.archive,
            self.preflight.queues,
            self.context.plan_id,
            self.planned_drains,
            self.make_client,
        )
        probe.take_baseline()
        planned = [
            Tally(one, Disposition.SEND, count) for one, count in sample.drawn.counts.items()
        ]
        context = replace(self.context, is_canary=True)
        executed = self.runner.execute(sample.rows, planned, context, f"canary-{self.name}")
        settled = self._settled(_picks(sample.rows))
        sent = {
            group_id: sum(
                p.group_id == group_id and o is Disposition.SENT for p, o in settled.items()
            )
            for group_id in sample.drawn.counts
        }
        sent_at = time.monotonic()
        if executed.stopped_by:
            seen = Observation({}, executed.stopped_by)
        else:
            drawn = sample.drawn
            window = ObservationWindow(sent_at, drawn.stale_seconds, drawn.wait_seconds)
            seen = self._watched(settled, sent, window, probe)
        missing = [(one, _NOTHING_TO_SEND_AHEAD) for one in sample.drawn.without]
        groups = judge(sent, seen.failures, self.options.max_return, seen.unknown, missing)
        waited_seconds = time.monotonic() - sent_at
        report = CanaryReport(groups, waited_seconds, probe.archived, seen.main_queue)
        self._record(report)
        stopped_by = executed.stopped_by or (INTERRUPTED if seen.unknown == INTERRUPTED else "")
        outcomes = tuple(tally for tally in executed.outcomes if tally.word in OUTCOMES)
        return Flight(report, tuple(pick.message_id for pick in settled), outcomes, stopped_by)

    def _watched(
        self,
        settled: Mapping[Pick, Disposition],
        sent: Mapping[str, int],
        window: ObservationWindow,
        probe: QueueProbe,
    ) -> Observation:
        reasons: list[str] = []
        is_stopping = threading.Event()

        def stop(why: str) -> None:
            reasons.append(why)
            is_stopping.set()

        watch = Watch(
            canaries={p.first_id: p.group_id for p, o in settled.items() if o in _MAY_RETURN},
            sent=sent,
            max_return=self.options.max_return,
            window=window,
            probe=probe,
            now_seconds=time.monotonic,
            pause=is_stopping.wait,
            stopped=lambda: reasons[0] if reasons else "",
            poll_seconds=self.options.reading_interval_seconds(window.wait_seconds),
            grace_seconds=self.options.grace_seconds,
        )
        with asking_to_stop(stop), self.runner.progress("canary", watch.status):
            return watch.run()

    def _settled(self, picks: Sequence[Pick]) -> dict[Pick, Disposition]:
        """Read in the ledger what this run did with its canaries."""
        ledger = Ledger(self.runner.archive, self.context.plan_id)
        found: dict[str, Disposition] = {}
        for unit, chunk in sorted({(pick.unit, pick.chunk) for pick in picks}):
            for attempt in ledger.attempts(unit, chunk):
                if attempt.claim.run_id == self.context.run_id:
                    found |= dict.fromkeys(attempt.claim.message_ids, Disposition.IN_DOUBT)
                    found |= {one.message_id: one.outcome for one in attempt.results or ()}
        return {pick: found[pick.message_id] for pick in picks if pick.message_id in found}

    def _record(self, report: CanaryReport) -> None:
        content = {
            "version": 1,
            "run_id": self.context.run_id,
            "who": self.context.who,
            "reason": self.context.reason,
            "time": timestamp(time.time()),
            **asdict(report),
        }
        path = f"{LEDGER}/plan_id={self.context.plan_id}/canary/{self.name}.json"
        self.runner.archive.write(path, json.dumps(content, indent=1).encode())


def _picks(rows: DataFrame) -> list[Pick]:
    columns = ("message_id", "first_id", "group_id", "unit", "chunk")
    return [Pick(**row.asDict()) for row in rows.select(*columns).collect()]
