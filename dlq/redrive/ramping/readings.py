"""Reads what a ramp must know from AWS.

That is the failure table, queues, metrics, and what feeds the replay function. An adapter.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from dlq.aws.clients import (
    ClientFactory,
    DescribedQueue,
    QueueCounts,
    aws_client,
    queue_counts,
    read_limit,
    region_of,
    require_queue,
    returns_table,
)
from dlq.errors import InputError
from dlq.redrive.ramping.verdict_rules import PATIENCE_MINUTES, Reading
from dlq.redrive.request import RedriveRequest
from dlq_replay.aws.sqs import SqsQueue, describe
from dlq_replay.errors import TableError
from dlq_replay.replaying.measures import (
    MAIN_QUEUE_DIMENSION,
    NAMESPACE,
    QUEUE_TAG_DIMENSION,
    SERVICE,
    SERVICE_DIMENSION,
    Metric,
)
from dlq_replay.wire.addresses import QueueAddress

_MAX_POINTS = 1440
"""The most that CloudWatch returns for one metric. It keeps minutes for 15 days, then five."""


@dataclass(frozen=True, slots=True)
class ReturnsProbe:
    """Reads counts and metrics that show whether a step's failures are back in the queue's DLQ."""

    request: RedriveRequest
    queue: DescribedQueue
    make_client: ClientFactory

    def check(self) -> None:
        """Raise InputError where a failure would not come to the parked queue of the run."""
        if self.request.is_fleet:
            # Its DLQ has the tag, too, so the function reads it and parks what fails again.
            return
        name = QueueAddress.from_url(self.queue.url).name
        dlq_url = self.queue.dead_letter_url
        parked_urls = self.request.parked_queue_urls
        if dlq_url is None:
            raise InputError(f"queue {name} has no redrive policy, so what fails stays there")
        if not parked_urls:
            raise InputError("no --parked-queue-url says where failures come back")

        target_arn = require_queue("DLQ", dlq_url, self.make_client).redrive_target_arn
        wanted = list(map(QueueAddress.from_url, parked_urls))
        if not target_arn or QueueAddress.from_arn(target_arn) not in wanted:
            raise InputError(
                f"the dead letters of queue {name} do not go to parked queue {wanted[0].name}: see "
                f"the redrive policy of {QueueAddress.from_url(dlq_url).name}"
            )

    def read(self, began_at: float, now: float) -> Reading:
        """Look at everything once; *began_at* is when the step began, epoch seconds.

        Never raises for what AWS answers: what is not known keeps a step from being good.
        """
        queue = "AWS/SQS", {"QueueName": QueueAddress.from_url(self.queue.url).name}
        try:
            obstacle = next(filter(None, self._obstacles(began_at, now)), "")
            name = Metric.RETURNS_NOT_COUNTED.value
            uncounted = _sum(self._metric(name, *self._ours, began_at, now))
            oldest = self._metric("ApproximateAgeOfOldestMessage", *queue, began_at, now)
            deletions = self._metric("NumberOfMessagesDeleted", *queue, began_at, now)
        except (BotoCoreError, ClientError) as error:
            return Reading(now, f"AWS does not say how the step went: {describe(error)}")

        return Reading(
            at=now,
            obstacle=obstacle,
            uncounted=uncounted,
            main=self._count(self.queue.url),
            dead_letters=self._count(self.queue.dead_letter_url or ""),
            ages={point["Timestamp"].timestamp(): point["Maximum"] for point in oldest},
            deleted=_sum(deletions) if deletions else None,
        )

    def _count(self, url: str) -> QueueCounts | None:
        return queue_counts(SqsQueue(self.make_client(url), url))

    def _obstacles(self, began_at: float, now: float) -> Iterator[str]:
        """Yield why the step cannot be good now; empty sentences do not count."""
        request = self.request
        limit = read_limit(request.failure_table, self.queue.url)
        yield limit.sentence
        if limit.fault:
            yield f"the limit of replays cannot be read: {limit.fault}"

        # A copy whose return cannot be counted now is one that the function left in the DLQ.
        fault_metrics = [self._failed_metric]
        # A function that nobody named and that does not run leaves dead letters in the DLQ.
        if request.function_arn is not None:
            sweep_arn = request.sweep_function_arn
            if not (self._is_fed(request.function_arn) or (sweep_arn and self._runs(sweep_arn))):
                yield "nothing feeds the replay function; turn its trigger on: dlq resume"
            for arn in filter(None, (request.function_arn, sweep_arn)):
                dimensions = {"FunctionName": arn.rpartition(":")[2]}
                fault_metrics.append(("Errors", "AWS/Lambda", dimensions))
                fault_metrics.append(("Throttles", "AWS/Lambda", dimensions))

        recent = max(began_at, now - PATIENCE_MINUTES * request.minute_seconds)
        for metric, namespace, dimensions in fault_metrics:
            if count := _sum(self._metric(metric, namespace, dimensions, recent, now)):
                yield f"the replay function had {count:,} {metric} in the last minutes"

    @property
    def _ours(self) -> tuple[str, dict[str, str]]:
        """Namespace and dimensions of the replay function's metrics.

        It publishes for the stack's main queue what concerns its whole DLQ, and for the tag of a
        fleet what concerns all of its queues.
        """
        if tag := self.request.queue_tag:
            return NAMESPACE, {SERVICE_DIMENSION: SERVICE, QUEUE_TAG_DIMENSION: tag}
        stack_queue = QueueAddress.from_url(self.request.main_queue_url or self.queue.url).name
        return NAMESPACE, {SERVICE_DIMENSION: SERVICE, MAIN_QUEUE_DIMENSION: stack_queue}

    @property
    def _failed_metric(self) -> tuple[str, str, dict[str, str]]:
        """Metric, namespace and dimensions of what the replay function leaves in the DLQ.

        In a fleet what it leaves of other queues says nothing of this one.
        """
        if not self.request.queue_tag:
            return Metric.FAILED_TOTAL.value, *self._ours
        name = QueueAddress.from_url(self.queue.url).name
        dimensions = {SERVICE_DIMENSION: SERVICE, MAIN_QUEUE_DIMENSION: name}
        return Metric.FAILED.value, NAMESPACE, dimensions

    def _is_fed(self, function_arn: str) -> bool:
        """Return whether a mapping or a pipe feeds the function; in a fleet from this DLQ."""
        mappings = self._client("lambda").get_paginator("list_event_source_mappings")
        pipes = self._client("pipes").get_paginator("list_pipes")
        asked = {"FunctionName": function_arn.rpartition(":")[2]}
        if self.request.is_fleet:
            asked["EventSourceArn"] = self.queue.redrive_target_arn or ""
        states = mappings.paginate(**asked).search("EventSourceMappings[].State")
        running = pipes.paginate(TargetPrefix=function_arn, CurrentState="RUNNING")
        return "Enabled" in states or function_arn in running.search("Pipes[].Target")

    def _runs(self, sweep_arn: str) -> bool:
        """Return whether a schedule invokes the function that reads all queues of a fleet."""
        events = self._client("events")
        for name in events.list_rule_names_by_target(TargetArn=sweep_arn)["RuleNames"]:
            if events.describe_rule(Name=name)["State"] == "ENABLED":
                return True
        return False

    def _client(self, service: str) -> Any:  # noqa: ANN401 - any client
        return aws_client(service, region=region_of(self.queue.url, "us-east-1"))

    def _metric(
        self, name: str, namespace: str, dimensions: Mapping[str, str], since: float, now: float
    ) -> list[dict[str, Any]]:
        """Return the sum and the maximum of each period: a minute, more for a step of days ago."""
        minute_seconds = self.request.minute_seconds
        start = since // minute_seconds * minute_seconds
        end = (now // minute_seconds + 1) * minute_seconds
        minutes = (end - start) / minute_seconds
        minutes_per_point = 1
        if minutes > _MAX_POINTS:
            minutes_per_point = 5 * math.ceil(minutes / 5 / _MAX_POINTS)

        answer = self._client("cloudwatch").get_metric_statistics(
            Namespace=namespace,
            MetricName=name,
            Dimensions=[{"Name": key, "Value": value} for key, value in dimensions.items()],
            StartTime=datetime.fromtimestamp(start, UTC),
            EndTime=datetime.fromtimestamp(end, UTC),
            Period=max(1, round(minute_seconds)) * minutes_per_point,
            Statistics=["Sum", "Maximum"],
        )
        return list(answer["Datapoints"])


def find_probes(
    request: RedriveRequest, destinations: Mapping[str, DescribedQueue], make_client: ClientFactory
) -> tuple[dict[str, ReturnsProbe], str]:
    """Return the probe of steps to each destination; none where all goes at once.

    Also why there is no ramp although nobody asked for everything at once; else empty.

    Raises:
        InputError: the failure table cannot be read, or a failure would not come back where it is
            counted, and nobody asked for everything at once.
    """
    table = request.failure_table
    uncounted = "no --failure-table counts what fails again"
    if request.goes_at_once:
        is_expected = bool(table) or request.ramp is False
        return {}, "" if is_expected else f"everything at once: {uncounted}"
    if not table:
        raise refused(f"--ramp: {uncounted}")

    try:
        returns_table(table, request.queue_in_region).read("", [""])
    except TableError as error:
        raise refused(f"table {table} cannot be read: {error}") from error
    for url in destinations:
        if fault := read_limit(table, url).fault:
            raise refused(f"table {table} cannot be read: {fault}")

    probes = {url: ReturnsProbe(request, queue, make_client) for url, queue in destinations.items()}
    try:
        for probe in probes.values():
            probe.check()
    except InputError as error:
        if request.ramp or request.execute:
            raise refused(str(error)) from error
        return {}, f"not by ramp, so only with --at-once: {error}"
    return probes, ""


def begin_counters(
    request: RedriveRequest, plan_id: str, group_ids: Collection[str]
) -> tuple[set[str], str]:
    """Make the counters of what fails again of these groups.

    Return the groups that had none, and why nothing is counted; empty if it is, or no failure
    table is named.

    Raises:
        InputError: they cannot be made, and everything does not go at once. Nothing was sent.
    """
    if not (table := request.failure_table):
        return set(), ""
    try:
        new = returns_table(table, request.queue_in_region).begin(plan_id, sorted(group_ids))
    except TableError as error:
        fault = f"table {table} cannot be written: {error}"
        if request.goes_at_once:
            return set(), f"what fails again after this run is not counted: {fault}"
        raise refused(fault) from error
    return new, ""


def unread_limits(request: RedriveRequest, destinations: Collection[str]) -> str:
    """Return why limits of the circuit breaker cannot be read, and so are not kept to; else empty.

    Only where everything goes at once: otherwise ``find_probes`` has refused the redrive.
    """
    for url in destinations:
        if fault := read_limit(request.failure_table, url).fault:
            return f"no limit of a circuit breaker is kept to: it cannot be read: {fault}"
    return ""


def refused(why: str) -> InputError:
    """Return the error of a redrive that must not begin, with the way round it."""
    return InputError(f"{why}; nothing was sent: --at-once sends everything in one step, unseen")


def _sum(points: Sequence[Mapping[str, float]]) -> int:
    return round(sum(point["Sum"] for point in points))
