"""The eyes of a canary's watch on real queues and a real archive.

What came back is counted in the archive, not by looking at the parked queue: a look without a
deletion counts as a receive, hides messages from others, and on a queue of any size never sees all
of them. So the parked queue is drained, which is what the archive is for, and each message's own
context says which plan sent it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from dlq_replay.addresses import QueueAddress
from dlq_replay.errors import QueueError
from dlq_replay.sqs import SqsQueue
from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.message_store import drain_ids, new_id
from spark_reprocess.archive.reading import archive_rows
from spark_reprocess.clients import ClientFactory
from spark_reprocess.drain.drain import DrainOptions, drain
from spark_reprocess.errors import JobError
from spark_reprocess.queue_counts import QueueCounts

_SKEW_SECONDS = 60
"""How far SQS's clock may be off from ours."""

_LONGEST_DRAIN_SECONDS = 86_400
"""Somebody else's drain that began so long ago may still bring canaries."""

_MANY_MESSAGES = 2000
"""From here on a drain is worth several tasks."""


@dataclass(frozen=True, slots=True)
class WatchedQueues:
    """URLs; *dead_letters* is None where failures are parked without a queue between."""

    main: str
    dead_letters: str | None
    parked: str


@dataclass(slots=True)
class LiveEyes:
    """Satisfies ``watch.Eyes``.

    Attributes:
        sent_at: when the first canary was sent, epoch seconds.
        archived: how many messages of any kind were fetched so far.
    """

    spark: SparkSession
    archive: Archive
    queues: WatchedQueues
    plan_id: str
    sent_at: float
    make_client: ClientFactory
    archived: int = field(default=0)

    def main(self) -> QueueCounts | None:
        """See ``Eyes``."""
        return self._counts(self.queues.main)

    def dead_letters_waiting(self) -> int | None:
        """See ``Eyes``. On FIFO those in flight are held, and have been decided about."""
        url = self.queues.dead_letters
        if url is None:
            return 0
        counts = self._counts(url)
        if counts is None:
            return None
        is_fifo = QueueAddress.from_url(url).is_fifo
        return counts.visible + (0 if is_fifo else counts.in_flight)

    def parked(self) -> QueueCounts | None:
        """See ``Eyes``."""
        return self._counts(self.queues.parked)

    def fetch(self) -> str:
        """See ``Eyes``."""
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
        """See ``Eyes``."""
        oldest = new_id(self.sent_at - _LONGEST_DRAIN_SECONDS)
        recent = [drain_id for drain_id in drain_ids(self.archive) if drain_id >= oldest]
        if not recent:
            return {}
        since = datetime.fromtimestamp(self.sent_at - _SKEW_SECONDS, UTC)
        columns = ("first_id", "plan_id", "sent_at", "error_type")
        came_back = archive_rows(self.spark, self.archive, recent, columns).where(
            (F.col("plan_id") == self.plan_id) & (F.col("sent_at") >= F.lit(since))
        )
        failures = came_back.groupBy("first_id").agg(F.max("error_type").alias("error_type"))
        return {row["first_id"]: row["error_type"] or "" for row in failures.collect()}

    def _counts(self, url: str) -> QueueCounts | None:
        try:
            return QueueCounts.of(SqsQueue(self.make_client(url), url).describe())
        except QueueError:
            return None


def queue_url_beside(url: str, arn: str) -> str | None:
    """Return the URL of the queue *arn* in the Region of the queue at *url*; None for no ARN."""
    if not arn:
        return None
    address = QueueAddress.from_arn(arn)
    base, _, _ = url.rstrip("/").rsplit("/", 2)
    return f"{base}/{address.account_id}/{address.name}"
