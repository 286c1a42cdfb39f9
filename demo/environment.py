"""Queues, tables and environment variables of a run."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config

from demo import ROOT
from spark_reprocess.clients import QueueCounts

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

REGION = "us-east-1"
MAIN_VISIBILITY_SECONDS = 30
MAIN_MAX_RECEIVE_COUNT = 2
DLQ_VISIBILITY_SECONDS = 6
DLQ_MAX_RECEIVE_COUNT = 1000
PARKED_VISIBILITY_SECONDS = 30

MAX_ATTEMPTS = 3
BACKOFF_RATE_SECONDS = 0.5
BACKOFF_CAP_SECONDS = 6

FAILURE_TABLE = "orders-failures"
PROCESSED_TABLE = "orders-processed"

_OPTIONAL_VARIABLES = ("MAX_AGE_SECONDS", "NON_RETRYABLE_ERRORS", "LOG_LEVEL", "BREAKER")


@dataclass(frozen=True, slots=True)
class Queue:
    """One queue of the local environment."""

    name: str
    url: str
    arn: str

    @property
    def is_fifo(self) -> bool:
        """Whether it is a FIFO queue."""
        return self.name.endswith(".fifo")


@dataclass(frozen=True, slots=True)
class Queues:
    """The three queues of the product."""

    main: Queue
    dlq: Queue
    parked: Queue


@contextmanager
def local_environment(endpoints: Mapping[str, str]) -> Iterator[None]:
    """Make boto3 use servers on this machine only, here and in child processes.

    Every AWS setting of the user's shell is removed, so that no run reaches a real account.
    """
    before = dict(os.environ)
    for name in list(os.environ):
        if name.startswith(("AWS_", "POWERTOOLS_")) or name in _OPTIONAL_VARIABLES:
            del os.environ[name]
    os.environ.update(
        **endpoints,
        AWS_ACCESS_KEY_ID="demo",
        AWS_SECRET_ACCESS_KEY="demo",  # noqa: S106 - the servers accept any
        AWS_DEFAULT_REGION=REGION,
        AWS_REGION=REGION,
        AWS_CONFIG_FILE=os.devnull,
        AWS_SHARED_CREDENTIALS_FILE=os.devnull,
        AWS_EC2_METADATA_DISABLED="true",
        NO_PROXY="127.0.0.1,localhost",
        no_proxy="127.0.0.1,localhost",
        PYTHONPATH=os.pathsep.join([str(ROOT), str(ROOT / "layers" / "core")]),
    )
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def make_client() -> "SQSClient":
    """Return a client of the local SQS. Thread-safe."""
    retries: Any = {"mode": "standard", "total_max_attempts": 4}
    return boto3.client("sqs", config=Config(connect_timeout=2, read_timeout=15, retries=retries))


def create_queues(client: "SQSClient", *, is_fifo: bool) -> Queues:
    """Create parked queue, DLQ and main queue, with their redrive policies."""
    suffix = ".fifo" if is_fifo else ""
    parked = _create(client, f"orders-parked{suffix}", PARKED_VISIBILITY_SECONDS)
    to_parked = _redrive(parked, DLQ_MAX_RECEIVE_COUNT)
    dlq = _create(client, f"orders-dlq{suffix}", DLQ_VISIBILITY_SECONDS, to_parked)
    to_dlq = _redrive(dlq, MAIN_MAX_RECEIVE_COUNT)
    main = _create(client, f"orders{suffix}", MAIN_VISIBILITY_SECONDS, to_dlq)
    return Queues(main, dlq, parked)


def replay_environment(queues: Queues) -> Mapping[str, str]:
    """Return the variables of the replay Lambda, as in the template but with short waits."""
    return {
        "MAIN_QUEUE_URL": queues.main.url,
        "DLQ_URL": queues.dlq.url,
        "PARKED_QUEUE_URL": queues.parked.url,
        "MAX_ATTEMPTS": str(MAX_ATTEMPTS),
        "BACKOFF_RATE": str(BACKOFF_RATE_SECONDS),
        "BACKOFF_CAP_SECONDS": str(BACKOFF_CAP_SECONDS),
        "FAILURE_TABLE": FAILURE_TABLE,
    }


def consumer_environment(queues: Queues) -> Mapping[str, str]:
    """Return the variables of the consumer."""
    return {
        "QUEUE_URL": queues.main.url,
        "PROCESSED_TABLE": PROCESSED_TABLE,
        "FAILURE_TABLE": FAILURE_TABLE,
    }


def create_tables() -> None:
    """Create the table of failures and the table of processed messages."""
    client = boto3.client("dynamodb")
    for table, key in ((FAILURE_TABLE, "message_id"), (PROCESSED_TABLE, "id")):
        client.create_table(
            TableName=table,
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
            KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
        )


def depth(client: "SQSClient", queue: Queue) -> QueueCounts:
    """Return the counts of *queue*."""
    answer = client.get_queue_attributes(QueueUrl=queue.url, AttributeNames=["All"])
    counts: Mapping[Any, str] = answer["Attributes"]
    return QueueCounts.of(counts)


def _redrive(target: Queue, max_receive_count: int) -> dict[str, str]:
    policy = {"deadLetterTargetArn": target.arn, "maxReceiveCount": max_receive_count}
    return {"RedrivePolicy": json.dumps(policy)}


def _create(
    client: "SQSClient", name: str, visibility_seconds: int, more: Mapping[str, str] | None = None
) -> Queue:
    attributes: Any = {"VisibilityTimeout": str(visibility_seconds), **(more or {})}
    if name.endswith(".fifo"):
        attributes["FifoQueue"] = "true"
    url = client.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    answer = client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return Queue(name, url, answer["Attributes"]["QueueArn"])
