"""What a ramp asks AWS: queues, metrics, and what feeds the replay function. An adapter."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Self

from botocore.exceptions import BotoCoreError, ClientError

from dlq_replay.aws.sqs import SqsQueue, describe
from dlq_replay.replaying.measures import (
    MAIN_QUEUE_DIMENSION,
    NAMESPACE,
    SERVICE,
    SERVICE_DIMENSION,
    Metric,
)
from dlq_replay.wire.addresses import QueueAddress
from spark_reprocess.aws.clients import (
    ClientFactory,
    Redelivery,
    aws_client,
    queue_counts,
    region_of,
    require_queue,
)
from spark_reprocess.aws.limits import read_limit
from spark_reprocess.errors import InputError
from spark_reprocess.ramp.rule import PATIENCE_MINUTES, Reading
from spark_reprocess.redrive.redrive_values import RedriveOptions

_MAX_POINTS = 1440
"""The most that CloudWatch returns for one metric. It keeps minutes for 15 days, then five."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Reads what tells whether a step's failures have returned.

    Attributes:
        main: URL of the destination.
        dead_letters: URL of its DLQ.
        redelivery: of the destination.
        make_aws_client: makes the client of a service in the destination's Region.
    """

    options: RedriveOptions
    main: str
    dead_letters: str
    redelivery: Redelivery
    make_client: ClientFactory
    make_aws_client: Callable[[str], Any]

    @classmethod
    def of(
        cls,
        options: RedriveOptions,
        main: str,
        attributes: Mapping[str, str],
        make_client: ClientFactory,
    ) -> Self:
        """Return the probe of a destination, of which *attributes* are given.

        Raises:
            InputError: a failure would not come to the parked queue that messages are drained from.
        """
        redelivery = Redelivery.of(attributes)
        name, dead_letters = QueueAddress.from_url(main).name, redelivery.dead_letter_url(main)
        if dead_letters is None:
            raise InputError(f"queue {name} has no redrive policy, so what fails stays there")
        if options.parked_queue_url is None:
            raise InputError("no --parked-queue-url says where failures come back")
        parked = QueueAddress.from_url(options.parked_queue_url)
        feeds = Redelivery.of(require_queue("DLQ", dead_letters, make_client)).dead_letter_arn
        if not feeds or QueueAddress.from_arn(feeds) != parked:
            raise InputError(
                f"the dead letters of queue {name} do not go to parked queue {parked.name}: see "
                f"the redrive policy of {QueueAddress.from_url(dead_letters).name}"
            )
        make_aws_client = partial(aws_client, region=region_of(main, "us-east-1"))
        return cls(options, main, dead_letters, redelivery, make_client, make_aws_client)

    def read(self, began_at: float, now: float) -> Reading:
        """Look at everything once; *began_at* is when the step began, epoch seconds.

        Never raises for what AWS answers: what is not known keeps a step from being good.
        """
        queue = {"QueueName": QueueAddress.from_url(self.main).name}
        try:
            obstacle = next(filter(None, self._obstacles(began_at, now)), "")
            ages = self._metric("AWS/SQS", "ApproximateAgeOfOldestMessage", queue, began_at, now)
            deleted = self._metric("AWS/SQS", "NumberOfMessagesDeleted", queue, began_at, now)
        except (BotoCoreError, ClientError) as error:
            return Reading(now, f"AWS does not say how the step went: {describe(error)}")
        main, dead_letters = (
            queue_counts(SqsQueue(self.make_client(url), url))
            for url in (self.main, self.dead_letters)
        )
        oldest = {at: point["Maximum"] for at, point in ages.items()}
        return Reading(
            now, obstacle, main, dead_letters, oldest, _sum(deleted) if deleted else None
        )

    def _obstacles(self, began_at: float, now: float) -> Iterator[str]:
        options = self.options
        yield read_limit(options.failure_table, self.main).sentence
        # The function publishes for the stack's main queue what concerns its whole DLQ.
        stack_queue = QueueAddress.from_url(options.main_queue_url or self.main).name
        ours = {SERVICE_DIMENSION: SERVICE, MAIN_QUEUE_DIMENSION: stack_queue}
        recent = max(began_at, now - PATIENCE_MINUTES * options.minute_seconds)
        not_counted, left = Metric.RETURNS_NOT_COUNTED.value, Metric.FAILED_TOTAL.value
        metrics = [
            ("returns that it could not count", NAMESPACE, not_counted, ours, began_at),
            # A copy whose return cannot be counted now is one of them.
            ("messages that it left in the DLQ", NAMESPACE, left, ours, recent),
        ]
        # A function that nobody named and that does not run leaves dead letters in the DLQ.
        if options.function_arn is not None:
            name = options.function_arn.rpartition(":")[2]
            if not self._is_fed(options.function_arn, name):
                yield "nothing feeds the replay function; turn its trigger on: dlq resume"
            for metric in ("Errors", "Throttles"):
                of = {"FunctionName": name}
                metrics.append((metric.lower(), "AWS/Lambda", metric, of, recent))
        for what, namespace, metric, of, since in metrics:
            if count := _sum(self._metric(namespace, metric, of, since, now)):
                yield f"the replay function had {count:,} {what} since the step"

    def _is_fed(self, function_arn: str, name: str) -> bool:
        mappings = self.make_aws_client("lambda").get_paginator("list_event_source_mappings")
        pipes = self.make_aws_client("pipes").get_paginator("list_pipes")
        states = mappings.paginate(FunctionName=name).search("EventSourceMappings[].State")
        running = pipes.paginate(TargetPrefix=function_arn, CurrentState="RUNNING")
        return "Enabled" in states or function_arn in running.search("Pipes[].Target")

    def _metric(
        self, namespace: str, name: str, dimensions: Mapping[str, str], since: float, now: float
    ) -> dict[float, dict[str, float]]:
        """Return the sum and the maximum of each period, a minute or more, by its begin."""
        seconds = self.options.minute_seconds
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
