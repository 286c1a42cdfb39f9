"""Parked messages of 1 KB, in a queue or in an archive."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from typing import Any

from benchmarks.rig import LATENCY_MS, MeasuringServer
from dlq_replay.attributes import MessageAttribute
from dlq_replay.context import CONTEXT_ATTRIBUTE, FailureError, ReplayContext
from dlq_replay.history import REPLAY_COUNT_ATTRIBUTE
from dlq_replay.message import Message, SendEntry
from dlq_replay.sqs import SqsQueue
from spark_reprocess.archive.dead_letter_schema import to_row
from spark_reprocess.archive.files import new_id, open_archive
from spark_reprocess.archive.message_store import write_messages
from spark_reprocess.clients import sqs_client

BODY_BYTES = 1024
_CALLS_AT_ONCE = 4
_BATCH = 10
_FILE_MESSAGES = 2000
_EPOCH_SECONDS = 1_795_000_000
_ERRORS = ("Timeout", "NoVatRate", "UnknownSku", "StockConflict", "BadAddress")


def fill(server: MeasuringServer, url: str, count: int) -> None:
    """Send *count* parked messages to a queue, without the server's latency."""
    queue = SqsQueue(sqs_client(url), url)
    server.set_latency(0)
    with ThreadPoolExecutor(_CALLS_AT_ONCE) as executor:
        list(executor.map(partial(_send, queue, count), range(0, count, _BATCH)))
    server.set_latency(LATENCY_MS)


def archive(folder: str, count: int) -> None:
    """Write *count* parked messages to an archive, as a drain does."""
    place, drain_id = open_archive(folder, creates=True), new_id(_EPOCH_SECONDS)
    drained_at = datetime.fromtimestamp(_EPOCH_SECONDS, UTC)
    for first in range(0, count, _FILE_MESSAGES):
        numbers = range(first, min(first + _FILE_MESSAGES, count))
        rows = [to_row(_message(number), "https://sqs/1/parked", drained_at) for number in numbers]
        write_messages(place, drain_id, 0, rows)


def _send(queue: SqsQueue, count: int, first: int) -> None:
    numbers = range(first, min(first + _BATCH, count))
    queue.send([SendEntry(_body(n), _attributes(n)) for n in numbers])


def _message(number: int) -> Message:
    system = {"SentTimestamp": str(_EPOCH_SECONDS * 1000 + number), "SenderId": "AIDAEXAMPLE"}
    return Message(_id(number), _body(number), _attributes(number), system)


def _id(number: int) -> str:
    # Random as in SQS: ids in order would make sorting faster.
    mixed = number * 0x9E3779B97F4A7C15 % 2**64
    return f"{mixed >> 32:08x}-0000-4000-8000-{mixed % 2**32:012x}"


def _body(number: int) -> str:
    order: dict[str, Any] = {"order": number, "customer": f"c-{number % 977}", "note": ""}
    order["note"] = "x" * (BODY_BYTES - len(json.dumps(order)))
    return json.dumps(order)


def _attributes(number: int) -> dict[str, MessageAttribute]:
    kind = _ERRORS[number % len(_ERRORS)]
    context = ReplayContext(
        first_id=_id(number),
        first_seen_seconds=_EPOCH_SECONDS,
        reason="attempts_exhausted",
        error=FailureError(kind, f"order {number} after 3 s"),
    )
    return {
        "tenant": MessageAttribute("String", f"t-{number % 50}"),
        REPLAY_COUNT_ATTRIBUTE: MessageAttribute("Number", "5"),
        CONTEXT_ATTRIBUTE: MessageAttribute("String", context.to_json()),
    }
