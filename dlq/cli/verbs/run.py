"""``run``: drain, analyze, apply a policy, redrive; for a schedule."""

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from dlq.archive.ledger.disposition import Disposition
from dlq.archive.storage.files import open_archive
from dlq.aws.clients import aws_client, aws_session, region_of
from dlq.cli.arguments import add_parked_queues, add_shared
from dlq.cli.terminal import print_answer, print_error, print_line, print_notice
from dlq.cli.verb import (
    BAD_INPUT,
    DONE,
    NOT_ALL_SENT,
    STACK,
    Verb,
    progress_here,
    with_archive,
)
from dlq.cli.verbs.collect import (
    analysis_fields,
    count_visible,
    drain_fields,
    groups_command,
    print_analysis,
    print_drains,
    print_stopped_drains,
)
from dlq.cli.verbs.redrive import (
    add_ramp,
    exit_code_of,
    print_execution,
    print_redrive,
    redrive_fields,
)
from dlq.redrive.summary import UNFINISHED
from dlq_replay.replaying.measures import (
    MAIN_QUEUE_DIMENSION,
    NAMESPACE,
    QUEUE_TAG_DIMENSION,
    SERVICE,
    SERVICE_DIMENSION,
    Metric,
    unit_of,
)
from dlq_replay.wire.addresses import QueueAddress

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient

    from dlq.scheduled_run import Pending, RunRequest, RunSummary

_ABOUT = """\
For a schedule: drains the parked queue, analyzes what is pending, sets the plan's actions by the
policy, redrives, and prints what is left for a person. Each step is safe to repeat, so a run that
was killed needs nothing but the next one. Of two runs at the same time both drain and analyze, and
one redrives; the other tries until its time budget is over, names the first, and exits with 2.

A policy is a YAML file of ordered rules: for each group the first rule whose condition is true sets
the action. Without --policy everything is left. Without --execute nothing is sent, but the queue is
drained. What a person said last about a group beats every rule, and messages that returned from an
earlier redrive are left. docs/schedule.md shows a policy, and how to allow more.

A run acts on messages of its own parked queues. With a destination, number and age of pending
messages are published to CloudWatch, for the alarm."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_parked_queues(parser, "a parked queue to drain; may be repeated", required=True)
    add_shared(parser, "--main-queue-url", "--queue-tag", "--to-queue-url")
    add_shared(parser, "--policy", "--policy-sha256")
    add_shared(parser, "--time-budget-seconds", "--max-rate", "--failure-table")
    add_shared(parser, "--logs", "--logs-limit", "--pointer-bucket", "--mask", "--no-samples")
    add_shared(parser, "--reason", "--execute")
    add_ramp(parser)
    add_shared(parser, "--sweep-function-arn")


def _make_request(**values: Any) -> "RunRequest":  # noqa: ANN401 - argparse's
    from dlq.scheduled_run import RunRequest

    return RunRequest(stack=STACK.get(), **values)


def _run(options: tuple[str, "RunRequest"]) -> int:
    from dlq.cli.engines import engine_for
    from dlq.inspect.sizes import Size, size_of_pending
    from dlq.scheduled_run import check_run, run

    place, request = options
    archive = open_archive(place)

    def size() -> Size:
        return size_of_pending(archive).plus(count_visible(request.parked_queue_urls))

    check_run(request)
    engine = engine_for("run", size)
    summary = run(engine, archive, request, progress=progress_here(), announce=print_notice)
    if request.destination or request.is_fleet:
        region = region_of(request.queue_in_region, aws_session().region_name)
        client = aws_client("cloudwatch", region=region)
        publish_pending(client, *_dimension_of(request), summary.pending)
    fields = {
        **asdict(summary),
        "drained": drain_fields(request.parked_queue_urls, summary.drained),
        "findings": summary.findings and analysis_fields(summary.findings),
        "redriven": summary.redriven and redrive_fields(summary.redriven),
    }
    print_answer(fields, lambda: print_run(request, summary))
    print_stopped_drains(summary.drained)
    if summary.postponed:
        print_error(f"nothing was redriven, the next run does it: {summary.postponed}")
    if summary.refused:
        print_error(f"nothing was redriven: {summary.refused}")
    return exit_code_of_run(summary)


def _dimension_of(request: "RunRequest") -> tuple[str, str]:
    """Return the dimension of the run's metrics, and its value."""
    if request.is_fleet and request.queue_tag:
        return QUEUE_TAG_DIMENSION, request.queue_tag
    return MAIN_QUEUE_DIMENSION, QueueAddress.from_url(request.destination).name


