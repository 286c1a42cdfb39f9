"""Values that tests start from, and the fake queue they send to."""

import base64
import hashlib
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any

from dlq_replay.backoff import Backoff
from dlq_replay.replaying.replay import Replayer
from dlq_replay.replaying.sending import Confirmed, SendResult
from dlq_replay.rules.policy import MAX_MESSAGE_BYTES, QueueLimits, ReplayPolicy
from dlq_replay.wire.addresses import QueueAddress
from dlq_replay.wire.attributes import MessageAttribute
from dlq_replay.wire.context import CONTEXT_ATTRIBUTE, ReplayContext, body_digest
from dlq_replay.wire.message import REPLAY_COUNT_ATTRIBUTE, Message, SendEntry

ACCOUNT = "123456789012"
REGION = "us-east-1"
NOW = 1_700_000_000
BODY = '{"order": 1}'


def queue_address(name: str) -> QueueAddress:
    return QueueAddress(ACCOUNT, name)


MAIN = queue_address("main")
MAIN_FIFO = queue_address("main.fifo")


def redrive_to(target: str, receive_count: int) -> str:
    """The redrive policy that moves a message to this queue after so many receives."""
    return json.dumps({"deadLetterTargetArn": queue_arn(target), "maxReceiveCount": receive_count})


def queue_url(name: str) -> str:
    return f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{name}"


def queue_arn(name: str) -> str:
    return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}"


def environment(**overrides: str) -> dict[str, str]:
    """A complete environment of the Lambda, with single variables replaced."""
    return {
        "MAIN_QUEUE_URL": queue_url("main"),
        "DLQ_URL": queue_url("dlq"),
        "PARKED_QUEUE_URL": queue_url("parked"),
        "MAX_ATTEMPTS": "3",
        "BACKOFF_RATE": "2",
        "BACKOFF_CAP_SECONDS": "900",
        **overrides,
    }


def policy(
    main: str = "main",
    max_attempts: int = 3,
    rate_seconds: float = 2.0,
    cap_seconds: int = 900,
    max_age_seconds: int | None = None,
    others: Mapping[str, Mapping[str, int]] | None = None,
    max_message_bytes: int = MAX_MESSAGE_BYTES,
    **limits: int,
) -> ReplayPolicy:
    """The policy of a stack; *others* are further main queues, with the limits of each.

    *max_message_bytes* is that of the main queue, the DLQ and the parked queue.
    """
    sizes = dict.fromkeys(
        ("main_max_bytes", "dlq_max_bytes", "parked_max_bytes"), max_message_bytes
    )
    other_main_queues = {}
    for name, own_limits in (others or {}).items():
        other_main_queues[queue_address(name)] = QueueLimits(**own_limits)

    return ReplayPolicy(
        main_queue=queue_address(main),
        max_attempts=max_attempts,
        backoff=Backoff(rate_seconds, cap_seconds),
        max_age_seconds=max_age_seconds,
        limits=QueueLimits(**{**sizes, **limits}),
        other_main_queues=other_main_queues,
    )


def text(value: str, data_type: str = "String") -> MessageAttribute:
    return MessageAttribute(data_type, value)


def counter(value: str) -> dict[str, MessageAttribute]:
    return {REPLAY_COUNT_ATTRIBUTE: text(value, "Number")}


def context(of_body: str = BODY, **fields: Any) -> dict[str, MessageAttribute]:
    """The context of a copy with the body *of_body*."""
    digest = body_digest(of_body)
    return {CONTEXT_ATTRIBUTE: text(ReplayContext(**{"body_digest": digest, **fields}).to_json())}


def context_of(entry: SendEntry) -> ReplayContext:
    """The context of a copy, which must be one for its body; without the digest that says so."""
    value = entry.attributes[CONTEXT_ATTRIBUTE].value
    assert isinstance(value, str)
    read = ReplayContext.from_json(value, lambda: body_digest(entry.body))
    return read._replace(body_digest=None)


def filler(count: int) -> dict[str, MessageAttribute]:
    """That many attributes of the producer's own."""
    return {f"own-{index}": text("x") for index in range(count)}


def message(
    message_id: str = "m-1",
    body: str = BODY,
    attributes: Mapping[str, MessageAttribute] | None = None,
    **system: str,
) -> Message:
    """A received copy. The context that ``context`` made for the default body becomes its own."""
    attributes = dict(attributes or {})
    ours = attributes.get(CONTEXT_ATTRIBUTE)
    if ours is not None and isinstance(ours.value, str):
        fitting = ours.value.replace(body_digest(BODY), body_digest(body))
        attributes[CONTEXT_ATTRIBUTE] = MessageAttribute(ours.data_type, fitting)
    return Message(message_id, body, attributes, system, receipt_handle=f"r-{message_id}")


