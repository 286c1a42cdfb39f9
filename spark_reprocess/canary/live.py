"""The eyes of a canary's watch on real queues and a real archive.

What came back is counted in the archive, not by looking at the parked queue: a look without a
deletion counts as a receive, hides messages from others, and on a queue of any size never sees all
of them. So the parked queue is drained, which is what the archive is for, and each message's own
context says which plan sent it.

An earlier return of the same message with the same plan, as after a canary that was in doubt, is
told apart by its message id, not by the time: the clocks of SQS, of this driver and of another
operator's may differ by any amount. What the archive and the parked queue hold before the send is
none of this canary's. A copy that was still on its way to the parked queue then counts as a return:
that stops its group, which is safe, and the next canary knows the copy.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from dlq_replay.addresses import QueueAddress
from dlq_replay.errors import QueueError
from dlq_replay.sqs import SqsQueue
from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.message_store import drain_ids
from spark_reprocess.archive.reading import MESSAGES, archive_rows, drain_of
from spark_reprocess.clients import ClientFactory
from spark_reprocess.drain.drain import DrainOptions, drain
from spark_reprocess.errors import JobError
from spark_reprocess.queue_counts import QueueCounts

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
        planned_drains: drains of what the plan froze; they hold no copy with its id.
        archived: how many messages of any kind were fetched so far.
    """

    spark: SparkSession
    archive: Archive
    queues: WatchedQueues
    plan_id: str
    planned_drains: Collection[str]
    make_client: ClientFactory
    archived: int = 0
    _files: frozenset[str] = frozenset()
    _earlier: frozenset[str] = frozenset()

    def remember(self) -> None:
        """Take note of what is there already; call it before the first canary is sent.

        Raises:
            ArchiveError: the archive cannot be read.
        """
        parked = self.parked()
        if parked is None or parked.total:
            # Where it fails, what is parked may count as returned: see above.
            self.fetch()
        self._files = frozenset(self.archive.list(MESSAGES))
        drains = sorted(set(drain_ids(self.archive)) - set(self.planned_drains))
        if drains:
            ids = self._of_plan(drains).select("message_id").collect()
            self._earlier = frozenset(row["message_id"] for row in ids)

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
        new = frozenset(self.archive.list(MESSAGES)) - self._files
        drains = sorted({drain_of(path) for path in new if path.endswith(".parquet")})
        if not drains:
            return {}
        errors: dict[str, str] = {}
        for row in self._of_plan(drains).collect():
            if row["message_id"] not in self._earlier:
                first_id = row["first_id"]
                errors[first_id] = max(row["error_type"] or "", errors.get(first_id, ""))
        return errors

    def _of_plan(self, drains: Sequence[str]) -> DataFrame:
        columns = ("message_id", "first_id", "plan_id", "error_type")
        rows = archive_rows(self.spark, self.archive, drains, columns)
        return rows.where(F.col("plan_id") == self.plan_id)

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
