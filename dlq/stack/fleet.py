"""Reads the status of a fleet: SQS, CloudWatch, failure table, archive. Changes nothing."""

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from dlq.archive.storage.files import Archive, open_archive
from dlq.aws.clients import (
    DescribedQueue,
    QueueCounts,
    aws_client,
    aws_session,
    region_of,
    require_queue_url,
)
from dlq.errors import InputError, JobError
from dlq.explain.outputs import read_findings
from dlq.explain.triage import Status
from dlq.inspect.status import ArchiveStatus, StatusOptions, count_with_report
from dlq.plan.plan_file import NoReportError, find_plan
from dlq.stack.fleet_rows import (
    EXPIRY,
    LIMIT,
    NEW_GROUPS,
    OLDEST,
    PENDING,
    FleetRow,
    figure_key,
    fleet_row,
    ordered,
    sources_by_dlq,
)
from dlq.stack.survey import Questions, read_sweep_rule
from dlq.stack.user_files import keep_figures, kept_figures
from dlq_replay.aws.breaker_table import read_breakers
from dlq_replay.aws.failure_table import MAX_READS, table_client_config
from dlq_replay.aws.sqs import SqsQueue, client_config
from dlq_replay.aws.tagged_queues import iterate_tagged_queues
from dlq_replay.errors import QueueError
from dlq_replay.replaying.measures import (
    MAIN_QUEUE_DIMENSION,
    NAMESPACE,
    SERVICE,
    SERVICE_DIMENSION,
    Metric,
)
from dlq_replay.rules.breaker import BreakerView, rules_for
from dlq_replay.wire.addresses import QueueAddress

_CONCURRENT_CALLS = 32

_QUERIES = 500
"""The most that one GetMetricData takes."""

_STATISTICS = {OLDEST: "Maximum", EXPIRY: "Minimum"}
"""Of the metrics whose newest value counts; the others are added up."""

_NEWEST = tuple(_STATISTICS)

_UNREAD = ("Forbidden", "InternalError")
"""States of a metric without an answer."""


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """The status of a fleet; docs/reference.md describes the fields, under "status of a fleet".

    Attributes:
        members: the number of queues with the tag.
        parked: the counts of the parked queues by name, as far as SQS says them.
        sweep: "enabled" or "disabled", as its rule is; "none" without one, None if not known.
        unknown: what could not be read, and why.
        figures_at: when the oldest figures of CloudWatch were read.
        metrics: the number of metrics that were read from CloudWatch now.
    """

    queue_tag: str
    at: datetime
    members: int
    parked: Mapping[str, QueueCounts]
    sweep: str | None
    archive: ArchiveStatus | None
    queues: Sequence[FleetRow]
    unknown: Sequence[str]
    figures_at: datetime
    metrics: int


def read_fleet(options: StatusOptions, now_seconds: int) -> FleetStatus:
    """Read the status of the fleet with ``queue_tag``.

    Raises:
        InputError: the members cannot be listed, or ``queue`` is none of them.
    """
    urls = [url for url in (options.parked_queue_url, options.fifo_parked_queue_url) if url]
    if not urls:
        raise InputError("--queue-tag: give --parked-queue-url, too, which names the Region")
    parked_queues = [require_queue_url("--parked-queue-url", url) for url in urls]
    reader = _Reader(options, urls[0], now_seconds)

    with ThreadPoolExecutor(_CONCURRENT_CALLS, thread_name_prefix="fleet") as executor:
        archive = executor.submit(reader.archive)
        sweep = executor.submit(reader.sweep)
        parked = reader.described(executor, parked_queues)
        members = reader.described(executor, reader.tagged_queues())
        for name in parked.keys() & members.keys():
            # The redrive policies of DLQs lead to it.
            del members[name]

        targets = {name: _name(queue.redrive_target_arn) for name, queue in members.items()}
        sources = _chosen(sources_by_dlq(targets), options.queue)
        main_queues = sorted(set().union(*sources.values()))
        limits = executor.submit(reader.limits, main_queues)

        keys: list[str] = []
        for dlq, of_dlq in sources.items():
            if members[dlq].counts.total:
                keys.append(figure_key(OLDEST, dlq))
                keys += [figure_key(EXPIRY, queue) for queue in of_dlq]
        for metric in (Metric.REPLAYED, Metric.FAILED):
            keys += [figure_key(metric, queue) for queue in main_queues]
        metrics, metrics_read, at_seconds = reader.metrics(keys)

    parked_counts = {name: queue.counts for name, queue in parked.items()}
    counts, new_groups = archive.result()
    figures = {**metrics, **limits.result()}
    if counts:
        # What can be collected decides which command comes next.
        visible = sum(queue.visible for queue in parked_counts.values())
        counts = replace(counts, queue=QueueCounts(visible=visible))
        for name in members:
            figures[figure_key(PENDING, name)] = counts.pending_sources.get(name, 0)
            figures[figure_key(NEW_GROUPS, name)] = new_groups[name]

    rows = [fleet_row(members[dlq], of_dlq, figures) for dlq, of_dlq in sources.items()]
    return FleetStatus(
        queue_tag=reader.tag,
        at=datetime.fromtimestamp(now_seconds, UTC),
        members=len(members),
        parked=parked_counts,
        sweep=sweep.result(),
        archive=counts,
        queues=ordered(rows),
        unknown=sorted(set(reader.questions.unknown)),
        figures_at=datetime.fromtimestamp(at_seconds, UTC),
        metrics=metrics_read,
    )


