"""Sends one test message through an installation, and reports how far it came.

The message is marked, and its counter makes the function park it: no consumer sees it, unless it
is sent through the consumer. If this program is killed, the message does not stay for good: the
next test or the next drain deletes it from the parked queue.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dlq.aws.clients import DescribedQueue
from dlq.stack.rules import (
    NET_MIN_RECEIVE_COUNT,
    WHY_NOT_DEAD,
    WHY_NOT_PARKED,
    Installation,
    Severity,
    StackFinding,
    broken,
    findings,
)
from dlq_replay.aws.sqs import SqsQueue
from dlq_replay.errors import QueueError
from dlq_replay.replaying.sending import Confirmed, Refused
from dlq_replay.replaying.trial_message import TRIAL_ATTRIBUTE, trial_entry, trial_id_of
from dlq_replay.rules.decision import ParkReason
from dlq_replay.wire.message import REPLAY_COUNT_ATTRIBUTE, Message, SendEntry

RECEIVABLE_MESSAGES = 100
"""The most messages in a queue that are received to find the test message among them. SQS cannot
select messages, so all of them are hidden for some seconds."""

FUNCTION_SECONDS = 180.0
"""A batching window of 60 s, the poller's own wait of 20 s, a cold start, and a retry."""

_HIDDEN_SECONDS = 10
"""Visibility timeout of a received message. If the program is killed, it comes back by itself."""

_SWEEP_SECONDS = 6.0
"""A sweep ends before the first message that it received is visible again."""

_FIRST_LOOK_SECONDS = 5.0
_LONGEST_PAUSE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Check:
    """One step of the test message: the observation, and findings of rules if it does not work.

    *works* is None where that could not be observed.
    """

    name: str
    works: bool | None
    observed: str
    causes: tuple[StackFinding, ...] = ()


