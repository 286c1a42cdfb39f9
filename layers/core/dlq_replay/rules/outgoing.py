"""The wire format of copies that leave the DLQ, and their size limits. Pure."""

import hashlib
from functools import lru_cache
from typing import Any

from dlq_replay.rules.policy import MAX_MESSAGE_BYTES, ReplayPolicy
from dlq_replay.wire.addresses import QueueAddress, is_queue_name
from dlq_replay.wire.attributes import MAX_ATTRIBUTES, Attributes, MessageAttribute, size_bytes
from dlq_replay.wire.context import CONTEXT_ATTRIBUTE, SECONDS_MAX, FailureError, ReplayContext
from dlq_replay.wire.message import REPLAY_COUNT_ATTRIBUTE, Message, SendEntry

DEDUPLICATION_ID_MAX_CHARACTERS = 128
"""SQSAPI, SendMessage."""

_WIDEST_COUNTER = "1000"
_WIDEST_QUEUE_NAME = "q" * 80


def has_room_for_counter(message: Message, replay_number: int, policy: ReplayPolicy) -> bool:
    """Return whether *message* can carry its counter once the context has given way."""
    most_bytes = policy.limits.main_max_bytes
    attributes = message.attributes
    had_both = CONTEXT_ATTRIBUTE in attributes and REPLAY_COUNT_ATTRIBUTE in attributes
    if had_both and most_bytes >= MAX_MESSAGE_BYTES:
        return True  # It was larger with its context, and no queue takes more than this.
    return _fits(message.body, _counted(message, replay_number), most_bytes)


def has_room_to_hold(message: Message, replay_number: int, policy: ReplayPolicy) -> bool:
    """Return whether *message* can carry its counter and a wait's context, also the breaker's."""
    held = _context(message, SECONDS_MAX, policy, due_seconds=SECONDS_MAX, held_seconds=SECONDS_MAX)
    counted = _counted(message, replay_number)
    most_bytes = min(policy.limits.main_max_bytes, policy.limits.dlq_max_bytes)
    return CONTEXT_ATTRIBUTE in _marked(message.body, counted, held, most_bytes)


def replay_entry(
    message: Message,
    replay_count: int,
    delay_seconds: int,
    now_seconds: int,
    policy: ReplayPolicy,
    held_seconds: int | None = None,
) -> SendEntry:
    """Return the copy for the main queue, with the counter and, if there is room, the context.

    A FIFO queue gets no timer, which it would refuse. *held_seconds* is since when a limit has
    applied to the message; None without a limit.
    """
    context = _context(message, now_seconds, policy, held_seconds=held_seconds, last_id=None)
    counted = _counted(message, replay_count)
    attributes = _marked(message.body, counted, context, policy.limits.main_max_bytes)
    # SQS removes a repeated send of this copy, and never another message.
    if policy.main_queue.is_fifo:
        return _entry(message, attributes, deduplication_id=message.message_id)
    return _entry(message, attributes, delay_seconds=delay_seconds)


def held_entry(
    message: Message,
    due_seconds: int,
    delay_seconds: int,
    now_seconds: int,
    policy: ReplayPolicy,
    *,
    by_breaker: bool = False,
) -> SendEntry:
    """Return the copy that goes back to a standard DLQ to wait, with ``due`` and the same counter.

    Ask ``has_room_to_hold`` first: without its context the copy would draw another delay.
    """
    held = message.history.context.held_seconds or (now_seconds if by_breaker else None)
    context = _context(message, now_seconds, policy, due_seconds=due_seconds, held_seconds=held)
    others = _without_context(message)
    attributes = _marked(message.body, others, context, policy.limits.dlq_max_bytes)
    return _entry(message, attributes, delay_seconds=delay_seconds)


def parked_entry(
    message: Message,
    reason: str,
    now_seconds: int,
    policy: ReplayPolicy,
    error: FailureError | None = None,
) -> SendEntry:
    """Return the copy for the parked queue: the counter unchanged, the reason in the context.

    The copy belongs to no step of a redrive any more. *error* is the consumer's record. Where the
    context has no room, the message goes as it is.
    """
    context = _context(message, now_seconds, policy, reason=reason, error=error, in_step=False)
    others = _without_context(message)
    attributes = _marked(message.body, others, context, policy.limits.parked_max_bytes)
    deduplication_id = message.message_id if policy.main_queue.is_fifo else None
    return _entry(message, attributes, deduplication_id)


def redriven_entry(
    message: Message,
    plan_id: str,
    to: QueueAddress,
    *,
    group_id: str | None = None,
    in_step: bool = False,
    max_message_bytes: int = MAX_MESSAGE_BYTES,
) -> SendEntry:
    """Return the copy that a redrive sends: a fresh start that remembers its origin.

    On FIFO the deduplication id is the archived copy's id with the plan's: sending it again within
    one plan is removed by SQS, a later plan's is not.

    Args:
        message: the archived copy.
        plan_id: the plan, which the context names beside the first id.
        to: the queue, whose dead letter it is from now on.
        group_id: the group for which its return is counted; None to count none.
        in_step: whether to park it at its first return. Ask ``has_room_for_redrive`` first.
        max_message_bytes: of the queue; where the context has no room it is left out.
    """
    context = ReplayContext(
        first_id=message.first_id,
        plan_id=plan_id,
        source_queue=to.name,
        body_digest=message.body_digest,
        group_id=group_id,
        in_step=in_step,
    )
    others = _without(message.attributes, CONTEXT_ATTRIBUTE, REPLAY_COUNT_ATTRIBUTE)
    return _entry(
        message,
        _marked(message.body, others, context, max_message_bytes),
        deduplication_id=_redrive_deduplication_id(message, plan_id, to_fifo=to.is_fifo),
    )


