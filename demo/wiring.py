"""Builds the local world of one run, plays the scenario in it, and takes everything down again."""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from demo.audit import Account
from demo.business import Business, OwnMessages, Payments, Shop
from demo.embedded_sqs import EmbeddedSqs
from demo.event_source import Handler, Poller
from demo.functions import WrapHandler, dlq_source, load_consumer, load_replay, main_source
from demo.journal import Journal
from demo.order import OrderBook
from demo.scenario import play
from demo.screen import Screen
from demo.spark import Spark
from demo.stage import Stage
from demo.tables import account_table
from demo.terminal import ignore_interrupts, viewer_only
from demo.workload import DemoMessage
from demo.world import (
    consumer_environment,
    create_queues,
    create_tables,
    local_environment,
    make_client,
    replay_environment,
)

FUNCTION_LOG = "functions.log"
SPARK_LOG = "spark.log"


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
    journal = Journal({m.identity: m.content.fingerprint for m in cast.messages})
    payments = Payments(screen.tell)
    business: Business = Shop(payments) if cast.is_invented else OwnMessages(payments)
    consumer: Handler = load_consumer(cast.messages, business, journal, screen.tell)
    replay = load_replay(cast.messages, screen.tell, cast.wrap_replay_handler, is_fifo=cast.is_fifo)
    order = OrderBook() if cast.is_fifo else None
    if order:
        consumer, replay = order.watch_main(consumer), order.watch_dlq(replay)
    return Stage(
        messages=cast.messages,
        work=cast.work,
        client=client,
        queues=queues,
        journal=journal,
        business=business,
        pollers=[
            Poller(client, main_source(queues), consumer, screen.tell),
            Poller(client, dlq_source(queues), replay, screen.tell),
        ],
        spark=Spark() if cast.with_spark else None,
        elapsed_seconds=screen.elapsed_seconds,
        order=order,
    )


def _close(stage: Stage, screen: Screen, account: Account) -> None:
    screen.title("5. Every message is accounted for")
    screen.show(account_table(account, stage.sent))
    pages = [stage.report / "report.html", stage.report]
    for page in [page for page in pages if page.exists()][:1]:
        screen.note(f"What Spark found: {page}")
    screen.note(f"Logs and metrics of the functions: {stage.work / FUNCTION_LOG}")
