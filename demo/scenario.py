"""The acts of the demo: break and back off, explain, try too early, put right, account."""

import time
from typing import Any

from demo.audit import Account, Evidence, account, read_archive, read_queue
from demo.business import OUTAGE_SECONDS
from demo.desk import CANARY_WAIT_SECONDS, STOPPED_BY_CANARY, Desk
from demo.errors import DemoError
from demo.producer import Refusal, produce
from demo.screen import Screen
from demo.spark import Spark
from demo.stage import Stage
from demo.world import (
    BACKOFF_CAP_SECONDS,
    DLQ_VISIBILITY_SECONDS,
    MAIN_MAX_RECEIVE_COUNT,
    MAX_ATTEMPTS,
    depth,
)
from dlq_replay.consumer.heartbeat import HeartbeatConfig

MAIN_QUEUE_ROOM = 150
"""The producer waits above it: the embedded server slows with the length of a queue."""

_SETTLE_SECONDS = 60.0
_SETTLE_SECONDS_PER_MESSAGE = 0.25
_REDRIVE_SECONDS = 30.0
_LOOK_EVERY_SECONDS = 0.5
_QUIET_LOOKS = 3
_HEARTBEAT_SECONDS = HeartbeatConfig().timeout_seconds
_PATIENCE_SECONDS = _HEARTBEAT_SECONDS + BACKOFF_CAP_SECONDS + DLQ_VISIBILITY_SECONDS


def play(stage: Stage, screen: Screen) -> Account:
    """Play all acts; return what became of every message that was sent."""
    _break_and_back_off(stage, screen)
    if stage.spark is not None:
        try:
            _explain_and_put_right(stage, screen, stage.spark)
        except DemoError as error:
            screen.say(str(error), "red")
    stage.phase = "accounting for every message"
    return _account(stage, screen)


def _break_and_back_off(stage: Stage, screen: Screen) -> None:
    screen.title("1. Messages flow, and some fail")
    screen.note(
        f"functions/sample_consumer takes {len(stage.messages)} messages from the main queue. Some"
        f" need a payments service that\nis down for {OUTAGE_SECONDS:.0f} s, some meet a bug; it"
        f" records why. After {MAIN_MAX_RECEIVE_COUNT} failed looks SQS moves a message to the\n"
        "dead-letter queue; the replay Lambda sends it back with a random, growing delay,"
        f" {MAX_ATTEMPTS} times at\nmost, and then parks it."
    )
    _note_fifo(stage, screen)
    stage.phase = "sending"
    for poller in stage.pollers:
        poller.start()
    _send(stage, screen)
    if stage.spark is not None:
        stage.spark.warm_up()
    stage.phase = "failing, backing off, coming back"
    limit = _SETTLE_SECONDS + _SETTLE_SECONDS_PER_MESSAGE * len(stage.messages)
    _wait_until_settled(stage, screen, limit)
    now = stage.look()
    screen.say(
        f"{now.processed} of {now.sent} are processed, {now.replayed} were replayed, "
        f"{now.parked.total} are parked",
        "yellow",
    )


def _note_fifo(stage: Stage, screen: Screen) -> None:
    if groups := {m.group for m in stage.messages if m.group is not None}:
        screen.note(
            f"The queues are FIFO and {len(groups)} customers are message groups: behind one that"
            " fails its group fails, too.\nA FIFO queue has no message timers: in the dead-letter"
            " queue the head of a group waits hidden,\nand its group waits with it, so that it"
            " comes back in the order in which it failed."
        )


def _send(stage: Stage, screen: Screen) -> None:
    main = stage.queues.main

    def send_batch(entries: list[dict[str, Any]]) -> dict[str, Any]:
        requests: Any = entries
        return dict(stage.client.send_message_batch(QueueUrl=main.url, Entries=requests))

    def has_room() -> bool:
        return depth(stage.client, main).total < MAIN_QUEUE_ROOM

    for step in produce(stage.messages, send_batch, has_room):
        if isinstance(step, Refusal):
            screen.say(f"message {step.message.number} was refused by SQS: {step.code}", "red")
        else:
            stage.sent.update((m.identity, m) for m in step)
    screen.say(f"{len(stage.sent)} messages are sent")


