"""The function behind the main queue: the product's example of a consumer, given work to do.

Everything that makes it a good consumer (heartbeat, idempotency, failure reasons, partial answers)
is the example's own. Here its work is watched: what came, what was done, what a viewer hears of it.
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from demo.audit import Journal
from demo.business import Business
from demo.event_source import interpret
from demo.identity import Content, from_record
from demo.workload import DemoMessage

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord


@dataclass
class Consumer:
    """Calls the example, once ``function`` is its freshly loaded module.

    Attributes:
        messages: the run's messages by identity.
        notify: takes what a viewer should know.
        followed: identities whose every step is told.
    """

    function: Any
    business: Business
    journal: Journal
    messages: Mapping[str, DemoMessage]
    notify: Callable[[str], object]
    followed: frozenset[str] = frozenset()
    _fates: dict[str, str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Put the demo's work in the place of the example's own."""
        self.function.work = self._work

    def __call__(self, event: Mapping[str, Any], context: object) -> object:
        """Pass a batch to the example, and its answer back."""
        records = event["Records"]
        for record in records:
            self.journal.arrived(from_record(record))
        self._fates.clear()
        answer: object = self.function.lambda_handler(event, context)
        failed = interpret(answer, [record["messageId"] for record in records]).failed
        for record in records:
            self._follow(record, is_failed=record["messageId"] in failed)
        return answer

    def _work(self, record: "SQSRecord") -> None:
        content = from_record(record.raw_event)
        message = self.messages.get(content.identity)
        try:
            if message is not None:
                self.business.process(message)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            self._fates[record.message_id] = f"fails: {reason}"
            sys.stderr.write(f"consumer: {record.message_id}: {reason}\n")
            raise
        self._fates[record.message_id] = "is processed"
        self.journal.processed(content)

    def _follow(self, record: Mapping[str, Any], *, is_failed: bool) -> None:
        content, system = from_record(record), record["attributes"]
        is_first_look = system.get("ApproximateReceiveCount") == "1"
        if content.identity not in self.followed or not is_first_look:
            return
        fate = self._fates.get(record["messageId"]) or _unworked(record, is_failed=is_failed)
        number = self.messages[content.identity].number
        self.notify(f"message {number} {_arrival(record, content)}, and {fate}")


def _unworked(record: Mapping[str, Any], *, is_failed: bool) -> str:
    """What the example did with a message without doing its work."""
    if not is_failed:
        return "is skipped: processed before"
    if _group_to_keep(record):
        return "waits behind one of its group that failed"
    return "is put off"


def _arrival(record: Mapping[str, Any], content: Content) -> str:
    if content.plan_id:
        return "is back, redriven"
    count = content.replay_count
    return f"is back, replay {count}{_wait(record)}" if count else "arrives"


def _group_to_keep(record: Mapping[str, Any]) -> str:
    """The message group of a FIFO queue; empty where there is no order to keep."""
    is_fifo = record["eventSourceARN"].endswith(".fifo")
    return str(record["attributes"].get("MessageGroupId", "")) if is_fifo else ""


def _wait(record: Mapping[str, Any]) -> str:
    """How long it was hidden in this queue; on FIFO it was hidden in the DLQ instead."""
    system = record["attributes"]
    if _group_to_keep(record):
        return ""
    first_look = _seconds(system, "ApproximateFirstReceiveTimestamp")
    return f", after {first_look - _seconds(system, 'SentTimestamp'):.0f} s"


def _seconds(system: Mapping[str, str], name: str) -> float:
    return int(system.get(name, 0)) / 1000