def entry(body: str, group: str = "") -> SendEntry:
    """Return a producer's entry; with a group to a FIFO queue, where the body is its id."""
    return SendEntry(body, message_group_id=group or None, deduplication_id=body if group else None)


def lambda_record(source: Message, queue: str = "dlq") -> dict[str, Any]:
    """The record that Lambda's event source mapping makes of a message."""
    return {
        "messageId": source.message_id,
        "receiptHandle": source.receipt_handle,
        "body": source.body,
        "attributes": dict(source.system),
        "messageAttributes": {n: _lambda_attribute(a) for n, a in source.attributes.items()},
        "md5OfBody": _md5(source.body),
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn(queue),
        "awsRegion": REGION,
    }


def _md5(body: str) -> str:
    return hashlib.md5(body.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def _lambda_attribute(attribute: MessageAttribute) -> dict[str, Any]:
    kind = "stringValue"
    value = attribute.value
    if isinstance(value, bytes):
        kind = "binaryValue"
        value = base64.b64encode(value).decode()
    return {
        kind: value,
        "stringListValues": [],
        "binaryListValues": [],
        "dataType": attribute.data_type,
    }


def received(source: Message) -> dict[str, Any]:
    """Return a message as ReceiveMessage answers it."""
    return {
        "MessageId": source.message_id,
        "MD5OfBody": _md5(source.body),
        "ReceiptHandle": source.receipt_handle,
        "Body": source.body,
        "Attributes": dict(source.system),
        "MessageAttributes": {n: a.to_api() for n, a in source.attributes.items()},
    }


@dataclass
class FakeQueue:
    """Remembers what it confirmed; refuses the bodies it is told to.

    Attributes:
        stuck: ids of messages whose visibility cannot be changed.
        visibility: the confirmed changes, in order.
    """

    url: str = queue_url("main")
    refuses: Mapping[str, SendResult] = field(default_factory=dict)
    sent: list[SendEntry] = field(default_factory=list)
    calls: list[list[SendEntry]] = field(default_factory=list)
    stuck: frozenset[str] = frozenset()
    visibility: list[tuple[str, int]] = field(default_factory=list)

    def send(self, entries: Sequence[SendEntry]) -> list[SendResult]:
        self.calls.append(list(entries))
        return [self._send_one(entry) for entry in entries]

    def _send_one(self, entry: SendEntry) -> SendResult:
        if entry.body in self.refuses:
            return self.refuses[entry.body]
        self.sent.append(entry)
        return Confirmed(f"copy-{len(self.sent)}")

    def change_visibility(self, changes: Sequence[tuple[Message, int]]) -> list[Message]:
        stuck = []
        for message, seconds in changes:
            if message.message_id in self.stuck:
                stuck.append(message)
            else:
                self.visibility.append((message.message_id, seconds))
        return stuck


class StuckQueue(FakeQueue):
    """Accepts a call and answers only when released."""

    def __init__(self, url: str = queue_url("main")) -> None:
        super().__init__(url)
        self.entered = threading.Event()
        self.released = threading.Event()

    def send(self, entries: Sequence[SendEntry]) -> list[SendResult]:
        self._wait()
        return super().send(entries)

    def change_visibility(self, changes: Sequence[tuple[Message, int]]) -> list[Message]:
        self._wait()
        return super().change_visibility(changes)

    def _wait(self) -> None:
        self.entered.set()
        self.released.wait(30)


class InlineExecutor(Executor):
    """Runs each call at once, in the caller's thread: tests repeat exactly."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - the future carries it, as every executor's does
            future.set_exception(error)
        return future


def replayer(
    rules: ReplayPolicy,
    *queues: FakeQueue,
    now_seconds: Callable[[], int] = lambda: NOW,
    **more: Any,
) -> Replayer:
    """The use case between main queue, DLQ and parked queue; it draws the longest delay."""
    main, dlq, parked = queues
    mains = {rules.main_queue: main, **more.pop("others", {})}
    fields: Any = {"executor": InlineExecutor(), **more}
    return Replayer(rules, mains, dlq, parked, now_seconds, lambda ceiling: ceiling, **fields)


def three_queues(refuses: Mapping[str, SendResult] | None = None) -> list[FakeQueue]:
    """The main queue, the DLQ and the parked queue."""
    return [FakeQueue(queue_url(name), refuses or {}) for name in ("main", "dlq", "parked")]
