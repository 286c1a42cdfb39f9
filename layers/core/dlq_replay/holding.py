"""Message groups in a FIFO DLQ: a head waits in place, hidden by its visibility timeout.

A hidden message locks its group, which is what keeps the order while the head waits, and what makes
the order of the calls matter here.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from dlq_replay.decision import Hold, Park
from dlq_replay.message import Message
from dlq_replay.plan import Step, Wait
from dlq_replay.sending import Confirmed, Queue, SendResult


class DeadLetterQueue(Queue, Protocol):
    """What a replay needs of the DLQ itself. ``sqs.SqsQueue`` is one."""

    def change_visibility(self, changes: Sequence[tuple[Message, int]]) -> Sequence[Message]:
        """Hide each received message for so many seconds from now; 0 shows it at once.

        Returns those that SQS did not confirm; never raises for an error of SQS.
        """


def settle_groups(
    steps: Sequence[Step], results: Mapping[str, SendResult], dlq: DeadLetterQueue
) -> set[str]:
    """Hide the heads that must wait, and show what stands behind a head that is settled.

    A head is hidden only once all that went before it in its group is sent: the group stays locked
    as long as the head is hidden, and what failed before it would have to wait as long. What
    stands behind a hidden or a parked head is shown at once, so that the group moves on when the
    head is due or deleted, and not when the timeouts of this receive end.

    Returns:
        The ids of the heads whose hold SQS confirmed.
    """
    heads = _heads(steps, results)
    unconfirmed = {
        message.message_id
        for message in (dlq.change_visibility(list(heads.values())) if heads else ())
    }
    held = {
        group: message.message_id
        for group, (message, _) in heads.items()
        if message.message_id not in unconfirmed
    }
    parked = {
        step.group
        for step in steps
        if isinstance(step.fate, Park) and isinstance(results.get(step.message_id), Confirmed)
    }
    behind = [
        step.record
        for step in steps
        if step.group in held.keys() | parked
        and isinstance(step.fate, Wait)
        and isinstance(step.record, Message)
    ]
    if behind:
        dlq.change_visibility([(message, 0) for message in behind])
    return set(held.values())


def _heads(
    steps: Sequence[Step], results: Mapping[str, SendResult]
) -> dict[str | None, tuple[Message, int]]:
    broken = {
        step.group
        for step in steps
        if not isinstance(results.get(step.message_id, Confirmed("")), Confirmed)
    }
    return {
        step.group: (step.record, step.fate.wait_seconds)
        for step in steps
        if isinstance(step.fate, Hold)
        and isinstance(step.record, Message)
        and step.entry is None
        and step.group not in broken
    }
