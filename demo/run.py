"""One run, from its options to its exit code: sets up, runs the scenario, cleans up."""

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from demo import DemoError, InputError
from demo.arguments import Options, parse_options, work_folder
from demo.audit import PROCESSED, Account, FinalState, Journal
from demo.business import Business, OwnMessages, Payments, Shop
from demo.console import console_command, open_console
from demo.context import RunContext
from demo.environment import (
    consumer_environment,
    create_queues,
    create_tables,
    local_environment,
    make_client,
    replay_environment,
)
from demo.event_source import Handler, Poller
from demo.functions import WrapHandler, dlq_source, load_consumer, load_replay, main_source
from demo.local_aws import LocalAws
from demo.order import OrderBook
from demo.scenario import play
from demo.screen import Screen, account_table, names
from demo.spark import Spark
from demo.terminal import ignore_interrupts, viewer_only
from demo.workload import DemoMessage, Loaded, load

FUNCTION_LOG = "functions.log"
SPARK_LOG = "spark.log"
_CONSUMERS = 2
"""Execution environments of the consumer, as Lambda starts them; one on FIFO."""

EXIT_OK = 0
EXIT_NOT_ALL_WELL = 1
EXIT_BAD_INPUT = 2


def play_command(
    argv: Sequence[str] | None, wrap_replay_handler: WrapHandler | None, *, with_spark: bool
) -> int:
    """Run the demo with the options of *argv*; see ``demo.__main__.main``."""
    options = parse_options(argv)
    try:
        loaded = load(options)
        with work_folder(options.folder) as work:
            return _run(options, loaded, work, wrap_replay_handler, with_spark=with_spark)
    except InputError as error:
        return _fail(str(error), EXIT_BAD_INPUT)
    except DemoError as error:
        return _fail(str(error), EXIT_NOT_ALL_WELL)


def _run(
    options: Options,
    loaded: Loaded,
    work: Path,
    wrap_replay_handler: WrapHandler | None,
    *,
    with_spark: bool,
) -> int:
    """Run the demo. It always ends all its processes and threads."""
    started_seconds = time.monotonic()
    with ExitStack() as stack:
        out = stack.enter_context(viewer_only(work / SPARK_LOG, work / FUNCTION_LOG))
        screen = Screen(out, lambda: time.monotonic() - started_seconds)
        screen.note("Starting an SQS server on this machine ...")
        aws = LocalAws(work / FUNCTION_LOG)
        stack.callback(aws.stop)
        stack.enter_context(local_environment(aws.start()))
        spark = Spark() if with_spark else None
        if spark:
            stack.callback(spark.stop)
        context = _build_context(options, loaded.messages, work, wrap_replay_handler, spark, screen)
        stack.callback(context.stop_pollers)
        stack.enter_context(screen.watching(context.progress))
        stack.callback(ignore_interrupts)
        for remark in loaded.remarks:
            screen.say(remark, "yellow")
        account = play(context, screen, open_console if options.has_console else None)
        screen.close()
        _close(context, screen, account)
        seconds = time.monotonic() - started_seconds
    return _conclude(account, context.sent, seconds, is_viewers=options.has_console)


def _build_context(
    options: Options,
    messages: Sequence[DemoMessage],
    work: Path,
    wrap_replay_handler: WrapHandler | None,
    spark: Spark | None,
    screen: Screen,
) -> RunContext:
    client = make_client()
    queues = create_queues(client, is_fifo=options.is_fifo)
    create_tables()
    os.environ.update({**replay_environment(queues), **consumer_environment(queues)})
    journal = Journal({m.identity: m.content.fingerprint for m in messages})
    payments = Payments(screen.notify_once)
    business: Business = Shop(payments) if options.input_path is None else OwnMessages(payments)
    consumers: list[Handler] = [
        load_consumer(messages, business, journal, screen.notify_once)
        for _ in range(1 if options.is_fifo else _CONSUMERS)
    ]
    replay = load_replay(
        messages,
        screen.notify_once,
        wrap_replay_handler,
        # While the breaker is open the functions have little to do: their cores are free.
        spark.warm_up if spark else lambda: None,
        payments.note_probe_return,
        is_fifo=options.is_fifo,
    )
    order = OrderBook() if options.is_fifo else None
    if order:
        consumers, replay = [*map(order.watch_main, consumers)], order.watch_dlq(replay)
    return RunContext(
        messages=messages,
        work=work,
        client=client,
        queues=queues,
        journal=journal,
        business=business,
        pollers=[
            *(Poller(client, main_source(queues), one, screen.notify_once) for one in consumers),
            Poller(client, dlq_source(queues), replay, screen.notify_once),
        ],
        spark=spark,
        elapsed_seconds=screen.elapsed_seconds,
        order=order,
    )


def _close(context: RunContext, screen: Screen, account: Account) -> None:
    screen.title("5. Every message is accounted for")
    screen.show(account_table(account, context.sent))
    if context.report:
        screen.note(f"The report: {context.report}")
        screen.note(
            f"The same in a browser, with more: {console_command(context)}\n"
            "The local queues end with this demo; make demo CONSOLE=1 keeps them while you put the "
            "messages back."
        )
    screen.note(f"Logs and metrics of the functions: {context.work / FUNCTION_LOG}")


def _conclude(
    account: Account, sent: Mapping[str, DemoMessage], seconds: float, *, is_viewers: bool
) -> int:
    """Print the numbers; return the exit code.

    What the viewer leaves in the archive, or edits, is no fault: then only a loss is one.
    """
    faults = [FinalState.LOST] if is_viewers else FinalState
    for state in faults:
        if state not in PROCESSED and account.in_state(state):
            _fail(f"{state.value}: {names(account, sent, state)}.", EXIT_NOT_ALL_WELL)
    if account.altered and not is_viewers:
        _fail(f"altered on the way: {', '.join(sorted(account.altered))}.", EXIT_NOT_ALL_WELL)
    if account.out_of_order:
        groups = ", ".join(sorted(account.out_of_order))
        _fail(f"dead letters came back out of order in: {groups}.", EXIT_NOT_ALL_WELL)
    summary = {**account.summary(), "seconds": round(seconds, 1)}
    sys.stdout.write(json.dumps(summary) + "\n")
    sys.stdout.flush()
    is_well = account.is_all_well or (is_viewers and not account.in_state(FinalState.LOST))
    return EXIT_OK if is_well else EXIT_NOT_ALL_WELL


def _fail(sentence: str, exit_code: int) -> int:
    sys.stderr.write(f"{sentence}\n")
    return exit_code
