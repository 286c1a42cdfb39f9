"""The steps of the demo: fail and back off, explain, try too early, fix, account."""

import time
from collections.abc import Callable
from typing import Any

from demo import DemoError
from demo.audit import Account, Evidence, account, read_archive, read_queue
from demo.context import RunContext
from demo.environment import (
    BACKOFF_CAP_SECONDS,
    DLQ_VISIBILITY_SECONDS,
    MAIN_MAX_RECEIVE_COUNT,
    MAX_ATTEMPTS,
    depth,
)
from demo.operator import CANARY_WAIT_SECONDS, STOPPED_BY_CANARY, Operator
from demo.producer import Refusal, produce
from demo.screen import Screen
from demo.spark import Spark
from dlq_replay.consumer.heartbeat import TIMEOUT_SECONDS

_SETTLE_SECONDS = 120.0
_SETTLE_SECONDS_PER_MESSAGE = 0.25
_REDRIVE_SECONDS = 30.0
_CHECK_SECONDS = 0.5
_SETTLED_CHECKS = 3
_HEARTBEAT_SECONDS = TIMEOUT_SECONDS
_PATIENCE_SECONDS = _HEARTBEAT_SECONDS + BACKOFF_CAP_SECONDS + DLQ_VISIBILITY_SECONDS


Viewer = Callable[[RunContext, Screen], object]
"""What the viewer does in the world once the bugs are mended; returns when they are done."""


def play(context: RunContext, screen: Screen, viewer: Viewer | None = None) -> Account:
    """Run all steps; return the account of every sent message.

    Args:
        context: of the run.
        screen: shows it.
        viewer: puts the messages back instead of the demo's own operator.
    """
    _break_and_back_off(context, screen)
    try:
        if context.spark is not None:
            _explain_and_put_right(context, screen, context.spark, is_left=viewer is not None)
        if viewer is not None:
            _leave_to(viewer, context, screen)
    except DemoError as error:
        screen.say(str(error), "red")
    context.phase = "accounting for every message"
    return _account(context, screen)


def _break_and_back_off(context: RunContext, screen: Screen) -> None:
    screen.title("1. Messages flow, and some fail")
    screen.note(
        f"functions/sample_consumer takes {len(context.messages)} messages from the main queue."
        " Some need a payments service that\nis down at first, some meet a bug;"
        f" it records why. After {MAIN_MAX_RECEIVE_COUNT} failed tries SQS moves a message to the\n"
        "dead-letter queue; the replay Lambda sends it back with a random, growing delay,"
        f" {MAX_ATTEMPTS} times at\nmost, and then parks it. While nearly all first replays of an"
        " error return, a circuit breaker holds\nmessages and sends one a second as a probe."
    )
    _note_fifo(context, screen)
    context.phase = "sending"
    for poller in context.pollers:
        poller.start()
    _send(context, screen)
    context.phase = "failing, backing off, coming back"
    limit = _SETTLE_SECONDS + _SETTLE_SECONDS_PER_MESSAGE * len(context.messages)
    _wait_until_settled(context, screen, limit)
    if context.spark is not None:
        # Where no breaker has opened.
        context.spark.warm_up()
    now = context.progress()
    screen.say(
        f"{now.processed} of {now.sent} are processed, {now.replayed} were replayed, "
        f"{now.parked.total} are parked",
        "yellow",
    )


def _note_fifo(context: RunContext, screen: Screen) -> None:
    if groups := {m.group for m in context.messages if m.group is not None}:
        screen.note(
            f"The queues are FIFO and {len(groups)} customers are message groups: behind one that"
            " fails its group fails, too.\nA FIFO queue has no message timers: in the dead-letter"
            " queue the head of a group waits hidden,\nand its group waits with it, so that it"
            " comes back in the order in which it failed."
        )


def _send(context: RunContext, screen: Screen) -> None:
    main = context.queues.main

    def send_batch(entries: list[dict[str, Any]]) -> dict[str, Any]:
        requests: Any = entries
        return dict(context.client.send_message_batch(QueueUrl=main.url, Entries=requests))

    for step in produce(context.messages, send_batch):
        if isinstance(step, Refusal):
            screen.say(f"message {step.message.number} was refused by SQS: {step.code}", "red")
        else:
            context.sent.update((m.identity, m) for m in step)
    screen.say(f"{len(context.sent)} messages are sent")


