"""Loads the two functions as a cold start does, and shows what they do."""

import importlib.util
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, TextIO

from demo import ROOT, DemoError
from demo.audit import Journal
from demo.breakers import Notify, with_demo_breakers
from demo.business import Business
from demo.consumer import Consumer
from demo.environment import MAX_ATTEMPTS, Queues
from demo.event_source import EventSource, Handler, interpret
from demo.identity import DEMO_ID, Content, from_record
from demo.workload import DemoMessage, Trait

Record = Mapping[str, Any]

WrapHandler = Callable[[Handler], Handler]


def cold_start(function: str) -> Any:  # noqa: ANN401 - a module is what it defines
    """Load ``functions/<function>/handler.py`` again and return the module.

    It reads its settings from the current ``os.environ``.
    """
    path = ROOT / "functions" / function / "handler.py"
    spec = importlib.util.spec_from_file_location(f"demo_{function}_handler", path)
    if spec is None or spec.loader is None:
        raise DemoError(f"{path} could not be loaded.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def send_log(module: Any, log: TextIO) -> None:  # noqa: ANN401 - as above
    """Make the Powertools logger of a function write to *log*.

    Its metrics are printed to ``sys.stdout`` of the polling thread.
    """
    for handler in module.logger.handlers:
        if isinstance(handler, logging.StreamHandler):
            handler.setStream(log)


def notify_of_waiting_and_parking(
    handler: Handler, numbers: Mapping[str, int], notify: Notify
) -> Handler:
    """Wrap *handler* so that it calls *notify* about some messages of *numbers*.

    These are messages that are parked because they have no replay left, canaries, which have none,
    and messages that stay in the DLQ, which on FIFO is how they wait.

    Args:
        handler: the replay function; event, context and answer pass through untouched.
        numbers: the number of each message, by identity.
        notify: shows a sentence to the user.
    """

    def notifying(event: Mapping[str, Any], context: object) -> object:
        answer = handler(event, context)
        records: Sequence[Record] = event["Records"]
        left = interpret(answer, [record["messageId"] for record in records]).failed
        waiting = [record for record in records if record["messageId"] in left]
        for record in records:
            content = from_record(record)
            if content.identity not in numbers:
                continue
            state = _describe(record, content, waiting)
            if state:
                notify(f"message {numbers[content.identity]} {state}")
        return answer

    return notifying


def _describe(record: Record, content: Content, waiting: Sequence[Record]) -> str | None:
    replay_count = content.replay_count
    if record not in waiting and content.is_canary:
        return "is a canary that failed: it is parked at once"
    if record not in waiting:
        is_parked = replay_count >= MAX_ATTEMPTS
        state = f"has failed after {replay_count} replays: it is parked"
        return state if is_parked else None
    group = record["attributes"].get("MessageGroupId")
    if group is None:
        return None
    its_group = [r for r in waiting if r["attributes"].get("MessageGroupId") == group]
    if its_group[0] is not record:
        return f"waits in the DLQ behind the head of its group, {group}"
    behind = f", and {len(its_group) - 1} behind it" if its_group[1:] else ""
    return f"waits for replay {replay_count + 1}, hidden in the DLQ, the head of {group}{behind}"


def delivering_twice(handler: Handler, message: DemoMessage, notify: Notify) -> Handler:
    """Wrap the replay function so that the first delivery of *message* happens twice.

    Both deliveries are replayed, so two copies of the message exist after that.
    """
    is_over = False

    def delivering(event: Mapping[str, Any], context: object) -> object:
        nonlocal is_over
        answer = handler(event, context)
        again = [r for r in event["Records"] if from_record(r).identity == message.identity]
        if again and not is_over:
            is_over = True
            notify(f"SQS delivers message {message.number} to the replay Lambda twice, as it may")
            handler({"Records": again}, context)
        return answer

    return delivering


def followed_of(messages: Sequence[DemoMessage]) -> list[DemoMessage]:
    """Return a message that needs payments and one with a bug; their steps are shown."""
    # Without room for the context, a redriven copy cannot be distinguished from a new message.
    with_room = [m for m in messages if DEMO_ID in m.content.attributes]
    firsts = {m.trait: m for m in reversed(with_room)}
    return [firsts[trait] for trait in (Trait.NEEDS_PAYMENTS, Trait.BROKEN) if trait in firsts]


def load_consumer(
    messages: Sequence[DemoMessage], business: Business, journal: Journal, notify: Notify
) -> Consumer:
    """Return the sample consumer, with the work of this run."""
    return Consumer(
        function=cold_start("sample_consumer"),
        business=business,
        journal=journal,
        messages={m.identity: m for m in messages},
        notify=notify,
        followed=frozenset(m.identity for m in followed_of(messages)),
    )


def load_replay(
    messages: Sequence[DemoMessage],
    notify: Notify,
    wrap: WrapHandler | None,
    on_breaker_opened: Callable[[], object],
    on_probe_returned: Callable[[str], object],
    *,
    is_fifo: bool,
) -> Handler:
    """Return the replay function, with a second delivery of a message and with notices.

    Its circuit breakers are those of ``breakers``.

    Args:
        messages: those of the run.
        notify: shows an event to the user.
        wrap: takes the real handler, returns the one to use; None: the real one.
        on_breaker_opened: called each time that a circuit breaker opens.
        on_probe_returned: called with the error type of each probe that came back.
        is_fifo: if True there is no second delivery, because FIFO would remove its copies.
    """
    function = cold_start("replay")
    send_log(function, sys.stdout)
    wire = function.wired_replayer
    function.wired_replayer = cache(
        lambda: with_demo_breakers(wire(), messages, notify, on_breaker_opened, on_probe_returned)
    )
    handler: Handler = function.lambda_handler
    followed = followed_of(messages)
    for message in followed:
        if message.trait is Trait.NEEDS_PAYMENTS and not is_fifo:
            handler = delivering_twice(handler, message, notify)
    if wrap:
        handler = wrap(handler)
    return notify_of_waiting_and_parking(handler, {m.identity: m.number for m in followed}, notify)


def main_source(queues: Queues) -> EventSource:
    """Return the event source mapping of the consumer."""
    return EventSource(queues.main, "consumer")


def dlq_source(queues: Queues) -> EventSource:
    """Return the event source mapping of the replay function."""
    return EventSource(
        queues.dlq,
        "replay",
        batch_size=10 if queues.dlq.is_fifo else 50,
        window_seconds=0 if queues.dlq.is_fifo else 0.5,
    )
