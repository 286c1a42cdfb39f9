"""A shop whose messages failed: real queues, and a console whose jobs are real processes.

Everything is on this machine: SQS and CloudWatch of ``local_sqs``, DynamoDB of moto, a consumer in
a thread. A minute of CloudWatch takes a second, as in the demo.
"""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import boto3
import pytest

from dlq.archive.messages.dead_letter_schema import to_row
from dlq.archive.messages.message_store import write_messages
from dlq.archive.storage.files import Archive, open_archive
from dlq.cli.command import main
from dlq.console.jobs import Jobs
from dlq.console.site import Console
from dlq_replay.wire.message import Message
from local_sqs.model_queue import ModelQueue
from local_sqs.server import serve_in_thread
from tests.support.console_world import DRAIN, NOW, a_dead_letter
from tests.support.failure_table import create_failure_table
from tests.support.served import served_aws
from tests.support.sqs_driver import redrive_policy

ROOT = Path(__file__).resolve().parents[2]
FAILURE_TABLE = "failures"

_FAILURES = (
    ("KeyError", "'vat'", "HR", 18),
    ("TimeoutError", "no answer from the tax service", "FR", 12),
    ("ValueError", "the amount is no number", "DE", 9),
)
"""Type and text of an error, the country of its orders, and how many there are."""


@dataclass
class Shop:
    """An archive of dead letters that are analyzed, and a consumer that has been fixed.

    Attributes:
        values: the options of verbs that name the queues and the table.
        shift: what the clock of the console is ahead: no test waits until failures are known.
    """

    archive: Archive
    values: dict[str, str]
    state: Path
    shift: timedelta = timedelta()

    @property
    def console(self) -> Console:
        """Its console; of two, the second one knows the jobs of the first."""

        def now() -> datetime:
            return datetime.now(UTC) + self.shift

        return Console(self.archive, now, "ann@desk", Jobs(self.state / "jobs"), values=self.values)


@contextmanager
def open_shop(folder: Path, patch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """Start the servers and the consumer; put the dead letters into an archive, and analyze it."""
    patch.setenv("PYTHONPATH", os.pathsep.join((str(ROOT), str(ROOT / "layers" / "core"))))
    patch.setenv("DLQ_MINUTE_SECONDS", "1")
    # The region of a queue whose address names none.
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        patch.setenv(name, "us-east-1")
    with serve_in_thread() as sqs, served_aws() as account:
        patch.setenv("AWS_ENDPOINT_URL", account)
        patch.setenv("AWS_ENDPOINT_URL_SQS", sqs.url)
        patch.setenv("AWS_ENDPOINT_URL_CLOUDWATCH", sqs.url)
        create_failure_table(boto3.client("dynamodb"), FAILURE_TABLE)
        # moto loads a service at its first call, which takes longer than clients of ours wait.
        boto3.client("sts").get_caller_identity()

        parked = ModelQueue(sqs.front, "orders-parked")
        to_parked = redrive_policy(parked, 1000)
        dlq = ModelQueue(sqs.front, "orders-dlq", RedrivePolicy=to_parked)
        to_dlq = redrive_policy(dlq, 2)
        orders = ModelQueue(sqs.front, "orders", VisibilityTimeout="1", RedrivePolicy=to_dlq)

        values = {
            "main-queue-url": orders.url,
            "dlq-url": dlq.url,
            "parked-queue-url": parked.url,
            "failure-table": FAILURE_TABLE,
        }
        archive = open_archive(str(folder / "archive"), creates=True)
        rows = [to_row(letter, parked.url, NOW) for letter in _dead_letters()]
        write_messages(archive, DRAIN, 0, rows)
        assert main(["collect", "--only", "analyze", "--archive", archive.root]) == 0

        with _consumer(orders):
            yield Shop(archive, values, folder / "state" / "of-archive")


def _dead_letters() -> Iterator[Message]:
    number = 4700
    for error_type, text, country, count in _FAILURES:
        for _ in range(count):
            number += 1
            order = {"order": number, "country": country, "zip": 1011}
            error = {"type": error_type, "message": text}
            yield a_dead_letter(number, json.dumps(order), error=error)


@contextmanager
def _consumer(queue: ModelQueue) -> Iterator[None]:
    """Handle whatever comes, until the block ends."""
    is_over = threading.Event()

    def consume() -> None:
        while not is_over.wait(0.1):
            for message in queue.receive():
                assert isinstance(message, Message)
                queue.client.delete_message(
                    QueueUrl=queue.url, ReceiptHandle=message.receipt_handle
                )

    thread = threading.Thread(target=consume, name="consumer", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join(10)
