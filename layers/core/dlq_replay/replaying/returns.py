"""Counts what comes back of a redrive, for each plan and group.

A *return* is a copy that a redrive sent and that SQS moved to the DLQ, for the first time: its
context names plan and group and has no ``back``. The redrive makes the counters of its groups
before it sends; nothing is counted where there are none. Counting is advisory: it never raises, and
only a copy of an unproven step waits for it.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from dlq_replay.retry import Asking, awake_seconds
from dlq_replay.rules.decision import Park, is_returned_canary
from dlq_replay.rules.outgoing import source_queue
from dlq_replay.rules.plan import Step
from dlq_replay.rules.policy import ReplayPolicy
from dlq_replay.wire.message import Message, UnreadableRecord

CANARY_WAIT_SECONDS = 900
"""How long a copy of an unproven step stays in the DLQ for its return to be counted."""

BATCH_SECONDS = 1.0
"""How long one batch goes on starting calls to count."""

Key = tuple[str, str]
"""Plan and group."""

Add = Callable[[str, str, str, frozenset[str]], bool]
"""Counts messages of a plan and group, ``returned`` or ``parked``, by their first ids; False where
there are no counters. ``returns_table.ReturnsTable.add``; raises TableError."""


@dataclass(frozen=True, slots=True)
class Returns:
    """How many messages of one plan and group came back, and how many were parked again.

    The ids are the first ids of the first 100 of them, or of some more.
    """

    returned: int = 0
    parked: int = 0
    returned_ids: frozenset[str] = frozenset()
    parked_ids: frozenset[str] = frozenset()


class ReturnsCounter:
    """Counts returns, as one execution environment does. It never raises for what the table does.

    Not safe to share between threads: an environment has one invocation at a time.

    Args:
        add: counts; None where there is no table, and so nobody can ask.
        clock_seconds: see ``awake_seconds``.
    """

    def __init__(
        self, add: Add | None = None, clock_seconds: Callable[[], float] = awake_seconds
    ) -> None:
        self._add, self._clock_seconds = add, clock_seconds
        self.asking = Asking(clock_seconds)

    def count(
        self, records: Collection[Message | UnreadableRecord], policy: ReplayPolicy
    ) -> tuple[list[Message | UnreadableRecord], frozenset[str], int]:
        """Count the returns of a batch, before anything of it is sent.

        Messages of a FIFO queue wait in place and are delivered again: such a return is counted
        when the receive count says that it is new, but a canary's at each delivery.

        Returns:
            The batch, where what was counted, or of which nobody wants to know, is ``is_back``; the
            ids of the messages that stay in the DLQ until they are counted; and how many returns
            were not counted and go on all the same.
        """
        returns = _of_redrives(
            one
            for one in records
            if isinstance(one, Message) and one.source_arn and not one.history.context.is_back
        )
        end = self._clock_seconds() + BATCH_SECONDS
        lost: dict[str, Message] = {}
        for key, messages in returns.items():
            asked = [one for one in messages if self._is_new(one, policy)]
            is_late = self._clock_seconds() > end
            if asked and (is_late or not self._is_counted(key, "returned", asked)):
                lost |= {one.message_id: one for one in asked}
        marked = {
            one.message_id: one.with_history(
                one.history._replace(context=one.history.context._replace(is_back=True))
            )
            for messages in returns.values()
            for one in messages
            if one.message_id not in lost
        }
        uncounted = frozenset(
            message_id
            for message_id, one in lost.items()
            if is_returned_canary(one) and _may_wait(one, policy)
        )
        batch = [marked.get(record.message_id, record) for record in records]
        return batch, uncounted, len(lost) - len(uncounted)

    def count_parked(self, outcomes: Iterable[Step]) -> None:
        """Count what was parked of a redrive. SQS must have confirmed *outcomes*."""
        parked = (
            step.record
            for step in outcomes
            if isinstance(step.fate, Park) and isinstance(step.record, Message)
        )
        for key, messages in _of_redrives(parked).items():
            self._is_counted(key, "parked", messages)

    def _is_new(self, message: Message, policy: ReplayPolicy) -> bool:
        if is_returned_canary(message):
            return True
        is_again = policy.main_queue.is_fifo and _deliveries(message, policy)
        return self._add is not None and not is_again

    def _is_counted(self, key: Key, kind: str, messages: Iterable[Message]) -> bool:
        add, ids = self._add, frozenset(one.first_id for one in messages)
        return add is not None and self.asking.ask(lambda: add(*key, kind, ids)) is not None


def _of_redrives(messages: Iterable[Message]) -> dict[Key, list[Message]]:
    found: defaultdict[Key, list[Message]] = defaultdict(list)
    for message in messages:
        context = message.history.context
        if context.plan_id is not None and context.group_id is not None:
            found[context.plan_id, context.group_id].append(message)
    return found


def _deliveries(message: Message, policy: ReplayPolicy) -> int | None:
    """How often the DLQ delivered it before; None where that is not known."""
    received = message.receive_count
    of_main = policy.of(source_queue(message, policy)).limits.max_receive_count
    return None if received is None or of_main is None else max(0, received - of_main - 1)


def _may_wait(message: Message, policy: ReplayPolicy) -> bool:
    """Whether it has been in the DLQ for less than 15 minutes, as far as its deliveries say.

    After each it is hidden for the visibility timeout. Where they are not known, it may not.
    """
    earlier, hidden_seconds = _deliveries(message, policy), policy.limits.dlq_visibility_seconds
    if earlier is None or not hidden_seconds:
        return False
    return earlier * hidden_seconds < CANARY_WAIT_SECONDS
