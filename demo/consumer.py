"""The function of the main queue: the product's sample consumer, with the demo's work.

Heartbeat, idempotency, failure records and partial batch responses are those of the sample. This
module only observes it: what arrived, what was processed, and what to show to the user.
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
    """Calls the sample consumer.

    Attributes:
        function: the newly loaded module of the sample.
        messages: the run's messages by identity.
        notify: shows an event to the user.
        followed: identities whose every step is shown.
    """

    function: Any
    business: Business
    journal: Journal
    messages: Mapping[str, DemoMessage]
    notify: Callable[[str], object]
    followed: frozenset[str] = frozenset()
    _results: dict[str, str] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Replace the sample's work by the demo's."""
        self.function.work = self._work

    def __call__(self, event: Mapping[str, Any], context: object) -> object:
        """Pass a batch to the sample; return its answer."""
        records = event["Records"]
        for record in records:
            self.journal.arrived(from_record(record))
        self._results.clear()
        answer: object = self.function.lambda_handler(event, context)
        failed = interpret(answer, [record["messageId"] for record in records]).failed
        for record in records:
            self._report(record, is_failed=record["messageId"] in failed)
        return answer

    def _work(self, record: "SQSRecord") -> None:
        content = from_record(record.raw_event)
        message = self.messages.get(content.identity)
        try:
            if message is not None:
                self.business.process(message, content.replay_count)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            self._results[record.message_id] = f"fails: {reason}"
            sys.stderr.write(f"consumer: {record.message_id}: {reason}\n")
            raise
        self._results[record.message_id] = "is processed"
        self.journal.processed(content)

    def _report(self, record: Mapping[str, Any], *, is_failed: bool) -> None:
        content, system = from_record(record), record["attributes"]
        is_first_receive = system.get("ApproximateReceiveCount") == "1"
        if content.identity not in self.followed or not is_first_receive:
            return
        result = self._results.get(record["messageId"]) or _not_processed(
            record, is_failed=is_failed
        )
        number = self.messages[content.identity].number
        self.notify(f"message {number} {_arrival(record, content)}, and {result}")


def _not_processed(record: Mapping[str, Any], *, is_failed: bool) -> str:
    """Return why the sample did not run the work for a message."""
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
    """Return the message group on a FIFO queue; empty on a standard queue."""
    is_fifo = record["eventSourceARN"].endswith(".fifo")
    return str(record["attributes"].get("MessageGroupId", "")) if is_fifo else ""


def _wait(record: Mapping[str, Any]) -> str:
    """Return the wait in this queue; empty on FIFO, where messages wait in the DLQ."""
    system = record["attributes"]
    if _group_to_keep(record):
        return ""
    first_receive = _seconds(system, "ApproximateFirstReceiveTimestamp")
    return f", after {first_receive - _seconds(system, 'SentTimestamp'):.0f} s"


def _seconds(system: Mapping[str, str], name: str) -> float:
    return int(system.get(name, 0)) / 1000
