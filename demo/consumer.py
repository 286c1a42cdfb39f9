"""A Lambda function that fails on purpose: its payments service is down, and it has a bug.

It answers with partial batch failures, as a good consumer does, records with the product's kit why
each message failed, and notes what it saw. On FIFO queues it stops a group at its first failure, so
that nothing overtakes.
"""

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from demo.identity import Content, from_record
from demo.journal import Journal
from demo.workload import DemoMessage, Trait
from dlq_replay.consumer.failures import FailureRecorder

OUTAGE_SECONDS = 8.0


class ConsumerError(Exception):
    """What a viewer is told of a failure; its cause is what the consumer met."""


@dataclass
class Consumer:
    """The function behind the main queue.

    Attributes:
        messages: the run's messages by identity; they know which fault they meet.
        tell: takes what a viewer should know.
        followed: identities whose every step is told.
        recorder: where it records why a message failed.
        clock: monotonic seconds.
    """

    journal: Journal
    messages: Mapping[str, DemoMessage]
    tell: Callable[[str], object]
    followed: frozenset[str] = frozenset()
    recorder: FailureRecorder = field(default_factory=lambda: FailureRecorder(None))
    clock: Callable[[], float] = time.monotonic
    is_bug_fixed: bool = False
    _outage_ends: float | None = field(default=None, init=False)
    _told: set[str] = field(default_factory=set, init=False)

    def __call__(self, event: Mapping[str, Any], _context: object) -> dict[str, Any]:
        """Work through a batch; answer with the messages that failed."""
        with self.recorder.batch():
            return self._consume(event)

    def _consume(self, event: Mapping[str, Any]) -> dict[str, Any]:
        if self._outage_ends is None:
            self._outage_ends = self.clock() + OUTAGE_SECONDS
        failed: list[str] = []
        stopped: set[str] = set()
        for record in event["Records"]:
            group = _group_to_keep(record)
            if group in stopped:
                self._skip(record)
            elif self._succeeds(record):
                continue
            failed.append(record["messageId"])
            stopped.update({group} - {""})
        return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in failed]}

    @property
    def is_payments_down(self) -> bool:
        """Whether the service that some messages need does not answer; it recovers by itself."""
        return self._outage_ends is None or self.clock() < self._outage_ends

    def _succeeds(self, record: Mapping[str, Any]) -> bool:
        content = from_record(record)
        self.journal.arrived(content)
        message = self.messages.get(content.identity)
        try:
            self._work(message)
        except ConsumerError as error:
            self.recorder.record(record["messageId"], error.__cause__ or error)
            sys.stderr.write(f"consumer: {record['messageId']}: {error}\n")
            self._follow(content, record, f"fails: {error}")
            return False
        self.journal.processed(content)
        self._follow(content, record, "is processed")
        return True

    def _skip(self, record: Mapping[str, Any]) -> None:
        content = from_record(record)
        self.journal.arrived(content)
        self._follow(content, record, "waits behind one of its group that failed")

    def _work(self, message: DemoMessage | None) -> None:
        trait = message.trait if message else Trait.PLAIN
        number = message.number if message else 0
        if trait is Trait.NEEDS_PAYMENTS:
            if self.is_payments_down:
                self._tell_once("payments is down: every message that needs it fails")
                slow = TimeoutError(f"payments did not answer in {2000 + number * 7 % 400} ms")
                raise ConsumerError("payments is down") from slow
            self._tell_once("payments is back")
        if trait is Trait.BROKEN and not self.is_bug_fixed:
            raise ConsumerError("a bug in the consumer") from _bug(number)

    def _tell_once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self.tell(text)

    def _follow(self, content: Content, record: Mapping[str, Any], fate: str) -> None:
        system = record["attributes"]
        is_first_look = system.get("ApproximateReceiveCount") == "1"
        if content.identity not in self.followed or not is_first_look:
            return
        number = self.messages[content.identity].number
        count = content.replay_count
        how = f"is back, replay {count}{_wait(record)}" if count else "arrives"
        if content.plan_id:
            how = "is back, redriven"
        self.tell(f"message {number} {how}, and {fate}")


def _bug(number: int) -> Exception:
    """One bug, two symptoms: what the analysis should tell apart."""
    if number % 3:
        return LookupError(f"no VAT rate for message {number}")
    return ValueError(f"message {number} has an amount that is no number")


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
