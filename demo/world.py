"""AWS on this machine: servers as processes, queues, tables, and Lambda's event source mapping.

SQS is ``local_sqs``. DynamoDB (failures, and the records of Powertools Idempotency) and STS (the
caller's name in the ledger) are from moto, which this module runs as a program.
"""

import base64
import hashlib
import json
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import boto3
from botocore.config import Config

from demo import ROOT
from dlq.aws.clients import QueueCounts
from local_sqs.process import server_process

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

REGION = "us-east-1"
MAIN_MAX_RECEIVE_COUNT = 2
MAX_ATTEMPTS = 4
FAILURE_TABLE = "orders-failures"
_PROCESSED_TABLE = "orders-processed"
_OPTIONAL = ("MAX_AGE_SECONDS", "NON_RETRYABLE_ERRORS", "LOG_LEVEL", "BREAKER")

Handler = Callable[[Mapping[str, Any], Any], object]
"""A Lambda function: takes event and context, returns an answer."""


@dataclass(frozen=True, slots=True)
class Queue:
    """One queue, and a thread-safe client."""

    client: "SQSClient"
    url: str
    arn: str

    def depth(self) -> QueueCounts:
        """Count its messages."""
        answer = self.client.get_queue_attributes(QueueUrl=self.url, AttributeNames=["All"])
        counts: Mapping[Any, str] = answer["Attributes"]
        return QueueCounts.of(counts)

    def receive(self, **options: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - of ReceiveMessage
        """Receive up to 10 messages, as records of a Lambda event."""
        answer = self.client.receive_message(
            QueueUrl=self.url,
            MaxNumberOfMessages=10,
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["All"],
            **options,
        )
        return [to_record(message, self.arn) for message in answer.get("Messages", [])]

    def delete(self, record: Mapping[str, Any]) -> None:
        """Delete a received message."""
        self.client.delete_message(QueueUrl=self.url, ReceiptHandle=record["receiptHandle"])


def to_record(message: Mapping[str, Any], queue_arn: str) -> dict[str, Any]:
    """Convert a message as boto3 returns it into a record of a Lambda event."""
    attributes = message.get("MessageAttributes", {})
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": dict(message.get("Attributes", {})),
        "messageAttributes": {name: _attribute(raw) for name, raw in attributes.items()},
        "md5OfBody": hashlib.md5(message["Body"].encode(), usedforsecurity=False).hexdigest(),
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": REGION,
    }


def _attribute(raw: Mapping[str, Any]) -> dict[str, Any]:
    shared = {"stringListValues": [], "binaryListValues": [], "dataType": raw["DataType"]}
    if "BinaryValue" in raw:
        return {"binaryValue": base64.b64encode(raw["BinaryValue"]).decode(), **shared}
    return {"stringValue": raw["StringValue"], **shared}


class Queues(NamedTuple):
    """The three queues of the product."""

    main: Queue
    dlq: Queue
    parked: Queue


