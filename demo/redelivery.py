"""SQS delivers at least once: here is the once more."""

from collections.abc import Callable, Mapping
from typing import Any

from demo.event_source import Handler
from demo.identity import from_record
from demo.workload import DemoMessage


def delivering_twice(
    handler: Handler, message: DemoMessage, tell: Callable[[str], object]
) -> Handler:
    """Wrap the replay function so that *message* is delivered to it twice, the first time it comes.

    Both deliveries are replayed, so that from then on two copies of one message are under way.
    """
    is_over = False

    def delivering(event: Mapping[str, Any], context: object) -> object:
        nonlocal is_over
        answer = handler(event, context)
        again = [r for r in event["Records"] if from_record(r).identity == message.identity]
        if again and not is_over:
            is_over = True
            tell(f"SQS delivers message {message.number} to the replay Lambda twice, as it may")
            handler({"Records": again}, context)
        return answer

    return delivering
