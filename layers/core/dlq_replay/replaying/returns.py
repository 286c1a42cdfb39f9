"""Counts what comes back of a redrive, for each plan and group.

A *return* is a copy that a redrive sent and that SQS moved to the DLQ, for the first time: its
context names plan and group and has no ``back``. The redrive makes the counters of its groups
before it sends; nothing is counted where there are none. Counting is advisory: it never raises, and
only a copy of an unproven step waits for it.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from itertools import chain

from dlq_replay.retry import OptionalCalls, awake_seconds
from dlq_replay.rules.batch_plan import PlannedRecord
from dlq_replay.rules.decision import Park, returned_in_step
from dlq_replay.rules.outgoing import source_queue
from dlq_replay.rules.policy import ReplayPolicy
from dlq_replay.wire.message import Message, UnreadableRecord

CANARY_WAIT_SECONDS = 900
"""Longest time that a copy of an unproven step stays in the DLQ for its return to be counted."""

BATCH_SECONDS = 1.0
"""Time in which one batch starts calls to count."""

Key = tuple[str, str]
"""Plan and group."""

Add = Callable[[str, str, str, frozenset[str]], bool]
"""Counts messages of a plan and group, ``returned`` or ``parked``, by their first ids; False where
there are no counters. ``returns_table.ReturnsTable.add``; raises TableError."""


@dataclass(frozen=True, slots=True)
class Returns:
    """Numbers of messages of one plan and group that came back, and that were parked again.

    The ids are the first ids of the first 100 of them, or of some more.
    """

    returned: int = 0
    parked: int = 0
    returned_ids: frozenset[str] = frozenset()
    parked_ids: frozenset[str] = frozenset()


class ReturnsCounter:
    """Counts returns, as one execution environment does. It never raises for a fault of the table.

    Not safe to share between threads: an environment has one invocation at a time.

    Args:
        add: counts; None where there is no table, and so nobody can ask.
        clock_seconds: see ``awake_seconds``.
    """

    def __init__(
        self, add: Add | None = None, clock_seconds: Callable[[], float] = awake_seconds
    ) -> None:
        self._add = add
        self._clock_seconds = clock_seconds
        self.calls = OptionalCalls(clock_seconds)

    def count(
        self, records: Collection[Message | UnreadableRecord], policy: ReplayPolicy
    ) -> tuple[list[Message | UnreadableRecord], frozenset[str], int]:
        """Count the returns of a batch, before a message of it is sent.

        Messages of a FIFO queue wait in place and are delivered again: such a return is counted
        when the receive count says that it is new, but of a message of a step at each delivery.

        Returns:
            The batch, where messages that were counted, or need not be, are ``is_back``; the ids of
            the messages that stay in the DLQ until they are counted; and the number of returns
            that were not counted and go on all the same.
        """
        returned: list[Message] = []
        for record in records:
            if not isinstance(record, Message) or not record.source_arn:
                continue
            if not record.history.context.is_back:
                returned.append(record)

        returns = _by_redrive(returned)
        lost: dict[str, Message] = {}
        end = self._clock_seconds() + BATCH_SECONDS
        for key, messages in returns.items():
            new = [message for message in messages if self._is_new(message, policy)]
            is_late = self._clock_seconds() > end
            if new and (is_late or not self._is_counted(key, "returned", new)):
                lost |= {message.message_id: message for message in new}

        marked: dict[str, Message] = {}
        for message in chain.from_iterable(returns.values()):
            if message.message_id not in lost:
                marked[message.message_id] = _as_back(message)
        batch = [marked.get(record.message_id, record) for record in records]

        uncounted = set[str]()
        for message in lost.values():
            if returned_in_step(message) and _may_wait(message, policy):
                uncounted.add(message.message_id)
        return batch, frozenset(uncounted), len(lost) - len(uncounted)

    def count_parked(self, outcomes: Iterable[PlannedRecord]) -> None:
        """Count the parked messages of redrives. SQS must have confirmed *outcomes*."""
        parked: list[Message] = []
        for outcome in outcomes:
            if isinstance(outcome.decision, Park) and isinstance(outcome.record, Message):
                parked.append(outcome.record)

        for key, messages in _by_redrive(parked).items():
            self._is_counted(key, "parked", messages)

    def _is_new(self, message: Message, policy: ReplayPolicy) -> bool:
        if returned_in_step(message):
            return True
        is_again = policy.main_queue.is_fifo and _deliveries(message, policy)
        return self._add is not None and not is_again

    def _is_counted(self, key: Key, kind: str, messages: Iterable[Message]) -> bool:
        add = self._add
        ids = frozenset(message.first_id for message in messages)
        return add is not None and self.calls.call(lambda: add(*key, kind, ids)) is not None


def _by_redrive(messages: Iterable[Message]) -> dict[Key, list[Message]]:
    """Return the messages that a redrive sent, by its plan and group."""
    by_key: defaultdict[Key, list[Message]] = defaultdict(list)
    for message in messages:
        context = message.history.context
        if context.plan_id is not None and context.group_id is not None:
            by_key[context.plan_id, context.group_id].append(message)
    return by_key


def _as_back(message: Message) -> Message:
    history = message.history
    context = history.context._replace(is_back=True)
    return message.with_history(history._replace(context=context))


def _deliveries(message: Message, policy: ReplayPolicy) -> int | None:
    """Return the number of earlier deliveries of the DLQ; None where that is not known."""
    received = message.receive_count
    of_main = policy.of(source_queue(message, policy)).limits.max_receive_count
    return None if received is None or of_main is None else max(0, received - of_main - 1)


def _may_wait(message: Message, policy: ReplayPolicy) -> bool:
    """Return whether it has been in the DLQ for less than 15 minutes, by its deliveries.

    After each delivery it is hidden for the visibility timeout. If they are not known, it may not.
    """
    earlier = _deliveries(message, policy)
    hidden_seconds = policy.limits.dlq_visibility_seconds
    if earlier is None or not hidden_seconds:
        return False
    return earlier * hidden_seconds < CANARY_WAIT_SECONDS
