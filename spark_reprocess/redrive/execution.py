"""What was planned is done: Spark's tasks settle the rows, the driver conducts them."""

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from pyspark.sql import DataFrame, SparkSession

from spark_reprocess.actor import caller
from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.ledger import Outcome, timestamp
from spark_reprocess.archive.run_records import RunRecord, record_run
from spark_reprocess.clients import ClientFactory, region_of
from spark_reprocess.progress import HowFar, Progress
from spark_reprocess.redrive.conductor import conducting
from spark_reprocess.redrive.redrive_task import SETTLED_SCHEMA, TASK_COLUMNS, RedriveTask
from spark_reprocess.redrive.redrive_values import Tally
from spark_reprocess.redrive.run_facts import RunFacts
from spark_reprocess.redrive.selection import WORK, Fate
from spark_reprocess.spark.interrupts import asking_to_stop
from spark_reprocess.spark.session import driver_host

_TROUBLE = {
    Outcome.FAILED: "failed",
    Outcome.IN_DOUBT: "in doubt",
    Fate.BUSY: "busy",
    Fate.WAITS: "waiting",
}


@dataclass(frozen=True, slots=True)
class Executed:
    """What became of the work.

    Attributes:
        outcomes: of every message that made work, what was not reached included.
        stopped_by: why the run ended early, empty where it did not.
    """

    outcomes: tuple[Tally, ...]
    stopped_by: str


def with_run_record(archive: Archive, facts: RunFacts, verb: str, spark: SparkSession) -> RunFacts:
    """Write the record of a run; return its facts with what proves to tasks that they see it.

    Raises:
        ArchiveError: it cannot be written; nothing may be claimed then.
    """
    region = region_of(facts.destination, "us-east-1")
    record = RunRecord(
        run_id=facts.run_id,
        plan_id=facts.plan_id,
        verb=verb,
        actor=facts.who,
        **asdict(caller(spark.sparkContext.applicationId, region)),
        reason=facts.reason,
        time=timestamp(time.time()),
        destination=facts.destination,
        policy_sha256=facts.policy_sha256,
    )
    return replace(facts, probe=record_run(archive, record))


def execute(
    rows: DataFrame,
    planned: Sequence[Tally],
    archive: Archive,
    facts: RunFacts,
    *,
    trouble: Callable[[], str],
    make_sender: ClientFactory,
    progress: Progress,
) -> Executed:
    """Settle *rows*, of which there are as many as *planned* says, each chunk in one task.

    Ctrl-C, a queue that is gone, a disk that is full, a *trouble* that says why: calls that are
    open come to their end, results are written, and the rest is counted as not reached.
    """
    work = [tally for tally in planned if tally.word in WORK]
    total = sum(tally.count for tally in work)
    if not total:
        return Executed((), "")
    host = driver_host(rows.sparkSession)
    with (
        conducting(facts.max_rate, host, trouble) as (conductor, address),
        asking_to_stop(conductor.stop),
    ):
        task = RedriveTask(archive, facts, address, make_sender)
        how_far = HowFar(total)
        with progress("redriving", lambda: status_line(how_far, total, conductor.counts)):
            # One action, once; a second evaluation would find every chunk claimed.
            settled = rows.select(*TASK_COLUMNS).mapInArrow(task.run, SETTLED_SCHEMA).collect()
    outcomes = [
        Tally(row["group_id"], row["word"], row["count"], row["detail"], tuple(row["examples"]))
        for row in settled
        if row["count"]
    ]
    unreachable = (row["detail"] for row in settled if not row["count"])
    stopped_by = conductor.stopped_by or next(unreachable, "")
    return Executed((*outcomes, *_not_reached(work, outcomes)), stopped_by)


def status_line(how_far: HowFar, total: int, counts: Mapping[str, int]) -> str:
    """Say how far a run is, of whose *total* messages so many are settled, by word."""
    # A task that Spark starts again tells once more what the first one did.
    settled = min(sum(counts.values()), total)
    sent = min(counts.get(Outcome.SENT, 0), settled)
    parts = [how_far.line(settled)]
    parts += [f"{sent:,} sent"] if sent != settled else []
    parts += [f"{counts[word]:,} {name}" for word, name in _TROUBLE.items() if counts.get(word)]
    return ", ".join(parts)


def _not_reached(work: Sequence[Tally], outcomes: Sequence[Tally]) -> list[Tally]:
    left = Counter[str]()
    for tally in work:
        left[tally.group_id] += tally.count
    for tally in outcomes:
        left[tally.group_id] -= tally.count
    return [Tally(group, Fate.NOT_REACHED, count) for group, count in left.items() if count > 0]