def _chosen(sources: dict[str, list[str]], queue: str | None) -> dict[str, list[str]]:
    """Return the DLQs that *queue* names, itself or by a source; all for None."""
    if queue is None:
        return sources
    chosen = {dlq: of_dlq for dlq, of_dlq in sources.items() if queue in (dlq, *of_dlq)}
    if not chosen:
        raise InputError(
            f"--queue {queue}: the fleet has no queue of this name; without --queue all are listed"
        )
    return chosen


class _Reader:
    """Asks AWS for the facts of a fleet; what it refuses is in ``questions.unknown``."""

    def __init__(self, options: StatusOptions, parked_url: str, now_seconds: int) -> None:
        self.options = options
        self.tag = options.queue_tag or ""
        self.parked_url = parked_url
        self.now_seconds = now_seconds
        self.questions = Questions()
        region = region_of(parked_url, aws_session().region_name)
        self.client = partial(aws_client, region=region)
        self.sqs = self.client("sqs", client_config(_CONCURRENT_CALLS))

    def tagged_queues(self) -> Iterator[QueueAddress]:
        """Yield the queues with the tag. Raises InputError."""
        try:
            yield from iterate_tagged_queues(self.client("resourcegroupstaggingapi"), self.tag)
        except QueueError as error:
            raise InputError(f"the members cannot be listed: {error}") from error

    def described(
        self, executor: Executor, queues: Iterable[QueueAddress]
    ) -> dict[str, DescribedQueue]:
        """Read the attributes of queues while they are listed, by name."""
        answers = [executor.submit(self.describe, queue) for queue in queues]
        described = [answer.result() for answer in answers]
        return {queue.name: queue for queue in described if queue}

    def describe(self, queue: QueueAddress) -> DescribedQueue | None:
        """Read the attributes of a queue; None also of one that was deleted."""
        url = queue.url_beside(self.parked_url)
        try:
            return DescribedQueue(url, SqsQueue(self.sqs, url).describe())
        except QueueError as error:
            if not error.code.endswith(("NonExistentQueue", "QueueDoesNotExist")):
                self.questions.unknown.append(str(error))
            return None

    def sweep(self) -> str | None:
        """Return the state of the rule of the sweep."""
        rule = self.options.sweep_rule
        if not rule:
            return "none"
        trigger = self.questions.ask("sweep", read_sweep_rule, self.client, rule)
        return trigger.state.lower() if trigger else None

    def limits(self, queues: Sequence[str]) -> dict[str, int | None]:
        """Return the limits of main queues by ``figure_key``, replays a minute."""
        limits: dict[str, int | None] = {}
        table = self.options.failure_table
        if not table:
            return limits
        client = self.client("dynamodb", table_client_config())
        for start in range(0, len(queues), MAX_READS):
            names = queues[start : start + MAX_READS]
            items = self.questions.ask("circuit breakers", read_breakers, client, table, names)
            for name, numbers in (items or {}).items():
                view = BreakerView(numbers, self.now_seconds, rules_for(QueueAddress("", name)))
                limits[figure_key(LIMIT, name)] = view.limit
        return limits

    def metrics(self, keys: Collection[str]) -> tuple[dict[str, int | None], int, int]:
        """Read metrics by ``figure_key``, or take those that were kept.

        Returns:
            Their values, the number that was read now, and when the oldest one was read.
        """
        fleet = f"{self.sqs.meta.region_name} {self.parked_url} {self.tag}"
        at_seconds, values = kept_figures(os.environ, fleet, self.now_seconds)
        missing = [key for key in keys if key not in values]
        if not missing:
            return values, 0, at_seconds

        client = self.client("cloudwatch")

        def read(some_keys: Sequence[str]) -> dict[str, int | None]:
            answer = self.questions.ask(
                "metrics", _read_metrics, client, some_keys, self.now_seconds
            )
            return answer or {}

        pages = [missing[start : start + _QUERIES] for start in range(0, len(missing), _QUERIES)]
        with ThreadPoolExecutor(thread_name_prefix="metrics") as executor:
            for figures in executor.map(read, pages):
                values |= figures
        keep_figures(os.environ, fleet, at_seconds, values)
        return values, len(missing), at_seconds

    def archive(self) -> tuple[ArchiveStatus | None, Counter[str]]:
        """Return the counts of the archive, and the numbers of new groups by source queue."""
        if self.options.archive:
            try:
                archive = open_archive(self.options.archive)
                return count_with_report(archive, is_fleet=True), _new_groups(archive)
            except JobError as error:
                self.questions.unknown.append(str(error))
        return None, Counter()


