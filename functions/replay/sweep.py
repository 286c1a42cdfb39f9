"""The sweep Lambda: by a schedule, it receives from every DLQ that carries the stack's tag.

No line it logs holds a body, at any level. A queue without a message leaves no line and no metric.
"""

import random
import time
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

from aws_lambda_powertools import Logger

from dlq_replay.aws.deadline import DeadlineExecutor, calls_until
from dlq_replay.aws.wiring import wired_fleet
from dlq_replay.errors import QueueError, SettingsError
from dlq_replay.replaying.journal import count_batch, log_batch
from dlq_replay.replaying.measures import QUEUE_TAG_DIMENSION, SERVICE, Metric, publish
from dlq_replay.replaying.sweep import CONCURRENT_QUEUES, VISIBILITY_SECONDS, Sweeper, Turn
from dlq_replay.wire.addresses import QueueAddress

END_RESERVE_SECONDS = 2.0
"""Kept back from the function's time-out to log and count."""

NAMED_QUEUES = 50
"""Queues that a line of the log names, at most."""

logger = Logger(service=SERVICE)


def lambda_handler(event: object, context: Any) -> None:  # noqa: ANN401 - Lambda's
    """Give every member DLQ a turn, and go on with full ones until 10 s before the end.

    *event* says nothing. An invocation that raises counts as a sweep that did not complete.

    Raises:
        SettingsError: the environment has faults; the message lists all of them.
        QueueError: nobody could ever say which queues are members, or which have a mapping.
    """
    del event

    def seconds_left() -> float:
        left_ms: int = context.get_remaining_time_in_millis()
        return left_ms / 1000 - END_RESERVE_SECONDS

    with calls_until(seconds_left):
        try:
            wired = wired_fleet(CONCURRENT_QUEUES, VISIBILITY_SECONDS)
            queues = wired.directory.swept_queues()
        except (SettingsError, QueueError) as error:
            logger.exception("nothing was swept", extra={"reason": str(error)})
            raise

        tag = wired.fleet.settings.queue_tag
        report = partial(_report, tag)
        sweeper = Sweeper(
            wired.fleet, wired.queue_of, _executor(), report, paused_until=_paused_until()
        )
        # Where the time is too short for all, each is late in turn.
        dlqs = random.sample(queues.dlqs, len(queues.dlqs))
        summary = sweeper.sweep(dlqs, seconds_left)

    if summary.received:
        fields = {"queues": len(dlqs), "turns": summary.turns, "messages": summary.received}
        logger.info("sweep done", extra=fields)
    _report_stuck(tag, {**queues.faults, **summary.stuck})


@cache
def _executor() -> DeadlineExecutor:
    return DeadlineExecutor(CONCURRENT_QUEUES, thread_name_prefix="turn")


@cache
def _paused_until() -> dict[QueueAddress, float]:
    return {}


def _report(tag: str, turn: Turn) -> None:
    if turn.batch is None:
        return
    log_batch(turn.batch.outcome, turn.dlq.name)
    count_batch(turn.batch.outcome, turn.batch.policy, int(time.time()), tag)

    if turn.not_deleted:
        ids = [message.message_id for message in turn.not_deleted]
        extra = {"dlq": turn.dlq.name, "ids": ids, "count": len(ids)}
        logger.error("not deleted: they come again", extra=extra)


def _report_stuck(tag: str, stuck: Mapping[QueueAddress, str]) -> None:
    if not stuck:
        return
    reasons = {queue.name: stuck[queue] for queue in sorted(stuck)[:NAMED_QUEUES]}
    logger.error("queues were not swept", extra={"count": len(stuck), "reasons": reasons})
    publish({Metric.STUCK_QUEUES: [len(stuck)]}, QUEUE_TAG_DIMENSION, tag, time.time())
