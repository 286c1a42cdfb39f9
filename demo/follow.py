"""Tells the story of single messages as they pass through the replay function."""

from collections.abc import Callable, Mapping
from typing import Any

from demo.event_source import Handler
from demo.identity import from_record
from demo.world import MAX_ATTEMPTS


def tell_of_parking(
    handler: Handler, numbers: Mapping[str, int], tell: Callable[[str], object]
) -> Handler:
    """Wrap *handler* so that *tell* hears of each message of *numbers* that has no replay left.

    Args:
        handler: the replay function; event, context and answer pass through untouched.
        numbers: what the viewer calls the messages, by identity.
        tell: takes a sentence.
    """

    def telling(event: Mapping[str, Any], context: object) -> object:
        answer = handler(event, context)
        for content in map(from_record, event["Records"]):
            if content.identity in numbers and content.replay_count >= MAX_ATTEMPTS:
                tell(
                    f"message {numbers[content.identity]} has failed after "
                    f"{content.replay_count} replays: it is parked for a human"
                )
        return answer

    return telling
