"""The rules: one message, the policy, the time and a source of randomness give one decision.

Pure, and the only place that decides. The rules are in their order; the first that applies wins.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from dlq_replay.backoff import DrawUpTo, reproducible_draw
from dlq_replay.rules.breaker import BreakerView
from dlq_replay.rules.failures import Failure
from dlq_replay.rules.outgoing import (
    first_seen_seconds,
    has_room_for_counter,
    has_room_to_hold,
    source_queue,
)
from dlq_replay.rules.policy import EXPIRY_MARGIN_SECONDS, ReplayPolicy
from dlq_replay.wire.message import Message

_VISIBILITY_HOLD_MAX_SECONDS = 39_600
"""11 hours. SQS ends a message's invisibility 12 hours after the receive, whatever is asked for."""


class ParkReason(StrEnum):
    """The reason why a person must see it."""

    FOREIGN_SOURCE = "foreign_source"
    INVALID_COUNTER = "invalid_counter"
    REDRIVE_STEP = "redrive_step"
    ATTEMPTS_EXHAUSTED = "attempts_exhausted"
    TOO_OLD = "too_old"
    NON_RETRYABLE = "non_retryable"
    NO_ROOM = "no_room"


# As with ``ReplayContext``, a frozen dataclass would take three times as long to make.
class Replay(NamedTuple):
    """Send it to the main queue again.

    Attributes:
        number: which replay this is, counted from 1.
        delay_seconds: how long it stays hidden, 0 to 900; always 0 to a FIFO queue.
        is_granted: whether a limit of the circuit breaker lets it through.
        is_counted: whether the copy carries *number* as its counter; else the counter as it was.
    """

    number: int
    delay_seconds: int
    is_granted: bool = False
    is_counted: bool = True


@dataclass(frozen=True, slots=True)
class Park:
    """Stop trying: send it to the parked queue."""

    reason: ParkReason


@dataclass(frozen=True, slots=True)
class Hold:
    """Let it wait on in the DLQ: it is not due for longer than a message timer reaches.

    Attributes:
        number: the replay it waits for, counted from 1; the counter does not rise yet.
        due_seconds: when the wait ends, epoch seconds.
        wait_seconds: until the next look: 1 to 900 on a standard queue (a delayed re-send), to
            39,600 on FIFO (visibility).
        by_breaker: whether a limit of the circuit breaker turned its replay away.
    """

    number: int
    due_seconds: int
    wait_seconds: int
    by_breaker: bool = False


Decision = Replay | Hold | Park


def decide(
    message: Message,
    policy: ReplayPolicy,
    now_seconds: int,
    draw_up_to: DrawUpTo,
    failure: Failure | None = None,
) -> Decision:
    """Decide what happens to *message* now. Never raises for anything a message contains.

    *policy* is that of its source queue: ``ReplayPolicy.of``. A message of another queue is parked.
    *failure* is its consumer's record of the copy that it saw last, None where nothing is known.
    """
    reason = _reason_to_park(message, policy, now_seconds, failure)
    if reason is not None:
        return Park(reason)

    number = (message.history.replay_count or 0) + 1
    if policy.main_queue.is_fifo:
        return _replay_or_hold_fifo(message, number, policy, now_seconds)

    due = _due_seconds(message, number, policy, now_seconds, draw_up_to)
    remaining = max(0, due - now_seconds)
    if remaining <= policy.limits.replay_timer_max_seconds:
        return Replay(number, remaining)
    return Hold(number, due, min(policy.limits.hold_timer_max_seconds, remaining))


