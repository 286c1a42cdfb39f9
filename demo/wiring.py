"""Builds the local world of one run, plays the scenario in it, and takes everything down again."""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from demo.audit import Account
from demo.consumer import Consumer
from demo.embedded_sqs import EmbeddedSqs
from demo.event_source import EventSource, Handler, Poller
from demo.follow import tell_of_waiting_and_parking
from demo.identity import DEMO_ID
from demo.journal import Journal
from demo.lambda_host import load_replay_handler
from demo.order import OrderBook
from demo.scenario import play
from demo.screen import Screen
from demo.spark import Spark
from demo.stage import Stage
from demo.tables import account_table
from demo.terminal import ignore_interrupts, viewer_only
from demo.workload import DemoMessage, Trait
from demo.world import (
    Queues,
    create_failure_table,
    create_queues,
    local_environment,
    make_client,
    replay_environment,
)
from dlq_replay.consumer.failures import FailureRecorder

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
        remarks: what the viewer should know before it begins.
        wrap_replay_handler: takes the real handler, gives the one to use; None for the real one.
    """

    messages: Sequence[DemoMessage]
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
    by_identity = {m.identity: m for m in cast.messages}
    journal = Journal({i: m.content.fingerprint for i, m in by_identity.items()})
    followed = _followed(cast.messages)
    create_failure_table()
    environment = replay_environment(queues)
    recorder = FailureRecorder.from_environment(environment)
    consumer = Consumer(journal, by_identity, screen.tell, followed, recorder)
    replay = load_replay_handler(environment, sys.stdout)
    if cast.wrap_replay_handler:
        replay = cast.wrap_replay_handler(replay)
    numbers = {i: by_identity[i].number for i in followed}
    replay = tell_of_waiting_and_parking(replay, numbers, screen.tell)
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
        consumer=consumer,
        pollers=[Poller(client, source, function, screen.tell) for source, function in driven],
        spark=Spark() if cast.with_spark else None,
        elapsed_seconds=screen.elapsed_seconds,
        order=order,
    )


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


def _followed(messages: Sequence[DemoMessage]) -> frozenset[str]:
    """One message that the outage hits and one that meets the bug: their stories are told."""
    # Without room for the context a redriven copy could not be told from a new message.
    with_room = [m for m in messages if DEMO_ID in m.content.attributes]
    firsts = {m.trait: m.identity for m in reversed(with_room)}
    return frozenset(firsts[t] for t in (Trait.NEEDS_PAYMENTS, Trait.BROKEN) if t in firsts)


def _close(stage: Stage, screen: Screen, account: Account) -> None:
    screen.title("4. Every message is accounted for")
    screen.show(account_table(account, stage.sent))
    pages = [stage.report / "report.html", stage.report]
    for page in [page for page in pages if page.exists()][:1]:
        screen.note(f"What Spark found: {page}")
    screen.note(f"Logs and metrics of the functions: {stage.work / FUNCTION_LOG}")