def publish_pending(
    client: "CloudWatchClient", dimension: str, value: str, pending: "Pending"
) -> None:
    """Publish number and age of the archive's pending messages to CloudWatch, 0 included.

    An alarm keeps the state of the last value, so a run that leaves nothing pending publishes 0.
    A failure is printed and does not fail the run: only the alarm depends on these metrics.
    *client* is of the alarm's Region; *dimension* has this *value* beside ``service``.
    """
    values = {
        Metric.PENDING_MESSAGES: pending.messages,
        Metric.OLDEST_PENDING_SECONDS: pending.oldest_seconds,
    }
    data: list[Any] = []
    for metric, number in values.items():
        datum = {
            "MetricName": metric.value,
            "Dimensions": [
                {"Name": SERVICE_DIMENSION, "Value": SERVICE},
                {"Name": dimension, "Value": value},
            ],
            "Value": number,
            "Unit": unit_of(metric),
        }
        data.append(datum)

    try:
        client.put_metric_data(Namespace=NAMESPACE, MetricData=data)
    except (ClientError, BotoCoreError) as error:
        print_notice(f"the metrics of pending messages were not published: {error}")


def exit_code_of_run(summary: "RunSummary") -> int:
    """Return the exit code of a run.

    That of a redrive that stopped, or that halted a group, counts before all others; that of a
    drain that SQS ended comes last.
    """
    redriven = summary.redriven
    if redriven and (redriven.stopped_by or redriven.has_halted_groups):
        return exit_code_of(redriven)
    if summary.refused or summary.is_locked_out:
        return BAD_INPUT
    # A person must decide before what waits can go.
    waits = redriven.count(Disposition.WAITS) if redriven else 0
    is_unfinished = redriven and redriven.executed and redriven.count(*UNFINISHED) > waits
    if summary.postponed or is_unfinished:
        return NOT_ALL_SENT
    return BAD_INPUT if any(drained.stopped_by for drained in summary.drained) else DONE


def print_run(request: "RunRequest", summary: "RunSummary") -> None:
    """Print the answer of each step, then one line for the whole run."""
    print_drains(request.parked_queue_urls, summary.drained)
    if summary.findings:
        print_analysis(summary.findings)

    archived = sum(drained.archived for drained in summary.drained)
    totals = f"{archived:,} archived"
    if redriven := summary.redriven:
        print_redrive(redriven)
        print_execution(redriven, request.reason)
        sent = redriven.count(Disposition.SENT, Disposition.SEND)
        discarded = redriven.count(Disposition.DISCARDED, Disposition.DISCARD)
        are_sent = "sent" if redriven.executed else "would be sent"
        totals += f", {sent:,} {are_sent}, {discarded:,} discarded"

    if summary.policy_sha256:
        print_line(f"policy: SHA-256 {summary.policy_sha256}")
    pending = "nothing is pending"
    if summary.pending.messages:
        hours = summary.pending.oldest_seconds / 3600
        pending = f"{summary.pending.messages:,} are pending, the oldest for {hours:,.1f} h"
    print_line(f"run {summary.run_id}: {totals}; {pending}")
    if summary.findings and summary.findings.groups:
        print_line(f"next: {groups_command(summary.findings)}")


VERB = Verb(_ABOUT, _add_arguments, with_archive(_make_request), _run, has_engine=True)
