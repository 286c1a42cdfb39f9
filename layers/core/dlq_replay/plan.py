"""What is meant to happen to each record of a batch, before any of it has. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from dlq_replay.backoff import DrawUpTo
from dlq_replay.decision import Decision, Hold, Park, Replay, decide
from dlq_replay.events import UnreadableRecord
from dlq_replay.failures import Failure
from dlq_replay.message import Message, SendEntry
from dlq_replay.outgoing import held_entry, parked_entry, replay_entry
from dlq_replay.policy import ReplayPolicy


@dataclass(frozen=True, slots=True)
class Failed:
    """It stays in the DLQ, and SQS brings it again.

    Attributes:
        cause: a word for metrics and log searches: ``unreadable``, ``no_group``, ``refused``,
            ``in_doubt`` or ``not_reached``.
        detail: what SQS or the record said, never a part of a body.
    """

    cause: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Wait:
    """FIFO: it stays in the DLQ behind one of its group that is held, parked or left."""


Fate = Replay | Hold | Park | Wait | Failed


class Destination(Enum):
    """Where a copy is sent."""

    MAIN = auto()
    DLQ = auto()
    PARKED = auto()


@dataclass(frozen=True, slots=True)
class Step:
    """One record and what is meant to happen to it.

    Attributes:
        group: what must keep its order: the FIFO group, else the message alone; None where a group
            is needed and missing.
        entry: the copy to send; None where nothing is sent: Wait, Failed, and Hold on FIFO.
        fault: why its context was ignored, for the log.
    """

    record: Message | UnreadableRecord
    group: str | None
    fate: Fate
    destination: Destination | None = None
    entry: SendEntry | None = None
    fault: str | None = None


def plan_batch(
    records: Iterable[Message | UnreadableRecord],
    policy: ReplayPolicy,
    now_seconds: int,
    draw_up_to: DrawUpTo,
    failures: Mapping[str, Failure],
) -> list[Step]:
    """Decide on every record, in order. Message ids must be distinct.

    *failures* is what consumers recorded, by message id.

    On FIFO a group goes on only past a replay: behind a record that is held, parked or left, the
    rest of its group is left too, so that it cannot overtake.
    """
    steps: list[Step] = []
    stopped: set[str | None] = set()
    for record in records:
        group = record.message_group_id if policy.main_queue.is_fifo else record.message_id
        if group in stopped:
            step = Step(record, group, Wait())
        elif isinstance(record, UnreadableRecord):
            step = Step(record, group, Failed("unreadable", record.fault))
        elif group is None:
            step = Step(record, group, Failed("no_group", "a FIFO queue needs MessageGroupId"))
        else:
            failure = failures.get(record.message_id)
            decision = decide(record, policy, now_seconds, draw_up_to, failure)
            step = _step(record, group, decision, policy, now_seconds, failure)
        if group is not None and not isinstance(step.fate, Replay):
            stopped.add(group)
        steps.append(step)
    return steps


def _step(
    message: Message,
    group: str,
    decision: Decision,
    policy: ReplayPolicy,
    now_seconds: int,
    failure: Failure | None,
) -> Step:
    destination, entry = _copy(message, decision, policy, now_seconds, failure)
    return Step(message, group, decision, destination, entry, message.history.fault)


def _copy(
    message: Message,
    decision: Decision,
    policy: ReplayPolicy,
    now_seconds: int,
    failure: Failure | None,
) -> tuple[Destination | None, SendEntry | None]:
    match decision:
        case Replay(number, delay_seconds):
            entry = replay_entry(message, number, delay_seconds, now_seconds, policy)
            return Destination.MAIN, entry
        case Park(reason):
            error = failure.to_failure_error() if failure else None
            return Destination.PARKED, parked_entry(message, reason, now_seconds, policy, error)
        case Hold() if policy.main_queue.is_fifo:
            return None, None
        case Hold(_, due_seconds, wait_seconds):
            entry = held_entry(message, due_seconds, wait_seconds, now_seconds, policy)
            return Destination.DLQ, entry
