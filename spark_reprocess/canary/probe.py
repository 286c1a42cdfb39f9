"""The queues of a canary: the preflight check, and what ``watch`` reads of queues and archive.

Returned canaries are counted in the archive, not in the parked queue: a receive without a deletion
hides messages from others, adds to the receive count, and does not return all messages of a large
queue. So the parked queue is drained, and the context of each message names the plan that sent it.

An earlier return of the same message by the same plan, as after a canary in doubt, is recognised by
its message id, not by time: the clocks of SQS, of this driver and of other operators' machines may
differ. Copies that the archive or the parked queue held before the send are not counted. A copy
that was on its way to the parked queue then counts as a return. That stops its group, which is
safe, and the next canary does not count it.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from dlq_replay.addresses import QueueAddress
from dlq_replay.sqs import SqsQueue
from spark_reprocess.archive.files import MESSAGES, Archive
from spark_reprocess.archive.frames import archive_rows
from spark_reprocess.archive.message_store import drain_ids, drain_of
from spark_reprocess.canary.options import CanaryOptions, Redelivery
from spark_reprocess.clients import ClientFactory, QueueCounts, queue_counts, require_queue
from spark_reprocess.drain.drain import DrainOptions, drain
from spark_reprocess.errors import InputError, JobError

_MANY_MESSAGES = 2000
"""Above this number a drain is faster with several tasks."""


@dataclass(frozen=True, slots=True)
class Preflight:
    """The queues of a canary that can show a failure: they passed the check.

    Attributes:
        redelivery: of the destination.
        main: the URL of the destination.
        dead_letters: that of its DLQ, None if this is the parked queue itself.
        parked: that of the parked queue.
    """

    redelivery: Redelivery
    main: str
    dead_letters: str | None
    parked: str

    @classmethod
    def check(
        cls,
        options: CanaryOptions,
        destination: str,
        attributes: Mapping[str, str],
        make_client: ClientFactory,
    ) -> Self:
        """Check every queue that has to be watched.

        Args:
            options: of the canary.
            destination: the URL of the main queue.
            attributes: its attributes.
            make_client: for calls to SQS.

        Raises:
            InputError: one cannot be watched, is the wrong one, or would never show a failure.
        """
        parked = options.parked_queue_url
        if parked == destination:
            raise InputError("--parked-queue-url: is the destination itself")
        require_queue("--parked-queue-url", parked, make_client)
        redelivery = Redelivery.of(attributes)
        options.wait(redelivery)
        dead_letters = queue_url_beside(destination, redelivery.dead_letter_arn)
        if dead_letters == parked:
            dead_letters = None
        if dead_letters is not None:
            # If its counts cannot be read, canaries that were not parked would count as good.
            require_queue("--canary, the destination's DLQ", dead_letters, make_client)
        return cls(redelivery, destination, dead_letters, parked)


@dataclass(slots=True)
class QueueProbe:
    """Implements ``watch.Probe`` with SQS and the archive.

    Attributes:
        planned_drains: the drains of the plan's messages; no copy in them was sent by the plan.
        archived: messages of any kind that were fetched so far.
    """

    spark: SparkSession
    archive: Archive
    queues: Preflight
    plan_id: str
    planned_drains: Collection[str]
    make_client: ClientFactory
    archived: int = 0
    _baseline_files: frozenset[str] = frozenset()
    _baseline_ids: frozenset[str] = frozenset()

    def take_baseline(self) -> None:
        """Record which copies are there already; call it before the first canary is sent.

        Raises:
            ArchiveError: the archive cannot be read.
        """
        parked = self.parked()
        if parked is None or parked.total:
            # If this fails, parked copies may count as returned: see above.
            self.fetch()
        self._baseline_files = frozenset(self.archive.list(MESSAGES))
        drains = sorted(set(drain_ids(self.archive)) - set(self.planned_drains))
        if drains:
            ids = self._of_plan(drains).select("message_id").collect()
            self._baseline_ids = frozenset(row["message_id"] for row in ids)

    def main(self) -> QueueCounts | None:
        return self._counts(self.queues.main)

    def dead_letters_waiting(self) -> int | None:
        """On a FIFO queue messages in flight are held: they are decided."""
        url = self.queues.dead_letters
        if url is None:
            return 0
        counts = self._counts(url)
        if counts is None:
            return None
        is_fifo = QueueAddress.from_url(url).is_fifo
        return counts.visible + (0 if is_fifo else counts.in_flight)

    def parked(self) -> QueueCounts | None:
        return self._counts(self.queues.parked)

    def fetch(self) -> str:
        counts = self.parked()
        tasks = None if counts is None or counts.visible > _MANY_MESSAGES else 1
        options = DrainOptions(self.queues.parked, self.archive.root, tasks=tasks, wait_seconds=1)
        try:
            summary = drain(self.spark, options, make_client=self.make_client)
        except JobError as error:
            return str(error)
        self.archived += summary.archived
        return "; ".join(summary.stopped_by)

    def returned(self) -> Mapping[str, str]:
        new = frozenset(self.archive.list(MESSAGES)) - self._baseline_files
        drains = sorted({drain_of(path) for path in new if path.endswith(".parquet")})
        if not drains:
            return {}
        errors: dict[str, str] = {}
        for row in self._of_plan(drains).collect():
            if row["message_id"] not in self._baseline_ids:
                first_id = row["first_id"]
                errors[first_id] = max(row["error_type"] or "", errors.get(first_id, ""))
        return errors

    def _of_plan(self, drains: Sequence[str]) -> DataFrame:
        columns = ("message_id", "first_id", "plan_id", "error_type")
        rows = archive_rows(self.spark, self.archive, drains, columns)
        return rows.where(F.col("plan_id") == self.plan_id)

    def _counts(self, url: str) -> QueueCounts | None:
        return queue_counts(SqsQueue(self.make_client(url), url))


def queue_url_beside(url: str, arn: str) -> str | None:
    """Return the URL of the queue *arn*, in the Region of the queue at *url*; None for no ARN."""
    if not arn:
        return None
    return QueueAddress.from_arn(arn).url_beside(url)
