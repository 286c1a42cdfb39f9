"""The facts of a queue that decide whether a look may receive from it, and what it cannot see."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.config import Config

from dlq.aws.clients import DescribedQueue, aws_client
from dlq.errors import InputError
from dlq.stack.rules import TriggerFacts
from dlq.stack.survey import Questions, list_mappings, list_pipes
from dlq_replay.aws.sqs import SqsQueue

LEAST_RECEIVES = 100
"""A redrive policy with fewer receives may move messages because of looks alone."""

RECENT_MINUTES = 15


@dataclass(frozen=True, slots=True)
class QueueFacts:
    """A queue before a look.

    Attributes:
        sources: URLs of the queues whose dead letters it gets; None where SQS does not say.
        readers: live event source mappings and pipes that receive from it, in words.
        recent_receives: messages that anybody received in the last ``RECENT_MINUTES``; None where
            CloudWatch does not say.
        unknown: what could not be asked, and why.
    """

    queue: DescribedQueue
    sources: tuple[str, ...] | None = None
    readers: tuple[str, ...] = ()
    recent_receives: int | None = None
    unknown: tuple[str, ...] = ()


_CONFIG = Config(connect_timeout=3, read_timeout=5, retries={"total_max_attempts": 1})
"""All questions are optional, and nobody waits long for their answers."""


def client_beside(queue: DescribedQueue) -> Callable[[str], Any]:
    """Return a function that makes the client of a service in the Region of a queue."""
    _, _, _, region, *_ = queue.arn.split(":")
    return lambda service: aws_client(service, _CONFIG, region)


def queue_facts(queue: DescribedQueue, make_client: Callable[[str], Any]) -> QueueFacts:
    """Ask AWS about the readers and sources of a queue. What it refuses is in ``unknown``.

    *make_client* makes the client of a service, see ``client_beside``.
    """
    questions = Questions()

    def ask(subject: str, call: Callable[..., Any], *words: Any) -> Any:  # noqa: ANN401
        return questions.ask(f"{subject} not checked", call, make_client, *words)

    with ThreadPoolExecutor(thread_name_prefix="ask") as executor:
        sources = executor.submit(ask, "sources", _sources, queue.url)
        mappings = executor.submit(ask, "event source mappings", _mappings, queue.arn)
        pipes = executor.submit(ask, "pipes", _pipes, queue.arn)
        receives = executor.submit(ask, "recent receives", _recent_receives, queue.name)

    triggers: list[TriggerFacts] = [*(mappings.result() or ()), *(pipes.result() or ())]
    return QueueFacts(
        queue=queue,
        sources=sources.result(),
        readers=tuple(trigger.name for trigger in triggers if trigger.is_live),
        recent_receives=receives.result(),
        unknown=tuple(sorted(questions.unknown)),
    )


def _sources(make_client: Callable[[str], Any], url: str) -> tuple[str, ...]:
    sources = SqsQueue(make_client("sqs"), url).sources()
    return tuple(source.url_beside(url) for source in sorted(sources))


def _mappings(make_client: Callable[[str], Any], arn: str) -> list[TriggerFacts]:
    return list_mappings(make_client, EventSourceArn=arn)


def _pipes(make_client: Callable[[str], Any], arn: str) -> list[TriggerFacts]:
    pipes = list_pipes(make_client, SourcePrefix=arn)
    return [pipe for pipe in pipes if pipe.source_arn == arn]


def _recent_receives(make_client: Callable[[str], Any], name: str) -> int:
    metric = {
        "Namespace": "AWS/SQS",
        "MetricName": "NumberOfMessagesReceived",
        "Dimensions": [{"Name": "QueueName", "Value": name}],
    }
    statistic = {"Metric": metric, "Period": RECENT_MINUTES * 60, "Stat": "Sum"}

    now = datetime.now(UTC)
    answer = make_client("cloudwatch").get_metric_data(
        MetricDataQueries=[{"Id": "receives", "MetricStat": statistic}],
        StartTime=now - timedelta(minutes=RECENT_MINUTES),
        EndTime=now,
    )
    return int(sum(answer["MetricDataResults"][0]["Values"]))


def require_receives(queue: DescribedQueue, receives_allowed: int | None) -> None:
    """Check that a receive of each message is not likely to move one.

    A look is a receive, and counts as one of a consumer's. SQS moves a message once its count is
    above ``maxReceiveCount``, and a move to a DLQ does not reset the count.

    Raises:
        InputError: the redrive policy allows fewer than ``LEAST_RECEIVES``, or *receives_allowed*
            instead of that.
    """
    most = queue.max_receive_count
    least = LEAST_RECEIVES if receives_allowed is None else receives_allowed
    if most is None or most >= least:
        return
    raise InputError(
        f"queue {queue.name}: each look counts as a receive, and SQS moves a message to "
        f"{target_name(queue)} after {most} of them; the count of a message is not known before "
        f"it is received. Look all the same with --receives-allowed {most}: it ends at the first "
        "message with two receives left"
    )


def target_name(queue: DescribedQueue) -> str:
    """Return the name of the queue to which SQS moves messages of *queue*; empty without one."""
    return (queue.redrive_target_arn or "").rpartition(":")[2]
