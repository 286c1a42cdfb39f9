"""Sends one test message through an installation, and says how far it came.

The message is marked, and its counter makes the function park it: no consumer sees it, unless it
is sent through the consumer. Whatever ends this program, nothing stays for good: the next test or
the next drain deletes the message from the parked queue.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from dlq_cli.stack.facts import Installation, QueueFacts
from dlq_cli.stack.rules import (
    NET_MIN_RECEIVE_COUNT,
    WHY_NOT_DEAD,
    WHY_NOT_FED,
    WHY_NOT_SENT,
    Finding,
    Severity,
    broken,
    findings,
)
from dlq_replay.decision import ParkReason
from dlq_replay.errors import QueueError
from dlq_replay.history import REPLAY_COUNT_ATTRIBUTE
from dlq_replay.message import Message, SendEntry
from dlq_replay.sending import Confirmed, Refused
from dlq_replay.sqs import SqsQueue, describe
from dlq_replay.trial import TRIAL_ATTRIBUTE, trial_entry, trial_id_of
from spark_reprocess.clients import QueueCounts

RECEIVABLE_MESSAGES = 100
"""The most messages in a queue that are received to find the test message among them. SQS cannot
select messages, so all of them are hidden for some seconds."""

FUNCTION_SECONDS = 180.0
"""A batching window of 60 s, the poller's own wait of 20 s, a cold start, and a retry."""

_HIDDEN_SECONDS = 10
"""Of a received message. It comes back by itself where the program is killed."""

_SWEEP_SECONDS = 6.0
"""A sweep ends before the first message that it received is visible again."""

_FIRST_LOOK_SECONDS = 5.0
_LONGEST_PAUSE_SECONDS = 60.0
_SEND_TRIES = 3

_READ_LOG = "read its log, and LastProcessingResult of its event source mapping"


@dataclass(frozen=True, slots=True)
class Check:
    """One step of the test message.

    Attributes:
        name: the step.
        works: None where it could not be observed.
        observed: what was seen, or why nothing was.
        causes: what the rules of ``doctor`` say of a step that does not work.
    """

    name: str
    works: bool | None
    observed: str
    causes: tuple[Finding, ...] = ()


