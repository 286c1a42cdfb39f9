"""What a ramp asks AWS: queues, metrics, and what feeds the replay function. An adapter.

No call raises for what AWS answers: what is not known keeps a step from being good.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
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
from spark_reprocess.ramp.rule import RampRules, Reading

MakeAwsClient = Callable[[str], Any]
"""Makes the client of a service in the destination's Region."""

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
    """

    main: str
    dead_letters: str
    redelivery: Redelivery
    make_client: ClientFactory
    make_aws_client: MakeAwsClient
    stack_queue: str
    function_arn: str | None = None
    read_limit: Callable[[], Limit] = Limit
    rules: RampRules = field(default_factory=RampRules)

    def read(self, first_sent_at: float, now: float) -> Reading:
        """Look at everything once; *first_sent_at* is when the step began, epoch seconds."""
        obstacle = self.read_limit().sentence
        try:
            obstacle = obstacle or self._trigger_fault()
            faults = self._function_faults(first_sent_at, now)
            ages = self._of_queue("ApproximateAgeOfOldestMessage", "Maximum", first_sent_at, now)
            deleted = self._of_queue("NumberOfMessagesDeleted", "Sum", first_sent_at, now)
        except (BotoCoreError, ClientError) as error:
            return Reading(obstacle or f"AWS does not say how the step went: {describe(error)}")
        return Reading(
            obstacle,
            faults,
            queue_counts(SqsQueue(self.make_client(self.main), self.main)),
            queue_counts(SqsQueue(self.make_client(self.dead_letters), self.dead_letters)),
            ages,
            {minute: round(count) for minute, count in deleted.items()},
        )

    def _trigger_fault(self) -> str:
        if self.function_arn is None:
            return ""
        name = self.function_arn.rpartition(":")[2]
        pages = self._pages("lambda", "list_event_source_mappings", FunctionName=name)
        states = [one["State"] for page in pages for one in page["EventSourceMappings"]]
        if "Enabled" in states:
            return ""
        pages = self._pages("pipes", "list_pipes", TargetPrefix=self.function_arn)
        pipes = [one for page in pages for one in page["Pipes"]]
        running = [p for p in pipes if p["Target"] == self.function_arn]
        if any(pipe["CurrentState"] == "RUNNING" for pipe in running):
            return ""
        return "nothing feeds the replay function; turn its trigger on: dlq resume"

    def _pages(self, service: str, call: str, **request: str) -> Any:  # noqa: ANN401 - boto3's pages
        return self.make_aws_client(service).get_paginator(call).paginate(**request)

    def _function_faults(self, first_sent_at: float, now: float) -> dict[str, int]:
        ours = {SERVICE_DIMENSION: SERVICE, MAIN_QUEUE_DIMENSION: self.stack_queue}
        recent = max(first_sent_at, now - self.rules.patience * self.rules.minute_seconds)

        def count(namespace: str, name: str, of: Mapping[str, str], since: float) -> int:
            return round(sum(self._metric(namespace, name, of, "Sum", since, now).values()))

        missed, failed = Metric.RETURNS_NOT_COUNTED.value, Metric.FAILED_TOTAL.value
        faults = {
            "returns that it could not count": count(NAMESPACE, missed, ours, first_sent_at),
            # A copy whose return cannot be counted now is one of them.
            "messages that it left in the DLQ": count(NAMESPACE, failed, ours, recent),
        }
        if self.function_arn is not None:
            of = {"FunctionName": self.function_arn.rpartition(":")[2]}
            for name in _FUNCTION_METRICS:
                faults[name.lower()] = count("AWS/Lambda", name, of, recent)
        return faults

    def _of_queue(
        self, name: str, statistic: str, first_sent_at: float, now: float
    ) -> dict[int, float]:
        dimensions = {"QueueName": QueueAddress.from_url(self.main).name}
        return self._metric("AWS/SQS", name, dimensions, statistic, first_sent_at, now)

    def _metric(
        self,
        namespace: str,
        name: str,
        dimensions: Mapping[str, str],
        statistic: str,
        since: float,
        now: float,
    ) -> dict[int, float]:
        """Return a statistic by minute, without minutes for which there is none.

        Of more than a day some minutes together, under the first of them.
        """
        seconds = self.rules.minute_seconds
        minutes = now // seconds - since // seconds + 1
        together = 1 if minutes <= _MAX_POINTS else 5 * math.ceil(minutes / 5 / _MAX_POINTS)
        answer = self.make_aws_client("cloudwatch").get_metric_statistics(
            Namespace=namespace,
            MetricName=name,
            Dimensions=[{"Name": key, "Value": value} for key, value in dimensions.items()],
            StartTime=datetime.fromtimestamp(since // seconds * seconds, UTC),
            EndTime=datetime.fromtimestamp((now // seconds + 1) * seconds, UTC),
            Period=max(1, round(seconds)) * together,
            Statistics=[statistic],
        )
        return {
            int(point["Timestamp"].timestamp() // seconds): point[statistic]
            for point in answer["Datapoints"]
        }


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