@dataclass(frozen=True, slots=True)
class Trial:
    """The test of one installation with one message. Call ``run`` once.

    Attributes:
        trial_id: the mark of the message, 16 random hexadecimal digits.
        through_consumer: send it to the main queue instead of the DLQ. The consumer gets a body
            that it does not know, and has to fail on it.
        now: returns seconds since any origin.
    """

    client: Callable[[str], Any]
    installation: Installation
    trial_id: str
    through_consumer: bool = False
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep

    def run(self) -> Iterator[Check]:
        """Send the message, wait for it in the parked queue, delete it there.

        Yields each check as soon as it is known. The first one that does not work is the last, but
        for the removal.
        """
        installation = self.installation
        target = installation.main if self.through_consumer else installation.dlq
        causes = [cause for cause in self._why_not_dead() if cause.severity is Severity.BROKEN]
        if not installation.is_fed or causes:
            if not installation.is_fed:
                causes = findings(installation, WHY_NOT_PARKED) + causes
            observed = f"not sent, because it would stay in {target.name}"
            yield Check("sent", works=False, observed=observed, causes=tuple(causes))
            return

        entry = trial_entry(self.trial_id, installation.settings.policy)
        (result,) = SqsQueue(self.client("sqs"), target.url).send([entry])
        if isinstance(result, Confirmed):
            observed = f"{target.name} took it as {result.message_id}"
            yield Check("sent", works=True, observed=observed)
            yield from self._follow(entry, result.message_id)
        elif isinstance(result, Refused):
            fault = f"it does not take your message: {result.text or result.code}"
            fix = "allow sqs:SendMessage to your credentials, and the use of its key"
            cause = broken(target.name, fault, fix)
            yield Check("sent", works=False, observed="refused", causes=(cause,))
        else:
            observed = f"{target.name} did not answer; the message may be there"
            yield Check("sent", works=None, observed=observed)
            yield from self._follow(entry, "")

    @property
    def limit_seconds(self) -> float:
        """Time in which the message must be parked."""
        main = self.installation.main
        failures_seconds = main.visibility_timeout_seconds * (main.max_receive_count or 1)
        return FUNCTION_SECONDS + (failures_seconds if self.through_consumer else 0)

    def _why_not_dead(self) -> list[StackFinding]:
        return findings(self.installation, WHY_NOT_DEAD if self.through_consumer else ())

    def _follow(self, entry: SendEntry, message_id: str) -> Iterator[Check]:
        """Look into the parked queue until the message is there, or cannot be looked for.

        *message_id* is empty where SQS gave none.
        """
        dlq = self.installation.dlq
        parked = self.installation.parked
        name = f"{dlq.name} → function → {parked.name}"
        if self.through_consumer:
            name = f"{self.installation.main.name} → consumer → {name}"

        copy: Message | None = None
        is_deleted = False
        fault = ""
        started = self.now()
        passed_seconds = 0.0
        pause_seconds = _FIRST_LOOK_SECONDS
        while copy is None and not fault and pause_seconds > 0:
            self.sleep(pause_seconds)
            passed_seconds = self.now() - started
            try:
                copy, is_deleted = self._sweep(parked)
            except QueueError as error:
                fault = str(error)
            left_seconds = self.limit_seconds - passed_seconds
            pause_seconds = min(pause_seconds * 2, _LONGEST_PAUSE_SECONDS, left_seconds)

        if copy is not None:
            yield Check(name, works=True, observed=f"after {passed_seconds:.0f} s")
            yield self._compared(copy, entry, message_id)
        elif fault:
            shown_id = message_id or "unknown"
            observed = f"{fault}; if the function parks it, its log has the id {shown_id}"
            yield Check(name, works=None, observed=observed)
        else:
            observed = f"not there after {passed_seconds:.0f} s"
            yield Check(name, works=False, observed=observed, causes=self._causes())
            for queue in (dlq, parked):
                with suppress(QueueError):
                    is_deleted = is_deleted or self._sweep(queue)[1]

        if is_deleted:
            yield Check("removed", works=True, observed="the test message is deleted")
        else:
            later = "the function parks it if it can, and the next drain deletes it"
            yield Check("removed", works=None, observed=later)

    def _causes(self) -> tuple[StackFinding, ...]:
        """Return the rules' findings about a message that did not arrive; else a place to look."""
        causes = findings(self.installation, WHY_NOT_PARKED) + self._why_not_dead()
        if causes:
            return tuple(causes)

        subject = self.installation.function_name
        fix = "read its log, and LastProcessingResult of its event source mapping"
        if self.through_consumer:
            subject = self.installation.main.name
            fix = f"let the consumer run, and fail on messages with {TRIAL_ATTRIBUTE}"
        fault = f"the message was not parked within {self.limit_seconds:.0f} s"
        return (broken(subject, fault, fix),)

    def _compared(self, copy: Message, entry: SendEntry, message_id: str) -> Check:
        context = copy.history.context
        counter = entry.attributes[REPLAY_COUNT_ATTRIBUTE].value
        pairs: list[tuple[str, object, object]] = [
            ("body", copy.body, entry.body),
            ("replay count", str(copy.history.replay_count), counter),
            ("reason", context.reason, ParkReason.ATTEMPTS_EXHAUSTED.value),
            ("source queue", context.source_queue, self.installation.main.name),
            ("message group", copy.message_group_id, entry.message_group_id),
        ]
        if message_id:
            pairs.append(("first id", context.first_id, message_id))

        differences: list[str] = []
        for name, actual, expected in pairs:
            if actual != expected:
                differences.append(f"{name} is {actual}, not {expected}")
        if not differences:
            return Check("as it was sent", works=True, observed="body, attributes, context")

        fault = f"changed the message on its way: {'; '.join(differences)}"
        fix = "deploy the stack again with the version of this command"
        cause = broken(self.installation.function_name, fault, fix)
        return Check("as it was sent", works=False, observed="its copy differs", causes=(cause,))

    def _sweep(self, queue: DescribedQueue) -> tuple[Message | None, bool]:
        """Receive all messages of *queue*, delete test messages, give all others back.

        Return the message of this test, or None, and whether SQS confirmed its deletion. Raise
        QueueError where the queue cannot be read, or must not be.
        """
        source = SqsQueue(self.client("sqs"), queue.url)
        end = self.now() + _SWEEP_SECONDS
        _require_sweepable(DescribedQueue(queue.url, source.describe()))

        tests: list[Message] = []
        others: list[Message] = []
        try:
            # SQS's counts are approximate, so a queue may have more than it said.
            while len(tests) + len(others) < 2 * RECEIVABLE_MESSAGES and self.now() < end:
                received = source.receive(
                    wait_seconds=1, visibility_timeout_seconds=_HIDDEN_SECONDS
                )
                if not received:
                    break
                for message in received:
                    if not isinstance(message, Message):
                        continue
                    if trial_id_of(message) is None:
                        others.append(message)
                    else:
                        tests.append(message)
        finally:
            source.change_visibility([(message, 0) for message in others])

        undeleted_ids = {message.message_id for message in source.delete(tests)}
        for message in tests:
            if trial_id_of(message) == self.trial_id:
                return message, message.message_id not in undeleted_ids
        return None, False


def _require_sweepable(queue: DescribedQueue) -> None:
    """Raise QueueError if receiving all messages of *queue* could move them or hide many."""
    if queue.counts.visible > RECEIVABLE_MESSAGES:
        raise QueueError(f"{queue.name} has {queue.counts.visible:,} messages")
    limit = queue.max_receive_count
    if limit is not None and limit < NET_MIN_RECEIVE_COUNT:
        raise QueueError(f"{queue.name} moves messages after {limit} receives")
