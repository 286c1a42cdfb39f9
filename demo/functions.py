"""The two functions of the stack: loaded, each behind its queue, and watched."""

import sys
from collections.abc import Callable, Sequence

from demo.business import Business
from demo.consumer import Consumer
from demo.event_source import EventSource, Handler
from demo.follow import tell_of_waiting_and_parking
from demo.identity import DEMO_ID
from demo.journal import Journal
from demo.lambda_host import cold_start, send_log
from demo.redelivery import delivering_twice
from demo.workload import DemoMessage, Trait
from demo.world import Queues

Tell = Callable[[str], object]
"""Takes what a viewer should know."""

WrapHandler = Callable[[Handler], Handler]


def followed_of(messages: Sequence[DemoMessage]) -> list[DemoMessage]:
    """One message that the outage hits and one that meets a bug: their stories are told."""
    # Without room for the context a redriven copy could not be told from a new message.
    with_room = [m for m in messages if DEMO_ID in m.content.attributes]
    firsts = {m.trait: m for m in reversed(with_room)}
    return [firsts[trait] for trait in (Trait.NEEDS_PAYMENTS, Trait.BROKEN) if trait in firsts]


def load_consumer(
    messages: Sequence[DemoMessage], business: Business, journal: Journal, tell: Tell
) -> Consumer:
    """The sample consumer, with the work of this run."""
    return Consumer(
        function=cold_start("sample_consumer"),
        business=business,
        journal=journal,
        messages={m.identity: m for m in messages},
        tell=tell,
        followed=frozenset(m.identity for m in followed_of(messages)),
    )


def load_replay(
    messages: Sequence[DemoMessage], tell: Tell, wrap: WrapHandler | None, *, is_fifo: bool
) -> Handler:
    """The replay function, with what befalls it and what a viewer hears of it.

    Args:
        messages: those of the run.
        tell: takes what a viewer should know.
        wrap: takes the real handler, gives the one to use; None for the real one.
        is_fifo: FIFO removes the copies of a second delivery, so that there is nothing to see.
    """
    function = cold_start("replay")
    send_log(function, sys.stdout)
    handler: Handler = function.lambda_handler
    followed = followed_of(messages)
    for message in followed:
        if message.trait is Trait.NEEDS_PAYMENTS and not is_fifo:
            handler = delivering_twice(handler, message, tell)
    if wrap:
        handler = wrap(handler)
    return tell_of_waiting_and_parking(handler, {m.identity: m.number for m in followed}, tell)


def main_source(queues: Queues) -> EventSource:
    """The event source mapping of the consumer."""
    return EventSource(queues.main, "consumer")


def dlq_source(queues: Queues) -> EventSource:
    """The event source mapping of the replay function."""
    return EventSource(
        queues.dlq,
        "replay",
        batch_size=10 if queues.dlq.is_fifo else 50,
        window_seconds=0 if queues.dlq.is_fifo else 0.5,
        dead_letter_source_arn=queues.main.arn,
    )
