"""What a ramp asks AWS: queues, metrics, and what feeds the replay function. An adapter.

No call raises for what AWS answers: what is not known keeps a step from being good.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from dlq_replay.addresses import QueueAddress
from dlq_replay.measures import (
    MAIN_QUEUE_DIMENSION,
    NAMESPACE,
    SERVICE,
    SERVICE_DIMENSION,
    Metric,
)
from dlq_replay.sqs import SqsQueue, describe
from spark_reprocess.clients import ClientFactory, Redelivery, queue_counts, require_queue
from spark_reprocess.errors import InputError
from spark_reprocess.limits import Limit
from spark_reprocess.ramp.rule import PATIENCE_MINUTES, Reading

MakeAwsClient = Callable[[str], Any]
"""Makes the client of a service in the destination's Region."""

_NOT_COUNTED, _LEFT = Metric.RETURNS_NOT_COUNTED.value, Metric.FAILED_TOTAL.value
_FUNCTION_METRICS = ("Errors", "Throttles")
_MAX_POINTS = 1440
"""The most that CloudWatch returns for one metric. It keeps minutes for 15 days, then five."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Reads what tells whether a step's failures have returned.

    Attributes:
        main: URL of the destination.
        dead_letters: URL of its DLQ.
        redelivery: of the destination.
        function_arn: of the replay function; None where nobody named it. Its trigger and its errors
            are not looked at then: a function that does not run leaves dead letters in the DLQ.
        stack_queue: name of the stack's main queue, for which the function publishes what concerns
            its whole DLQ.
        read_limit: reads what the circuit breaker allows the destination now.
        minute_seconds: a period of CloudWatch; shorter in a demonstration.
    """

    main: str
    dead_letters: str
    redelivery: Redelivery
    make_client: ClientFactory
    make_aws_client: MakeAwsClient
    stack_queue: str
    function_arn: str | None = None
    read_limit: Callable[[], Limit] = Limit
    minute_seconds: float = 60

    def read(self, began_at: float, now: float) -> Reading:
        """Look at everything once; *began_at* is when the step began, epoch seconds."""
        queue = {"QueueName": QueueAddress.from_url(self.main).name}
        try:
            obstacle = next(filter(None, self._obstacles(began_at, now)), "")
            ages = self._metric("AWS/SQS", "ApproximateAgeOfOldestMessage", queue, began_at, now)
            deleted = self._metric("AWS/SQS", "NumberOfMessagesDeleted", queue, began_at, now)
        except (BotoCoreError, ClientError) as error:
            return Reading(now, f"AWS does not say how the step went: {describe(error)}")
        return Reading(
            now,
            obstacle,
            queue_counts(SqsQueue(self.make_client(self.main), self.main)),
            queue_counts(SqsQueue(self.make_client(self.dead_letters), self.dead_letters)),
            {at: point["Maximum"] for at, point in ages.items()},
            _sum(deleted) if deleted else None,
        )

    def _obstacles(self, began_at: float, now: float) -> Iterator[str]:
        yield self.read_limit().sentence
        yield self._trigger_fault()
        ours = {SERVICE_DIMENSION: SERVICE, MAIN_QUEUE_DIMENSION: self.stack_queue}
        recent = max(began_at, now - PATIENCE_MINUTES * self.minute_seconds)
        metrics = [
            ("returns that it could not count", NAMESPACE, _NOT_COUNTED, ours, began_at),
            # A copy whose return cannot be counted now is one of them.
            ("messages that it left in the DLQ", NAMESPACE, _LEFT, ours, recent),
        ]
        if self.function_arn is not None:
            of = {"FunctionName": self.function_arn.rpartition(":")[2]}
            metrics += [(n.lower(), "AWS/Lambda", n, of, recent) for n in _FUNCTION_METRICS]
        for name, namespace, metric, of, since in metrics:
            if count := _sum(self._metric(namespace, metric, of, since, now)):
                yield f"the replay function had {count:,} {name} since the step"

    def _trigger_fault(self) -> str:
        if self.function_arn is None:
            return ""
        name = self.function_arn.rpartition(":")[2]
        pages = self._pages("lambda", "list_event_source_mappings", FunctionName=name)
        if any(one["State"] == "Enabled" for page in pages for one in page["EventSourceMappings"]):
            return ""
        pages = self._pages("pipes", "list_pipes", TargetPrefix=self.function_arn)
        feeds = {"Target": self.function_arn, "CurrentState": "RUNNING"}
        if any(feeds.items() <= pipe.items() for page in pages for pipe in page["Pipes"]):
            return ""
        return "nothing feeds the replay function; turn its trigger on: dlq resume"

    def _pages(self, service: str, call: str, **request: str) -> Any:  # noqa: ANN401 - boto3's pages
        return self.make_aws_client(service).get_paginator(call).paginate(**request)

    def _metric(
        self, namespace: str, name: str, dimensions: Mapping[str, str], since: float, now: float
    ) -> dict[float, dict[str, float]]:
        """Return the sum and the maximum of each period that has any, by its begin.

        A period is a minute; of more than a day some minutes.
        """
        seconds = self.minute_seconds
        start, end = since // seconds * seconds, (now // seconds + 1) * seconds
        minutes = (end - start) / seconds
        together = 1 if minutes <= _MAX_POINTS else 5 * math.ceil(minutes / 5 / _MAX_POINTS)
        answer = self.make_aws_client("cloudwatch").get_metric_statistics(
            Namespace=namespace,
            MetricName=name,
            Dimensions=[{"Name": key, "Value": value} for key, value in dimensions.items()],
            StartTime=datetime.fromtimestamp(start, UTC),
            EndTime=datetime.fromtimestamp(end, UTC),
            Period=max(1, round(seconds)) * together,
            Statistics=["Sum", "Maximum"],
        )
        return {point["Timestamp"].timestamp(): point for point in answer["Datapoints"]}


def _sum(points: Mapping[float, Mapping[str, float]]) -> int:
    return round(sum(point["Sum"] for point in points.values()))


def checked_probe(
    main: str,
    attributes: Mapping[str, str],
    parked: str | None,
    make_client: ClientFactory,
    make_aws_client: MakeAwsClient,
    function_arn: str | None,
    stack_queue_url: str | None,
) -> Probe:
    """Return the probe of a destination, of which *attributes* are given.

    Raises:
        InputError: a failure there would not be counted, or would not come to the parked queue
            that messages are drained from.
    """
    redelivery = Redelivery.of(attributes)
    name = QueueAddress.from_url(main).name
    dead_letters = redelivery.dead_letter_url(main)
    if dead_letters is None:
        raise InputError(f"queue {name} has no redrive policy, so what fails stays there")
    if parked is None:
        raise InputError("no --parked-queue-url says where failures come back")
    feeds = Redelivery.of(require_queue("DLQ", dead_letters, make_client)).dead_letter_arn
    if not feeds or QueueAddress.from_arn(feeds) != QueueAddress.from_url(parked):
        raise InputError(
            f"the dead letters of queue {name} do not go to parked queue "
            f"{QueueAddress.from_url(parked).name}: the redrive policy of "
            f"{QueueAddress.from_url(dead_letters).name} names "
            + (QueueAddress.from_arn(feeds).name if feeds else "none")
        )
    stack_queue = QueueAddress.from_url(stack_queue_url or main).name
    return Probe(
        main, dead_letters, redelivery, make_client, make_aws_client, stack_queue, function_arn
    )
