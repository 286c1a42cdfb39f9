"""A ramp in a real Spark session, with a consumer and the replay function behind the queue.

Only the ramp's waits pass time, on a virtual clock.
"""

import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dlq_replay.context import FailureError
from dlq_replay.message import Message
from dlq_replay.returns_table import ReturnsTable
from local_sqs.clock import VirtualClock
from spark_reprocess.archive.files import Archive
from spark_reprocess.clients import aws_client
from spark_reprocess.ramp.rule import RampRules, Verdict
from spark_reprocess.redrive.redrive import redrive
from spark_reprocess.redrive.redrive_values import RedriveOptions, RedriveSummary
from tests.approved_plan import planned
from tests.builders import context, counter, message
from tests.failure_table import create_failure_table
from tests.integration.client_at import client_at
from tests.integration.ramp_world import RampWorld, ramp_world
from tests.integration.spark_world import archive_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = "returns-of-a-ramp"
RULES = RampRules(minute_seconds=1, patience=60, looks=5)

Run = Callable[..., RedriveSummary]


@pytest.fixture
def world(moto_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[RampWorld]:
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", moto_endpoint)
    client = aws_client("dynamodb")
    create_failure_table(client, TABLE)
    clock = VirtualClock(time.time_ns() // 1_000_000)
    counters = ReturnsTable(client, TABLE, lambda: int(clock.time()))
    with ramp_world(clock, counters.add) as running:
        monkeypatch.setenv("AWS_ENDPOINT_URL_CLOUDWATCH", running.url)
        yield running
    client.delete_table(TableName=TABLE)


@pytest.fixture
def run(spark: "SparkSession", world: RampWorld) -> Run:
    return partial(run_ramp, spark, world)


def run_ramp(
    spark: "SparkSession", world: RampWorld, archive: Archive, plan: str, **options: Any
) -> RedriveSummary:
    fields: dict[str, Any] = {
        "main_queue_url": world.main.url,
        "parked_queue_url": world.parked.url,
        "failure_table": TABLE,
        "ramp": True,
        "ramp_rules": RULES,
        "reason": "it is fixed",
        "execute": True,
        "tasks": 2,
        **options,
    }
    return redrive(
        spark,
        RedriveOptions(archive.root, plan=plan, **fields),
        make_client=client_at,
        make_sender=client_at,
        now_seconds=world.clock.time,
        wait=world.wait,
    )


def parked(number: int, error: str = "TimeoutError", **fields: Any) -> Message:
    failure = FailureError(error, "it was so")
    ours = context(first_id=f"first-{number}", reason="attempts_exhausted", error=failure)
    return message(f"m-{number:03d}", json.dumps({"n": number}), {**ours, **counter("5")}, **fields)


def two_groups(folder: Path, world: RampWorld) -> Archive:
    """Odd numbers time out, even ones lack a field."""
    messages = [parked(n, "TimeoutError" if n % 2 else "KeyError") for n in range(20)]
    return archive_of(folder, messages, drained_from=world.parked.url)


def number(one: Message) -> int:
    return int(json.loads(one.body)["n"])


def verdicts(summary: RedriveSummary) -> dict[str, Verdict]:
    titles = {group.group_id: group.title for group in summary.groups}
    return {titles[one.group_id].split(":")[0]: one.verdict for one in summary.ramp}


def test_bad_step_stops_its_group_and_the_other_goes_on(
    run: Run, world: RampWorld, tmp_path: Path
) -> None:
    archive = two_groups(tmp_path, world)
    plan = planned(archive)
    world.fails = lambda one: number(one) % 2 == 0

    summary = run(archive, plan)

    assert verdicts(summary) == {"TimeoutError": Verdict.SENT, "KeyError": Verdict.BAD}
    assert summary.is_stopped
    assert summary.counts == {"sent": 11, "stopped": 9}
    world.pass_time(1)
    assert sorted(map(number, world.handled)) == list(range(1, 20, 2))
    [returned] = world.parked.receive()
    assert isinstance(returned, Message)
    assert returned.history.context.reason == "redrive_step"