def _wait_until_settled(stage: Stage, screen: Screen, limit_seconds: float) -> None:
    deadline = time.monotonic() + limit_seconds
    quiet_looks = 0
    while time.monotonic() < deadline:
        now = stage.look()
        quiet_looks = quiet_looks + 1 if now.is_settled else 0
        if now.processed == now.sent or quiet_looks >= _QUIET_LOOKS:
            return
        if quiet_looks and now.processed + now.parked.total == now.sent:
            return
        time.sleep(_LOOK_EVERY_SECONDS)
    screen.say(f"not settled after {limit_seconds:.0f} s: going on all the same", "red")


def _explain_and_put_right(stage: Stage, screen: Screen, spark: Spark) -> None:
    if not depth(stage.client, stage.queues.parked).total:
        screen.say("nothing is parked: there is nothing to explain")
        return
    desk = Desk(stage, screen, spark)
    _explain(screen, desk)
    _try_too_early(stage, screen, desk)
    _put_right(stage, screen, desk)


def _explain(screen: Screen, desk: Desk) -> None:
    screen.title(
        "2. Spark takes the parked messages into an archive and groups them by what failed"
    )
    desk.drain()
    desk.analyze()


def _try_too_early(stage: Stage, screen: Screen, desk: Desk) -> None:
    screen.title("3. The operator edits the plan and sends a canary, before anything is mended")
    screen.note(
        "A canary is a few messages of each group that go ahead; a failure comes straight back."
        f" In this small\nworld {2 * CANARY_WAIT_SECONDS} s are enough to wait for it; without the"
        " forced wait it is what SQS may need, 180 s."
    )
    desk.approve_plan()
    desk.preview(*desk.canary())
    desk.redrive("perhaps it works now", *desk.canary(), exit_codes=[STOPPED_BY_CANARY])
    screen.say("exit code 3: what the canary stopped stays in the archive, unsent", "yellow")
    stage.phase = "the last canaries come back"
    _wait_until_settled(stage, screen, _REDRIVE_SECONDS)
    if depth(stage.client, stage.queues.parked).total:
        desk.drain()


def _put_right(stage: Stage, screen: Screen, desk: Desk) -> None:
    screen.title("4. The bugs are mended: the next canary passes, and the rest follows")
    screen.say(stage.business.mend(), "green")
    desk.analyze_again()
    desk.approve_plan(changes_shown=0)
    codes = [0, STOPPED_BY_CANARY]
    if desk.redrive("bugs fixed", *desk.canary(), exit_codes=codes) == STOPPED_BY_CANARY:
        # Of a message with no room for the mark, or on a very slow machine, nobody can know.
        screen.say("where the canary could not tell, the operator knows: nothing is broken now")
        desk.redrive("bugs fixed")
    stage.phase = "redriven messages are processed"
    _wait_until_settled(stage, screen, _REDRIVE_SECONDS)


def _account(stage: Stage, screen: Screen) -> Account:
    now = stage.look()
    stage.stop_pollers()
    if not now.is_settled:
        screen.say("reading what is left in the queues")
    main, dlq, parked = (
        frozenset(c.identity for c in read_queue(stage.client, queue, _PATIENCE_SECONDS))
        for queue in (stage.queues.main, stage.queues.dlq, stage.queues.parked)
    )
    archived = frozenset(c.identity for c in read_archive(stage.archive))
    evidence = Evidence(
        sightings=stage.journal.sightings(),
        main=main,
        dlq=dlq,
        parked=parked,
        archived=archived,
        strangers=stage.journal.strangers(),
        out_of_order=stage.order.broken_groups() if stage.order else None,
    )
    return account({i: m.content for i, m in stage.sent.items()}, evidence)