def _read_metrics(client: Any, keys: Sequence[str], now_seconds: int) -> dict[str, int | None]:  # noqa: ANN401 - boto3's
    """Read metrics of the last hour: the newest age or expiry, None without one, and sums."""
    now = datetime.fromtimestamp(now_seconds, UTC)
    pages = client.get_paginator("get_metric_data").paginate(
        MetricDataQueries=[_query(number, *key.split(" ")) for number, key in enumerate(keys)],
        StartTime=now - timedelta(hours=1),
        EndTime=now,
        ScanBy="TimestampDescending",
    )

    # The function writes no metric of a queue without dead letters.
    values: dict[str, int | None] = {key: None if key.endswith(_NEWEST) else 0 for key in keys}
    for page in pages:
        for result in page["MetricDataResults"]:
            key = keys[int(result["Id"][1:])]
            numbers = list(map(int, result["Values"]))
            if result["StatusCode"] in _UNREAD:
                values[key] = None
            elif not key.endswith(_NEWEST):
                values[key] = sum(numbers, values[key] or 0)
            elif numbers and values[key] is None:
                values[key] = numbers[0]
    return values


def _query(number: int, queue: str, metric: str) -> dict[str, Any]:
    of_function = {MAIN_QUEUE_DIMENSION: queue, SERVICE_DIMENSION: SERVICE}
    names = {"QueueName": queue} if metric == OLDEST else of_function
    return {
        "Id": f"q{number}",
        "MetricStat": {
            "Metric": {
                "Namespace": "AWS/SQS" if metric == OLDEST else NAMESPACE,
                "MetricName": metric,
                "Dimensions": [{"Name": name, "Value": value} for name, value in names.items()],
            },
            "Period": 300,
            "Stat": _STATISTICS.get(metric, "Sum"),
        },
    }


def _new_groups(archive: Archive) -> Counter[str]:
    """Count the new groups of the newest report by the name of their source queue."""
    new_groups = Counter[str]()
    try:
        findings = read_findings(find_plan(archive, None).summary())
    except NoReportError:
        return new_groups
    for group in findings.groups if findings else ():
        if group.status == Status.NEW:
            new_groups.update(_name(source) for source in group.sources)
    return new_groups


def _name(arn: str | None) -> str:
    """Return the name of a queue, from its ARN or its name; empty for None."""
    return (arn or "").rpartition(":")[2]