class NotObservedError(Exception):
    """A queue could not be read; the text says why."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The test of one installation with one message. Call ``run`` once.

    Attributes:
        client: makes the client of a service.
        installation: from the survey.
        trial_id: the mark of the message, 16 random hexadecimal digits.
        through_consumer: send it to the main queue instead of the DLQ. The consumer gets a body
            that it does not know, and has to fail on it.
        now: returns seconds since any origin.
        sleep: waits so many seconds.
    """

    client: Callable[[str], Any]
    installation: Installation
    trial_id: str
    through_consumer: bool = False
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep

    @property
    def target(self) -> QueueFacts:
        """The queue that the message is sent to."""
        return self.installation.main if self.through_consumer else self.installation.dlq

    @property
    def limit_seconds(self) -> float:
        """Time in which the message must be parked."""
        if not self.through_consumer:
            return FUNCTION_SECONDS
        main = self.installation.main
        failures_seconds = main.visibility_timeout_seconds * (main.max_receive_count or 1)
        return failures_seconds + FUNCTION_SECONDS

    def run(self) -> Iterator[Check]:
        """Send the message, wait for it in the parked queue, delete it there.

        Yields each check as soon as it is known. The first one that does not work is the last, but
        for the removal.
        """
        of = self.installation
        causes = tuple(one for one in self._why_not_dead() if one.severity is Severity.BROKEN)
        if not of.is_fed or causes:
            why = f"not sent, because it would stay in {self.target.name}"
            causes = (*findings(of, () if of.is_fed else WHY_NOT_FED), *causes)
            yield Check("sent", works=False, observed=why, causes=causes)
            return
        entry = trial_entry(self.trial_id, of.settings.policy)
        sent, message_id = self._send(entry)
        yield sent
        if sent.works is False:
            return
        try:
            yield from self._follow(entry, message_id)
        except BaseException:
            # The caller has to see the error, whatever becomes of this.
            with suppress(Exception):
                self._remove_from(of.parked, of.dlq)
            raise

    def _why_not_dead(self) -> list[Finding]:
        return findings(self.installation, WHY_NOT_DEAD if self.through_consumer else ())

    def _send(self, entry: SendEntry) -> tuple[Check, str]:
        """Return the check, and the id of the copy; the id is empty where SQS told none."""
        target = self.target
        for _ in range(_SEND_TRIES):
            (result,) = self._queue(target).send([entry])
            if isinstance(result, Confirmed):
                observed = f"{target.name} took it as {result.message_id}"
                return Check("sent", works=True, observed=observed), result.message_id
            if isinstance(result, Refused):
                fault = f"it does not take your message: {result.text or result.code}"
                fix = "allow sqs:SendMessage to your credentials, and the use of its key"
                cause = broken(target.name, fault, fix)
                return Check("sent", works=False, observed="refused", causes=(cause,)), ""
            # No answer. A second copy is recognised and removed like the first.
        observed = f"{target.name} did not answer; the message may be there"
        return Check("sent", works=None, observed=observed), ""

    def _follow(self, entry: SendEntry, message_id: str) -> Iterator[Check]:
        of = self.installation
        way = f"{of.main.name} → consumer → " if self.through_consumer else ""
        name, known = f"{way}{of.dlq.name} → function → {of.parked.name}", message_id or "unknown"
        copy, is_deleted, fault, seconds = self._wait()
        if copy is not None:
            yield Check(name, works=True, observed=f"after {seconds:.0f} s")
            yield self._compared(copy, entry, message_id)
        elif fault:
            observed = f"{fault}; if the function parks it, its log has the id {known}"
            yield Check(name, works=None, observed=observed)
        else:
            observed = f"not there after {seconds:.0f} s"
            yield Check(name, works=False, observed=observed, causes=self._causes())
            is_deleted = self._remove_from(of.dlq, of.parked)
        if is_deleted:
            yield Check("removed", works=True, observed="the test message is deleted")
        else:
            later = "the function parks it if it can, and the next drain deletes it"
            yield Check("removed", works=None, observed=later)

    def _wait(self) -> tuple[Message | None, bool, str, float]:
        """Look into the parked queue until the message is there, or cannot be looked for.

        Return the message, whether it is deleted, why nothing could be received, and the seconds.
        """
        started, pause = self.now(), _FIRST_LOOK_SECONDS
        while True:
            self.sleep(pause)
            seconds = self.now() - started
            try:
                copy, is_deleted = self._sweep(self.installation.parked)
            except NotObservedError as error:
                return None, False, str(error), seconds
            left = self.limit_seconds - seconds
            if copy is not None or left <= 0:
                return copy, is_deleted, "", seconds
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS, left)

    def _causes(self) -> tuple[Finding, ...]:
        """Return what the rules find of a message that did not arrive; else where to look."""
        of = self.installation
        causes = findings(of, (*WHY_NOT_FED, *WHY_NOT_SENT)) + self._why_not_dead()
        causes += [
            broken(of.function_name, f"{trigger.name} reports: {trigger.last_result}", _READ_LOG)
            for trigger in of.triggers
            if "PROBLEM" in trigger.last_result.upper()
        ]
        if not causes and self.through_consumer:
            fault = f"the message was not parked within {self.limit_seconds:.0f} s"
            fix = f"let the consumer run, and fail on messages with the attribute {TRIAL_ATTRIBUTE}"
            causes = [broken(of.main.name, fault, fix)]
        if not causes:
            fault = f"did not park a message of {of.dlq.name} within {self.limit_seconds:.0f} s"
            causes = [broken(of.function_name, fault, _READ_LOG)]
        return tuple(dict.fromkeys(causes))

    def _compared(self, copy: Message, entry: SendEntry, message_id: str) -> Check:
        """Return whether the parked copy is what the wire format promises."""
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
        faults = [f"{what} is {got}, not {due}" for what, got, due in pairs if got != due]
        if not faults:
            return Check("as it was sent", works=True, observed="body, attributes, context")
        fault = f"changed the message on its way: {'; '.join(faults)}"
        fix = "deploy the stack again with the version of this command"
        cause = broken(self.installation.function_name, fault, fix)
        return Check("as it was sent", works=False, observed="its copy differs", causes=(cause,))

    def _queue(self, queue: QueueFacts) -> SqsQueue:
        return SqsQueue(self.client("sqs"), queue.url)

    def _remove_from(self, *queues: QueueFacts) -> bool:
        """Delete the message where it is found; return whether SQS confirmed it."""
        for queue in queues:
            with suppress(NotObservedError):
                if self._sweep(queue)[1]:
                    return True
        return False

    def _sweep(self, queue: QueueFacts) -> tuple[Message | None, bool]:
        """Receive all messages of *queue*, delete test messages, give all others back.

        Return the message of this test, or None, and whether SQS confirmed its deletion.
        """
        source, ends = self._queue(queue), self.now() + _SWEEP_SECONDS
        tests: list[Message] = []
        others: list[Message] = []
        try:
            attributes = source.describe()
            count = QueueCounts.of(attributes).visible
            if count > RECEIVABLE_MESSAGES:
                raise NotObservedError(f"{queue.name} has {count:,} messages")
            limit = QueueFacts(queue.role, queue.url, attributes).max_receive_count
            if limit is not None and limit < NET_MIN_RECEIVE_COUNT:
                raise NotObservedError(f"{queue.name} moves messages after {limit} receives")
            try:
                # SQS's counts are approximate, so a queue may have more than it said.
                while len(tests) + len(others) < 2 * RECEIVABLE_MESSAGES and self.now() < ends:
                    received = source.receive(
                        wait_seconds=1, visibility_timeout_seconds=_HIDDEN_SECONDS
                    )
                    if not received:
                        break
                    for message in received:
                        if isinstance(message, Message):
                            (others if trial_id_of(message) is None else tests).append(message)
            finally:
                source.change_visibility([(message, 0) for message in others])
            left = {message.message_id for message in source.delete(tests)}
        except (ClientError, BotoCoreError) as error:
            raise NotObservedError(f"{queue.name}: {describe(error)}") from error
        except QueueError as error:
            raise NotObservedError(str(error)) from error
        own = next((message for message in tests if trial_id_of(message) == self.trial_id), None)
        return own, own is not None and own.message_id not in left