@contextmanager
def local_aws(log: Path) -> Iterator[None]:
    """Run the servers, and make boto3 use only them, here and in child processes.

    Every AWS setting of the user's shell is removed, so that no run reaches a real account.
    """
    with (
        log.open("a") as errors,
        server_process(log=errors) as sqs,
        server_process(module="demo.world", log=errors) as others,
    ):
        for name in list(os.environ):
            if name.startswith(("AWS_", "POWERTOOLS_")) or name in _OPTIONAL:
                del os.environ[name]

        sqs_url = sqs()
        os.environ.update(
            AWS_ENDPOINT_URL=others(),
            AWS_ENDPOINT_URL_SQS=sqs_url,
            AWS_ENDPOINT_URL_CLOUDWATCH=sqs_url,
            DLQ_MINUTE_SECONDS="1",
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

        yield


def create_queues(*, is_fifo: bool) -> Queues:
    """Create queues and tables; set the functions' variables.

    The values are the template's, but for short waits.
    """
    retries: Any = {"mode": "standard", "total_max_attempts": 4}
    config = Config(connect_timeout=2, read_timeout=15, retries=retries)
    client = boto3.client("sqs", config=config)

    suffix = ".fifo" if is_fifo else ""
    parked = create_queue(client, f"orders-parked{suffix}", visibility_seconds=30)
    dlq = create_queue(
        client,
        f"orders-dlq{suffix}",
        visibility_seconds=6,
        target=parked,
        max_receive_count=1000,
    )
    main = create_queue(
        client,
        f"orders{suffix}",
        # A ramp waits for its multiple; the consumer's heartbeat hides messages for longer.
        visibility_seconds=1,
        target=dlq,
        max_receive_count=MAIN_MAX_RECEIVE_COUNT,
    )

    _create_table(FAILURE_TABLE, key="message_id")
    _create_table(_PROCESSED_TABLE, key="id")

    os.environ.update(
        # The consumer's:
        QUEUE_URL=main.url,
        PROCESSED_TABLE=_PROCESSED_TABLE,
        # Of both:
        FAILURE_TABLE=FAILURE_TABLE,
        # The replay function's:
        MAIN_QUEUE_URL=main.url,
        DLQ_URL=dlq.url,
        PARKED_QUEUE_URL=parked.url,
        MAX_ATTEMPTS=str(MAX_ATTEMPTS),
        BACKOFF_RATE="0.5",
        BACKOFF_CAP_SECONDS="6",
    )
    return Queues(main, dlq, parked)


def _create_table(name: str, *, key: str) -> None:
    boto3.client("dynamodb").create_table(
        TableName=name,
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
        KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
        BillingMode="PAY_PER_REQUEST",
    )


def create_queue(
    client: "SQSClient",
    name: str,
    visibility_seconds: int,
    target: Queue | None = None,
    max_receive_count: int = 0,
) -> Queue:
    """Create a queue, whose dead-letter queue is *target*; its suffix says whether it is FIFO."""
    attributes: dict[Any, str] = {"VisibilityTimeout": str(visibility_seconds)}
    if target:
        policy = {"deadLetterTargetArn": target.arn, "maxReceiveCount": max_receive_count}
        attributes["RedrivePolicy"] = json.dumps(policy)
    if name.endswith(".fifo"):
        attributes["FifoQueue"] = "true"
    url = client.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    answer = client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
    return Queue(client, url, answer["Attributes"]["QueueArn"])


def poll(
    queue: Queue, handler: Handler, notify: Callable[[str], object], stopping: threading.Event
) -> None:
    """Simulate Lambda's event source mapping with ``ReportBatchItemFailures`` until *stopping*.

    Invokes *handler* with one batch of up to 10 messages at a time, and deletes all but those that
    it names. An error of the queue or the function is shown by *notify*, and ends nothing.
    """
    while not stopping.is_set():
        try:
            records = queue.receive(WaitTimeSeconds=1)
            if records:
                _deliver(records, queue, handler)
        except Exception as error:  # noqa: BLE001 - a function may raise anything; Lambda continues
            if not stopping.wait(0.5):
                traceback.print_exc()
                notify(f"a batch of {queue.url} failed: {type(error).__name__}: {error}")


def _deliver(records: list[dict[str, Any]], queue: Queue, handler: Handler) -> None:
    answer = handler({"Records": records}, InvocationContext())
    failed = failed_ids(answer)
    for record in records:
        # A message that is not deleted comes back, as with SQS.
        if record["messageId"] not in failed:
            queue.delete(record)


def failed_ids(answer: Any) -> frozenset[str]:  # noqa: ANN401 - as it came
    """Return the ids that stay in the queue by a partial batch response. Lambda deletes all others.

    An answer of another form raises; for Lambda the complete batch has failed then.
    """
    return frozenset(failure["itemIdentifier"] for failure in answer["batchItemFailures"])


class InvocationContext:
    """The part of Lambda's context object that the functions use."""

    def get_remaining_time_in_millis(self) -> int:
        """Return the time-out of the template: no batch here takes long."""
        return 30_000


def _serve() -> None:
    """Serve moto until standard input closes."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 - only this process needs it

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    sys.stdout.write(f"http://{host}:{port}\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()
    os._exit(0)  # does not wait for requests in progress


if __name__ == "__main__":
    _serve()
