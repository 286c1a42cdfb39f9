"""The use case: a batch of dead letters, each replayed, held, parked or left where it was.

Plans with ``plan``, acts through ``sending`` and, for holds on FIFO, through visibility; accounts
for every message.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

from dlq_replay.backoff import DrawUpTo
from dlq_replay.decision import Hold
from dlq_replay.events import UnreadableRecord
from dlq_replay.failures import Failure
from dlq_replay.holding import DeadLetterQueue, settle_groups
from dlq_replay.message import Message
from dlq_replay.plan import Destination, Failed, Fate, Step, plan_batch
from dlq_replay.policy import ReplayPolicy
from dlq_replay.sending import (
    Confirmed,
    InDoubt,
    Queue,
    Refused,
    SendResult,
    Shipment,
    send_groups,
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one message.

    Attributes:
        fate: Replay, Park and Hold mean that SQS confirmed it.
        is_left: whether it must stay in the DLQ: Failed, and on FIFO Hold and Wait.
        fault: why its context was ignored; None where nothing was wrong with it.
    """

    message_id: str
    fate: Fate
    is_left: bool
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What became of a batch: exactly one outcome per message id."""

    outcomes: tuple[Outcome, ...]

    @property
    def failed(self) -> tuple[Outcome, ...]:
        """The outcomes of messages that could not be handled and stay in the DLQ."""
        return tuple(one for one in self.outcomes if isinstance(one.fate, Failed))

    def to_partial_batch_response(self) -> dict[str, list[dict[str, str]]]:
        """What Lambda wants: it deletes every message that is not named here."""
        left = (one.message_id for one in self.outcomes if one.is_left)
        return {"batchItemFailures": [{"itemIdentifier": message_id} for message_id in left]}


@dataclass(frozen=True, slots=True)
class Replayer:
    """Replays batches by one policy, between three queues.

    Attributes:
        now_seconds: the clock, epoch seconds.
        draw_up_to: the randomness of the jitter on standard queues.
        executor: runs the sends.
        find_failures: what consumers recorded of these message ids; called once per batch, never
            raises.
    """

    policy: ReplayPolicy
    main_queue: Queue
    dlq: DeadLetterQueue
    parked_queue: Queue
    now_seconds: Callable[[], int]
    draw_up_to: DrawUpTo
    executor: Executor
    find_failures: Callable[[Sequence[str]], Mapping[str, Failure]] = lambda _: {}

    def replay(
        self, records: Sequence[Message | UnreadableRecord], seconds_left: Callable[[], float]
    ) -> BatchOutcome:
        """Decide and act on each record. Never raises for what a message contains or SQS answers.

        A message that stands twice in the batch is sent once. *seconds_left* says how long the
        answers may still be waited for; what is not confirmed by then is Failed.
        """
        distinct = {record.message_id: record for record in records}
        failures = self.find_failures(list(distinct)) if seconds_left() > 0 else {}
        steps = plan_batch(
            distinct.values(), self.policy, self.now_seconds(), self.draw_up_to, failures
        )
        results = send_groups(self._groups(steps), self.executor, seconds_left)
        held = self._settle_groups(steps, results, seconds_left)
        return BatchOutcome(tuple(_outcome(step, results, held) for step in steps))

    def _settle_groups(
        self,
        steps: Sequence[Step],
        results: Mapping[str, SendResult],
        seconds_left: Callable[[], float],
    ) -> set[str]:
        left = seconds_left()
        if left <= 0 or not self.policy.main_queue.is_fifo:
            return set()
        settling = self.executor.submit(settle_groups, steps, results, self.dlq)
        try:
            return settling.result(timeout=None if math.isinf(left) else left)
        except TimeoutError:
            # It may still take effect; either way the messages stay in the DLQ and come again.
            return set()

    def _groups(self, steps: Sequence[Step]) -> list[list[Shipment[str]]]:
        queues: Mapping[Destination, Queue] = {
            Destination.MAIN: self.main_queue,
            Destination.DLQ: self.dlq,
            Destination.PARKED: self.parked_queue,
        }
        groups: dict[str | None, list[Shipment[str]]] = {}
        for step in steps:
            if step.destination is not None and step.entry is not None:
                shipment = Shipment(step.record.message_id, queues[step.destination], step.entry)
                groups.setdefault(step.group, []).append(shipment)
        return list(groups.values())


def _outcome(step: Step, results: Mapping[str, SendResult], held: set[str]) -> Outcome:
    message_id, fate = step.record.message_id, step.fate
    if step.entry is None:
        if isinstance(fate, Hold) and message_id not in held:
            fate = Failed("not_reached", "its hold was not confirmed")
        return Outcome(message_id, fate, is_left=True, fault=step.fault)
    result = results[message_id]
    if not isinstance(result, Confirmed):
        fate = _failed(result)
    return Outcome(message_id, fate, is_left=isinstance(fate, Failed), fault=step.fault)


def _failed(result: SendResult) -> Failed:
    match result:
        case Refused(code, text):
            return Failed("refused", text or code)
        case InDoubt(cause):
            return Failed("in_doubt", cause)
        case _:
            return Failed("not_reached")
