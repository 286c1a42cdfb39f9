"""Baselines (b) and (c) of a bulk redrive.

(b) The classical loop: receive ten, send ten, delete ten, with one client.
(c) SQS's own redrive moves at most 500 messages a second (SQSAPI, StartMessageMoveTask). It cannot
run here, so its time is calculated.
"""

import time
from typing import TYPE_CHECKING, Any

import boto3

from benchmarks.parked import fill
from benchmarks.rig import Rig

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

MOVE_TASK_MESSAGES_PER_SECOND = 500


def redrive_by_loop(client: "SQSClient", source_url: str, target_url: str, count: int) -> int:
    """Move up to *count* messages; return how many were moved."""
    moved = 0
    while moved < count:
        answer = client.receive_message(
            QueueUrl=source_url,
            MaxNumberOfMessages=10,
            WaitTimeSeconds=1,
            MessageAttributeNames=["All"],
        )
        messages = answer.get("Messages", [])
        if not messages:
            break
        entries: list[Any] = [
            {
                "Id": str(index),
                "MessageBody": message["Body"],
                "MessageAttributes": message.get("MessageAttributes", {}),
            }
            for index, message in enumerate(messages)
        ]
        client.send_message_batch(QueueUrl=target_url, Entries=entries)
        receipts: list[Any] = [
            {"Id": str(index), "ReceiptHandle": message["ReceiptHandle"]}
            for index, message in enumerate(messages)
        ]
        client.delete_message_batch(QueueUrl=source_url, Entries=receipts)
        moved += len(messages)
    return moved


def move_task_seconds(count: int) -> float:
    """Return the shortest time of SQS's own redrive for *count* messages, in seconds."""
    return count / MOVE_TASK_MESSAGES_PER_SECOND


class LoopRates:
    """Measures the loop with few messages: its rate does not depend on their number."""

    MESSAGES = 3000

    def __init__(self, rig: Rig) -> None:
        """Create the queues on the rig's server."""
        self._rig = rig
        self._client = boto3.client("sqs")
        self._source, self._target = (
            self._client.create_queue(QueueName=name)["QueueUrl"]
            for name in ("loop-source", "loop-target")
        )

    def run(self) -> float:
        """Return messages a second."""
        count = self._rig.sized(self.MESSAGES)
        fill(self._rig.server, self._source, count)
        began = time.perf_counter()
        redrive_by_loop(self._client, self._source, self._target, count)
        return count / (time.perf_counter() - began)
