"""The limit that the circuit breaker of a main queue has set, and what waits in the DLQ for it."""

import time
from dataclasses import dataclass

from dlq_replay.aws.sqs import SqsQueue
from dlq_replay.errors import TableError
from dlq_replay.rules.breaker import BreakerView
from spark_reprocess.aws.clients import ClientFactory, breaker_table, queue_counts


@dataclass(frozen=True, slots=True)
class Limit:
    """What a main queue may get.

    Attributes:
        per_minute: replays; None for no limit.
        sentence: the limit in words; empty without one.
        fault: why the limit is not known; empty if it is.
    """

    per_minute: int | None = None
    sentence: str = ""
    fault: str = ""

    def least_rate(self, max_rate: float | None) -> float | None:
        """The lower one of *max_rate*, messages a second, and the limit; None for neither."""
        return min(filter(None, (max_rate, self.per_minute and self.per_minute / 60)), default=None)


def read_limit(failure_table: str | None, queue_url: str) -> Limit:
    """Read the limit of a queue; there is none without a table. Never raises for what AWS does."""
    if failure_table is None:
        return Limit()
    try:
        numbers = breaker_table(failure_table, queue_url).read()
    except TableError as error:
        return Limit(fault=str(error))
    view = BreakerView(numbers, int(time.time()))
    return Limit(view.limit, view.in_words)


@dataclass(frozen=True, slots=True)
class DlqStatus(Limit):
    """The limit of a main queue, and while there is one, its dead-letter queue.

    Attributes:
        waiting: messages that wait in the DLQ, about; None where SQS does not say.
    """

    waiting: int | None = None


def dlq_status(
    failure_table: str, main_queue_url: str, dlq_url: str | None, make_client: ClientFactory
) -> DlqStatus:
    """Ask for the limit of a queue, and for what waits. Never raises for what AWS answers."""
    limit = read_limit(failure_table, main_queue_url)
    if limit.per_minute is None:
        return DlqStatus(fault=limit.fault)
    counts = queue_counts(SqsQueue(make_client(dlq_url), dlq_url)) if dlq_url else None
    # Held by a delayed re-send, or on FIFO by visibility.
    waiting = counts.delayed + counts.in_flight if counts else None
    return DlqStatus(limit.per_minute, limit.sentence, waiting=waiting)
