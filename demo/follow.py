"""Tells the story of single messages as they pass through the replay function."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from demo.event_source import Handler
from demo.identity import Content, from_record
from demo.lambda_events import interpret
from demo.world import MAX_ATTEMPTS

Record = Mapping[str, Any]


def tell_of_waiting_and_parking(
    handler: Handler, numbers: Mapping[str, int], tell: Callable[[str], object]
) -> Handler:
    """Wrap *handler* so that *tell* hears what becomes of each message of *numbers*.

    It hears of those that are parked for they have no replay left, of canaries, which have none,
    and of those that stay in the DLQ, which on FIFO is how they wait.

    Args:
        handler: the replay function; event, context and answer pass through untouched.
        numbers: what the viewer calls the messages, by identity.
        tell: takes a sentence.
    """

    def telling(event: Mapping[str, Any], context: object) -> object:
        answer = handler(event, context)
        records: Sequence[Record] = event["Records"]
        left = interpret(answer, [record["messageId"] for record in records]).failed
        waiting = [record for record in records if record["messageId"] in left]
        for record in records:
            content = from_record(record)
            if content.identity not in numbers:
                continue
            fate = _fate(record, content, waiting)
            if fate:
                tell(f"message {numbers[content.identity]} {fate}")
        return answer

    return telling


def _fate(record: Record, content: Content, waiting: Sequence[Record]) -> str | None:
    replay_count = content.replay_count
    if record not in waiting and content.is_canary:
        return "is a canary that failed: it is parked at once"
    if record not in waiting:
        is_parked = replay_count >= MAX_ATTEMPTS
        fate = f"has failed after {replay_count} replays: it is parked for a human"
        return fate if is_parked else None
    group = record["attributes"].get("MessageGroupId")
    if group is None:
        return None
    its_group = [r for r in waiting if r["attributes"].get("MessageGroupId") == group]
    if its_group[0] is not record:
        return f"waits in the DLQ behind the head of its group, {group}"
    behind = f", and {len(its_group) - 1} behind it" if its_group[1:] else ""
    return f"waits for replay {replay_count + 1}, hidden in the DLQ, the head of {group}{behind}"
