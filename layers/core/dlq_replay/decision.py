"""The rules: one message, the policy, the time and a source of randomness give one decision.

Pure, and the only place that decides. The rules stand in their order; the first that applies wins.
"""

from dataclasses import dataclass
from enum import StrEnum

from dlq_replay.addresses import QueueAddress
from dlq_replay.backoff import DrawUpTo, draw_delay_seconds
from dlq_replay.history import History
from dlq_replay.message import Message
from dlq_replay.outgoing import first_seen_seconds, has_room_for_counter
from dlq_replay.policy import MESSAGE_TIMER_MAX_SECONDS, ReplayPolicy


class ParkReason(StrEnum):
    """Why a human must see it."""

    FOREIGN_SOURCE = "foreign_source"
    INVALID_COUNTER = "invalid_counter"
    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    TOO_OLD = "too_old"
    NO_ROOM = "no_room"


@dataclass(frozen=True, slots=True)
class Replay:
    """Send it back to the main queue.

    Attributes:
        number: which replay this is, counted from 1; the counter that the copy carries.
        delay_seconds: how long it stays hidden, 0 to 900; always 0 to a FIFO queue.
    """

    number: int
    delay_seconds: int


@dataclass(frozen=True, slots=True)
class Park:
    """Stop trying: send it to the parked queue."""

    reason: ParkReason


Decision = Replay | Park


def decide(
    message: Message, policy: ReplayPolicy, now_seconds: int, draw_up_to: DrawUpTo
) -> Decision:
    """Decide what happens to *message* now. Never raises for anything a message contains."""
    history = History.of(message)
    if _is_foreign(message, policy.main_queue):
        return Park(ParkReason.FOREIGN_SOURCE)
    if history.replay_count is None:
        return Park(ParkReason.INVALID_COUNTER)
    if history.replay_count >= policy.max_attempts:
        return Park(ParkReason.ATTEMPTS_EXHAUSTED)
    if _is_too_old(history, policy, now_seconds):
        return Park(ParkReason.TOO_OLD)
    number = history.replay_count + 1
    if not has_room_for_counter(message, number, policy):
        return Park(ParkReason.NO_ROOM)
    return _replay(history, number, policy, now_seconds, draw_up_to)


def _replay(
    history: History, number: int, policy: ReplayPolicy, now_seconds: int, draw_up_to: DrawUpTo
) -> Replay:
    if policy.main_queue.is_fifo:
        return Replay(number, delay_seconds=0)
    # The ceiling is clamped to the message timer, never the drawn delay: every wait we promise
    # is one that SQS keeps, and the jitter stays uniform up to it.
    ceiling = min(policy.backoff.ceiling_seconds(number), MESSAGE_TIMER_MAX_SECONDS)
    due = history.context.due_seconds
    if due is None or due > now_seconds + ceiling:
        due = now_seconds + draw_delay_seconds(ceiling, draw_up_to)
    return Replay(number, delay_seconds=max(0, due - now_seconds))


def _is_foreign(message: Message, main_queue: QueueAddress) -> bool:
    if message.source_arn is None:
        return False
    try:
        return QueueAddress.from_arn(message.source_arn) != main_queue
    except ValueError:
        return True


def _is_too_old(history: History, policy: ReplayPolicy, now_seconds: int) -> bool:
    if policy.max_age_seconds is None:
        return False
    return now_seconds - first_seen_seconds(history, now_seconds) > policy.max_age_seconds
