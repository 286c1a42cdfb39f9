"""The shared state of the demo's steps: messages, queues, functions and counts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from demo.audit import Journal
from demo.business import Business
from demo.environment import Queues, depth
from demo.event_source import Poller
from demo.order import OrderBook
from demo.screen import Progress
from demo.spark import Spark
from demo.workload import DemoMessage
from spark_reprocess.clients import QueueCounts

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_STOP_SECONDS = 10.0


@dataclass
class RunContext:
    """The state of a run. The steps change only the last three attributes.

    Attributes:
        work: folder for archive and report.
        spark: None skips the second half, for tests.
        elapsed_seconds: returns the seconds since the run started.
        order: checks the order of dead letters; None on standard queues.
        sent: messages that SQS confirmed, by identity.
        archived: identities in the archive.
    """

    messages: Sequence[DemoMessage]
    work: Path
    client: "SQSClient"
    queues: Queues
    journal: Journal
    business: Business
    pollers: Sequence[Poller]
    spark: Spark | None
    elapsed_seconds: Callable[[], float]
    order: OrderBook | None
    phase: str = "starting"
    sent: dict[str, DemoMessage] = field(default_factory=dict)
    archived: frozenset[str] = frozenset()

    @property
    def archive(self) -> Path:
        """The folder of the archive."""
        return self.work / "archive"

    @property
    def report(self) -> Path | None:
        """The report of the first analysis; None if there is none."""
        return min(self.archive.glob("reports/*/report.html"), default=None)

    def progress(self) -> Progress:
        """Return the current counts."""
        seen = self.journal.sightings()
        main, dlq, parked = (
            depth(self.client, queue)
            for queue in (self.queues.main, self.queues.dlq, self.queues.parked)
        )
        return Progress(
            phase=self.phase,
            elapsed_seconds=self.elapsed_seconds(),
            total=len(self.messages),
            sent=len(self.sent),
            processed=sum(1 for s in seen.values() if s.processed_count),
            replayed=sum(1 for s in seen.values() if s.replay_count),
            archived=len(self.archived),
            redriven=sum(1 for i, s in seen.items() if s.is_redriven and i in self.archived),
            main=main,
            dlq=_backing_off_in_flight(dlq) if self.queues.dlq.is_fifo else dlq,
            parked=parked,
        )

    def stop_pollers(self) -> None:
        """Stop after the current batches. After this nothing is received from the queues."""
        for poller in self.pollers:
            poller.stop()
        for poller in self.pollers:
            poller.join(_STOP_SECONDS)


def _backing_off_in_flight(dlq: QueueCounts) -> QueueCounts:
    """Count in-flight messages of a FIFO DLQ as delayed: nearly all of them are held."""
    return QueueCounts(dlq.visible, delayed=dlq.in_flight + dlq.delayed)
