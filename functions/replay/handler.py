"""The replay Lambda: a batch of an event source mapping or an EventBridge Pipe.

No line it logs holds a body, at any level.
"""

import time
from collections.abc import Callable
from typing import Any

from aws_lambda_powertools import Logger

from dlq_replay.aws.deadline import calls_until
from dlq_replay.aws.wiring import is_fleet, wired_fleet, wiring
from dlq_replay.errors import MalformedEventError, QueueError, SettingsError
from dlq_replay.replaying.journal import count_batch, log_batch
from dlq_replay.replaying.measures import SERVICE
from dlq_replay.replaying.replay import BatchOutcome, Replayer
from dlq_replay.wire.addresses import QueueAddress
from dlq_replay.wire.message import event_source, read_event

ANSWER_RESERVE_SECONDS = 2.0
"""Kept back from the function's time-out to log, count and answer."""

logger = Logger(service=SERVICE)


def lambda_handler(event: object, context: Any) -> dict[str, list[dict[str, str]]]:  # noqa: ANN401 - Lambda's
    """Replay, hold or park each dead letter of *event*; name those that must stay in the DLQ.

    Work stops 2 s before the time of *context* is up, and no try of a call begins after that, in
    this invocation or in a later one.

    Raises:
        SettingsError: the environment has faults; the message lists all of them.
        MalformedEventError: the event is not from SQS.
        QueueError: queues join by a tag, and nobody could ever say which. Nothing was touched in
            any of these cases.
    """

    def seconds_left() -> float:
        left_ms: int = context.get_remaining_time_in_millis()
        return left_ms / 1000 - ANSWER_RESERVE_SECONDS

    with calls_until(seconds_left):
        try:
            replay = _replay_in_fleet if is_fleet() else _replay
            batch = replay(event, seconds_left)
        except (SettingsError, MalformedEventError, QueueError) as error:
            logger.exception("nothing was replayed", extra={"reason": str(error)})
            raise
    return batch.to_partial_batch_response()


def wired_replayer() -> Replayer:
    """Return the replayer of this execution environment."""
    return wiring().current_replayer()


def _replay(event: object, seconds_left: Callable[[], float]) -> BatchOutcome:
    replayer = wired_replayer()
    batch = replayer.replay(read_event(event), seconds_left)
    log_batch(batch)
    count_batch(batch, replayer.policy, replayer.now_seconds())
    return batch


def _replay_in_fleet(event: object, seconds_left: Callable[[], float]) -> BatchOutcome:
    fleet = wired_fleet().fleet
    records = read_event(event)
    if not records:
        return BatchOutcome(())

    try:
        dlq = QueueAddress.from_arn(event_source(event))
    except ValueError as error:
        raise MalformedEventError(f"eventSourceARN: {error}") from error
    batch = fleet.replay(dlq, records, seconds_left)
    log_batch(batch.outcome, dlq.name)
    count_batch(batch.outcome, batch.policy, int(time.time()), fleet.settings.queue_tag)
    return batch.outcome
