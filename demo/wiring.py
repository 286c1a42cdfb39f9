"""Builds the local world of one run, plays the scenario in it, and takes everything down again."""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from demo.audit import Account
from demo.business import Business, OwnMessages, Payments, Shop
from demo.consumer import Consumer
from demo.embedded_sqs import EmbeddedSqs
from demo.event_source import EventSource, Handler, Poller
from demo.follow import tell_of_waiting_and_parking
from demo.identity import DEMO_ID
from demo.journal import Journal
from demo.lambda_host import cold_start, send_log
from demo.order import OrderBook
from demo.redelivery import delivering_twice
from demo.scenario import play
from demo.screen import Screen
from demo.spark import Spark
from demo.stage import Stage
from demo.tables import account_table
from demo.terminal import ignore_interrupts, viewer_only
from demo.workload import DemoMessage, Trait
from demo.world import (
    Queues,
    consumer_environment,
    create_queues,
    create_tables,
    local_environment,
    make_client,
    replay_environment,
)

FUNCTION_LOG = "functions.log"
SPARK_LOG = "spark.log"

WrapHandler = Callable[[Handler], Handler]


@dataclass(frozen=True, slots=True)
class Result:
    """What a run showed."""

    account: Account
    sent: Mapping[str, DemoMessage]
    seconds: float


@dataclass(frozen=True, slots=True)
class Cast:
    """What a run is made of.

    Attributes:
        is_invented: whether the messages are the demo's own invention.
        remarks: what the viewer should know before it begins.
        wrap_replay_handler: takes the real handler, gives the one to use; None for the real one.
    """

    messages: Sequence[DemoMessage]
    is_invented: bool
    remarks: Sequence[str]
    work: Path
    wrap_replay_handler: WrapHandler | None
    with_spark: bool
    is_fifo: bool


def run(cast: Cast) -> Result:
    """Play the whole demo. Whatever happens, no process and no thread of it stays.

    Raises:
        DemoError: the local world could not be set up.
    """
    started_seconds = time.monotonic()
    with ExitStack() as stack:
        out = stack.enter_context(viewer_only(cast.work / SPARK_LOG, cast.work / FUNCTION_LOG))
        screen = Screen(out, lambda: time.monotonic() - started_seconds)
        screen.note("Starting an SQS server on this machine ...")
        server = EmbeddedSqs(cast.work / FUNCTION_LOG)
        stack.callback(server.stop)
        stack.enter_context(local_environment(server.start()))
        stage = _build_stage(cast, screen)
        if stage.spark:
            stack.callback(stage.spark.stop)
        stack.callback(stage.stop_pollers)
        stack.enter_context(screen.watching(stage.look))
        stack.callback(ignore_interrupts)
        for remark in cast.remarks:
            screen.say(remark, "yellow")
        account = play(stage, screen)
        screen.close()
        _close(stage, screen, account)
        return Result(account, stage.sent, time.monotonic() - started_seconds)


def _build_stage(cast: Cast, screen: Screen) -> Stage:
    client = make_client()
    queues = create_queues(client, is_fifo=cast.is_fifo)
    create_tables()
    os.environ.update({**replay_environment(queues), **consumer_environment(queues)})
    by_identity = {m.identity: m for m in cast.messages}
    journal = Journal({i: m.content.fingerprint for i, m in by_identity.items()})
    followed = _followed(cast.messages)
    payments = Payments(screen.tell)
    business: Business = Shop(payments) if cast.is_invented else OwnMessages(payments)
    consumer = Consumer(
        cold_start("sample_consumer"),
        business,
        journal,
        by_identity,
        screen.tell,
        frozenset(m.identity for m in followed),
    )
    replay = _replay(cast, followed, screen.tell)
    order = OrderBook() if cast.is_fifo else None
    driven: list[tuple[EventSource, Handler]] = [
        (_main_source(queues), order.watch_main(consumer) if order else consumer),
        (_dlq_source(queues), order.watch_dlq(replay) if order else replay),
    ]
    return Stage(
        messages=cast.messages,
        work=cast.work,
        client=client,
        queues=queues,
        journal=journal,
        business=business,
        pollers=[Poller(client, source, function, screen.tell) for source, function in driven],
        spark=Spark() if cast.with_spark else None,
        elapsed_seconds=screen.elapsed_seconds,
        order=order,
    )


def _replay(cast: Cast, followed: Sequence[DemoMessage], tell: Callable[[str], object]) -> Handler:
    """The replay function, and around it what its viewers hear of it and what befalls it."""
    function = cold_start("replay")
    send_log(function, sys.stdout)
    replay: Handler = function.lambda_handler
    # FIFO removes the second copy by its deduplication id; there is nothing to see.
    if not cast.is_fifo:
        for message in followed:
            if message.trait is Trait.NEEDS_PAYMENTS:
                replay = delivering_twice(replay, message, tell)
    if cast.wrap_replay_handler:
        replay = cast.wrap_replay_handler(replay)
    return tell_of_waiting_and_parking(replay, {m.identity: m.number for m in followed}, tell)


def _main_source(queues: Queues) -> EventSource:
    return EventSource(queues.main, "consumer")


def _dlq_source(queues: Queues) -> EventSource:
    return EventSource(
        queues.dlq,
        "replay",
        batch_size=10 if queues.dlq.is_fifo else 50,
        window_seconds=0 if queues.dlq.is_fifo else 0.5,
        dead_letter_source_arn=queues.main.arn,
    )


def _followed(messages: Sequence[DemoMessage]) -> list[DemoMessage]:
    """One message that the outage hits and one that meets a bug: their stories are told."""
    # Without room for the context a redriven copy could not be told from a new message.
    with_room = [m for m in messages if DEMO_ID in m.content.attributes]
    firsts = {m.trait: m for m in reversed(with_room)}
    return [firsts[trait] for trait in (Trait.NEEDS_PAYMENTS, Trait.BROKEN) if trait in firsts]


def _close(stage: Stage, screen: Screen, account: Account) -> None:
    screen.title("4. Every message is accounted for")
    screen.show(account_table(account, stage.sent))
    pages = [stage.report / "report.html", stage.report]
    for page in [page for page in pages if page.exists()][:1]:
        screen.note(f"What Spark found: {page}")
    screen.note(f"Logs and metrics of the functions: {stage.work / FUNCTION_LOG}")