def hold_by_breaker(
    message: Message,
    replay: Replay,
    policy: ReplayPolicy,
    draw_up_to: DrawUpTo,
    view: BreakerView,
) -> Hold | None:
    """Decide how long the limit holds a message that the rules would replay.

    Returns:
        None where the limit does not apply: not to such a message, or it has touched it for 11 to
        12 hours already, or holding risks that the message is lost or forgets what it waits for.
    """
    if not view.applies_to(message):
        return None

    now_seconds = view.now_seconds
    least, most = view.rules.hold_limit_seconds
    limits_end = view.held_since_seconds(message) + least
    limits_end += reproducible_draw(message.first_id, 0)(most - least)

    drawn = view.hold_seconds(draw_up_to)
    wait = min(limits_end - now_seconds, max(drawn, replay.delay_seconds))
    due = now_seconds + wait
    if wait <= 0:
        return None

    if policy.main_queue.is_fifo:
        timer = wait
        can_hold = _outlives(message, due, now_seconds, policy)
    else:
        timer = min(policy.limits.hold_timer_max_seconds, wait)
        can_hold = timer > 0 and has_room_to_hold(message, replay.number, policy)
    return Hold(replay.number, due, timer, by_breaker=True) if can_hold else None


def returned_in_step(message: Message) -> bool:
    """Return whether SQS moved it here, and its step of a redrive is not proven yet."""
    context = message.history.context
    in_step = context.in_step and context.plan_id is not None
    return in_step and message.source_arn is not None


def _outlives(message: Message, due_seconds: int, now_seconds: int, policy: ReplayPolicy) -> bool:
    """Return whether a message that waits in place will still be there at *due_seconds*."""
    if message.sent_seconds is None:
        return False
    expires = min(now_seconds, int(message.sent_seconds)) + policy.limits.dlq_retention_seconds
    return due_seconds <= expires - EXPIRY_MARGIN_SECONDS


def _reason_to_park(  # noqa: PLR0911 - one for each rule
    message: Message,
    policy: ReplayPolicy,
    now_seconds: int,
    failure: Failure | None,
) -> ParkReason | None:
    replay_count = message.history.replay_count
    if source_queue(message, policy) != policy.main_queue:
        return ParkReason.FOREIGN_SOURCE
    if replay_count is None:
        return ParkReason.INVALID_COUNTER
    if returned_in_step(message):
        return ParkReason.REDRIVE_STEP
    if replay_count >= policy.max_attempts:
        return ParkReason.ATTEMPTS_EXHAUSTED

    if policy.max_age_seconds is not None:
        age_seconds = now_seconds - first_seen_seconds(message, now_seconds)
        if age_seconds > policy.max_age_seconds:
            return ParkReason.TOO_OLD

    if failure is not None and failure.matches(policy.non_retryable_errors):
        return ParkReason.NON_RETRYABLE

    has_room = has_room_for_counter(message, replay_count + 1, policy)
    return None if has_room else ParkReason.NO_ROOM


def _due_seconds(
    message: Message,
    number: int,
    policy: ReplayPolicy,
    now_seconds: int,
    draw_up_to: DrawUpTo,
) -> int:
    ceiling = policy.backoff.ceiling_seconds(number)
    timer_max = policy.limits.replay_timer_max_seconds
    is_kept = policy.limits.hold_timer_max_seconds > 0
    if ceiling > timer_max and not (is_kept and has_room_to_hold(message, number, policy)):
        # The ceiling is clamped, never the drawn delay: a wait stays uniform up to its ceiling.
        ceiling = timer_max

    stored = message.due_seconds
    if stored is not None and stored <= now_seconds + ceiling:
        return stored
    return now_seconds + draw_up_to(ceiling)


def _replay_or_hold_fifo(
    message: Message, number: int, policy: ReplayPolicy, now_seconds: int
) -> Replay | Hold:
    """FIFO queues refuse message timers, so the copy waits in place, by visibility.

    ``due`` is the time it entered the DLQ plus a draw that every look repeats. A copy that would
    expire first goes on as if due.
    """
    if message.sent_seconds is None:
        return Replay(number, delay_seconds=0)

    entered = min(now_seconds, int(message.sent_seconds))  # The clock of SQS may be ahead.
    draw = reproducible_draw(message.message_id, number)
    due = entered + draw(policy.backoff.ceiling_seconds(number))
    if due <= now_seconds or not _outlives(message, due, now_seconds, policy):
        return Replay(number, delay_seconds=0)
    return Hold(number, due, min(_VISIBILITY_HOLD_MAX_SECONDS, due - now_seconds))