def has_room_for_redrive(
    message: Message, plan_id: str, max_message_bytes: int, group_id: str | None = None
) -> bool:
    """Return whether *message* has room for the counter and the widest context of the function.

    Without it a return could not be recognised.
    """
    widest = ReplayContext(
        first_id=message.first_id,
        first_seen_seconds=SECONDS_MAX,
        due_seconds=SECONDS_MAX,
        plan_id=plan_id,
        source_queue=message.history.context.source_queue or _WIDEST_QUEUE_NAME,
        held_seconds=SECONDS_MAX,
        body_digest=message.body_digest,
        group_id=group_id,
        is_back=True,
        in_step=True,
        last_id=message.message_id,
    )
    attributes = {
        **message.attributes,
        REPLAY_COUNT_ATTRIBUTE: MessageAttribute("Number", _WIDEST_COUNTER),
        CONTEXT_ATTRIBUTE: MessageAttribute("String", widest.to_json()),
    }
    return _fits(message.body, attributes, max_message_bytes)


def restored_entry(message: Message, plan_id: str, *, to_fifo: bool) -> SendEntry:
    """Return the copy for the parked queue, with counter and context as they were archived."""
    return _entry(
        message,
        message.attributes,
        deduplication_id=_redrive_deduplication_id(message, plan_id, to_fifo=to_fifo),
    )


def first_seen_seconds(message: Message, now_seconds: int) -> int:
    """Return the recorded time of the dead letter's first sighting, epoch seconds; else now."""
    recorded = message.history.context.first_seen_seconds
    return now_seconds if recorded is None else recorded


def source_queue(message: Message, policy: ReplayPolicy) -> QueueAddress | None:
    """Return the queue of which it is a dead letter, configured or not; None if that is unknown.

    SQS names the source only on a copy that its redrive policy moved. On any other (a held copy, a
    direct send, a copy of a message move task) ``src`` in the context does. Any producer can
    write that, so a message is replayed only to a source that is configured; a held copy of a
    queue that is no longer configured is not taken for one of the main queue either. Without both
    it is the main queue's, unless others are configured: then it is unknown.
    """
    arn = message.source_arn
    if arn is not None:
        try:
            return QueueAddress.from_arn(arn)
        except ValueError:
            return None
    name = message.history.context.source_queue
    if name is not None:
        return QueueAddress(policy.main_queue.account_id, name)
    has_one_source = policy.takes_unnamed and not policy.other_main_queues
    return policy.main_queue if has_one_source else None


def _context(
    message: Message,
    now_seconds: int,
    policy: ReplayPolicy,
    **changes: Any,  # noqa: ANN401 - fields of the context
) -> ReplayContext:
    """Return the context that each copy of the function carries, with *changes*.

    It names the source queue, because SQS does not on a copy that was sent; with one main queue,
    too: a copy that is held while another is being configured must not lose its source.
    """
    before = message.history.context
    source = source_queue(message, policy)
    fields: dict[str, Any] = {
        "first_id": before.first_id or message.message_id,
        "first_seen_seconds": first_seen_seconds(message, now_seconds),
        "plan_id": before.plan_id,
        "source_queue": source.name if source and is_queue_name(source.name) else None,
        "body_digest": message.body_digest,
        "group_id": before.group_id,
        "is_back": before.is_back,
        "in_step": before.in_step,
        # A copy that SQS moved keeps the id under which the consumer saw it.
        "last_id": before.last_id if message.source_arn is None else message.message_id,
    }
    return ReplayContext(**(fields | changes))


def _entry(
    message: Message,
    attributes: Attributes,
    deduplication_id: str | None = None,
    delay_seconds: int | None = None,
) -> SendEntry:
    return SendEntry(
        body=message.body,
        attributes=attributes,
        message_group_id=message.message_group_id,
        deduplication_id=deduplication_id,
        trace_header=message.trace_header,
        delay_seconds=delay_seconds,
    )


def _redrive_deduplication_id(message: Message, plan_id: str, *, to_fifo: bool) -> str | None:
    text = f"{message.message_id}:{plan_id}"
    if len(text) > DEDUPLICATION_ID_MAX_CHARACTERS:
        text = hashlib.sha256(text.encode()).hexdigest()
    return text if to_fifo else None


def _counted(message: Message, replay_count: int) -> dict[str, MessageAttribute]:
    counted = {**message.attributes, REPLAY_COUNT_ATTRIBUTE: _counter(replay_count)}
    counted.pop(CONTEXT_ATTRIBUTE, None)
    return counted


@lru_cache
def _counter(replay_count: int) -> MessageAttribute:
    return MessageAttribute("Number", str(replay_count))


def _marked(
    body: str, attributes: Attributes, context: ReplayContext, max_message_bytes: int
) -> Attributes:
    marked = {**attributes, CONTEXT_ATTRIBUTE: MessageAttribute("String", context.to_json())}
    return marked if _fits(body, marked, max_message_bytes) else attributes


def _without_context(message: Message) -> dict[str, MessageAttribute]:
    """Return the attributes without our context, and without a counter that is not its own."""
    counter = [REPLAY_COUNT_ATTRIBUTE] if message.history.is_inherited else []
    return _without(message.attributes, CONTEXT_ATTRIBUTE, *counter)


def _without(attributes: Attributes, *names: str) -> dict[str, MessageAttribute]:
    return {key: value for key, value in attributes.items() if key not in names}


def _fits(body: str, attributes: Attributes, max_message_bytes: int) -> bool:
    has_slots = len(attributes) <= MAX_ATTRIBUTES
    return has_slots and size_bytes(body, attributes) <= max_message_bytes