def _wait_until_settled(context: RunContext, screen: Screen, limit_seconds: float) -> None:
    deadline = time.monotonic() + limit_seconds
    settled_checks = 0
    while time.monotonic() < deadline:
        now = context.progress()
        settled_checks = settled_checks + 1 if now.is_settled else 0
        if now.processed == now.sent or settled_checks >= _SETTLED_CHECKS:
            return
        if settled_checks and now.processed + now.parked.total == now.sent:
            return
        time.sleep(_CHECK_SECONDS)
    screen.say(f"not settled after {limit_seconds:.0f} s: continuing", "red")


def _explain_and_put_right(
    context: RunContext, screen: Screen, spark: Spark, *, is_left: bool
) -> None:
    """Explain, try too early, and put right, unless that *is_left* to the viewer."""
    if not depth(context.client, context.queues.parked).total:
        screen.say("nothing is parked: there is nothing to explain")
        return
    operator = Operator(context, screen, spark)
    _explain(screen, operator)
    _try_too_early(context, screen, operator)
    if not is_left:
        _put_right(context, screen, operator)


def _leave_to(viewer: Viewer, context: RunContext, screen: Screen) -> None:
    screen.title("4. The bugs are mended: put the messages back yourself, in the console")
    screen.say(context.business.fix(), "green")
    context.phase = "the console is yours"
    viewer(context, screen)
    context.phase = "redriven messages are processed"
    _wait_until_settled(context, screen, _REDRIVE_SECONDS)


def _explain(screen: Screen, operator: Operator) -> None:
    screen.title(
        "2. Spark takes the parked messages into an archive and groups them by what failed"
    )
    operator.drain()
    operator.analyze()


def _try_too_early(context: RunContext, screen: Screen, operator: Operator) -> None:
    screen.title("3. The operator decides, and sends a canary before anything is mended")
    screen.note(
        "A canary is a few messages of each group that go ahead; a failure comes straight back."
        f" In this small\nworld {2 * CANARY_WAIT_SECONDS} s are enough to wait for it; without the"
        " forced wait it is what SQS may need, 180 s."
    )
    operator.approve()
    operator.preview(*operator.canary())
    operator.redrive("perhaps it works now", *operator.canary(), exit_codes=[STOPPED_BY_CANARY])
    screen.say("exit code 3: what the canary stopped stays in the archive, unsent", "yellow")
    context.phase = "the last canaries come back"
    _wait_until_settled(context, screen, _REDRIVE_SECONDS)
    if depth(context.client, context.queues.parked).total:
        operator.drain()


def _put_right(context: RunContext, screen: Screen, operator: Operator) -> None:
    screen.title("4. The bugs are mended: the next canary passes, and the rest follows")
    screen.say(context.business.fix(), "green")
    operator.analyze_again()
    operator.approve(shown=0)
    codes = [0, STOPPED_BY_CANARY]
    if operator.redrive("bugs fixed", *operator.canary(), exit_codes=codes) == STOPPED_BY_CANARY:
        # The canary cannot decide for a message without room for its mark, or on a slow machine.
        screen.say("the canary could not decide, but the operator knows that everything is fixed")
        operator.redrive("bugs fixed")
    context.phase = "redriven messages are processed"
    _wait_until_settled(context, screen, _REDRIVE_SECONDS)


def _account(context: RunContext, screen: Screen) -> Account:
    now = context.progress()
    context.stop_pollers()
    if not now.is_settled:
        screen.say("reading what is left in the queues")
    main, dlq, parked = (
        frozenset(c.identity for c in read_queue(context.client, queue, _PATIENCE_SECONDS))
        for queue in (context.queues.main, context.queues.dlq, context.queues.parked)
    )
    archived = frozenset(c.identity for c in read_archive(context.archive))
    evidence = Evidence(
        sightings=context.journal.sightings(),
        main=main,
        dlq=dlq,
        parked=parked,
        archived=archived,
        strangers=context.journal.strangers(),
        out_of_order=context.order.broken_groups() if context.order else None,
    )
    return account({i: m.content for i, m in context.sent.items()}, evidence)
