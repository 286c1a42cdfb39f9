"""The replay Lambda: reads its environment, wires the core to SQS, logs and counts the outcomes.

No line it logs holds a body, at any level.
"""

import gc
import json
import logging
import math
import os
import secrets
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import botocore.session
from aws_lambda_powertools import Logger
from botocore.config import Config
from botocore.session import Session

from dlq_replay.aws.answers import with_checked_answers
from dlq_replay.aws.breaker_table import DynamoDbBreaker, breaker_client_config, read_deletions
from dlq_replay.aws.deadline import DeadlineExecutor, calls_until, require_time_left
from dlq_replay.aws.failure_table import FailureTable, table_client_config
from dlq_replay.aws.returns_table import ReturnsTable
from dlq_replay.aws.sqs import SqsQueue, client_config, without_recursion_header
from dlq_replay.errors import MalformedEventError, QueueError, SettingsError
from dlq_replay.replaying.breaker_worker import BreakerWorker
from dlq_replay.replaying.measures import (
    MAIN_QUEUE_DIMENSION,
    SERVICE,
    measure_batch,
    measure_dlq,
    publish,
)
from dlq_replay.replaying.replay import BatchOutcome, Replayer
from dlq_replay.replaying.returns import ReturnsCounter
from dlq_replay.retry import awake_seconds
from dlq_replay.rules.batch_plan import Failed, PlannedRecord
from dlq_replay.rules.breaker import rules_for
from dlq_replay.rules.decision import Park, Replay
from dlq_replay.rules.policy import DEFAULT_RETENTION_SECONDS, MAX_MESSAGE_BYTES, QueueLimits
from dlq_replay.settings import ReplaySettings
from dlq_replay.wire.addresses import QueueAddress
from dlq_replay.wire.message import read_event

CONCURRENT_CALLS = 16
ANSWER_RESERVE_SECONDS = 2.0
"""Kept back from the function's time-out to log, count and answer."""

ASK_SECONDS = 10.0
"""Time for SQS to return the limits of queues. For a queue without an answer, SQS's defaults are
assumed."""

ASK_AGAIN_AFTER_SECONDS = 60.0
ASK_AGAIN_AT_MOST_SECONDS = 3600.0

IDS_PER_LOG_LINE = 100

# By default Python collects garbage after 700 new objects, so several times per batch. That took a
# fifth of the time and found nothing.
gc.set_threshold(50_000)

logger = Logger(service=SERVICE)
Write = Callable[..., None]
"""Writes a line of the log at some level."""

# boto's own debug lines print whole requests, bodies included, to whichever level the root logger
# is set: by Lambda's logging controls, for one.
for _name in ("boto3", "botocore", "urllib3"):
    logging.getLogger(_name).setLevel(logging.WARNING)


def lambda_handler(event: object, context: Any) -> dict[str, list[dict[str, str]]]:  # noqa: ANN401 - Lambda's
    """Replay, hold or park each dead letter of *event*; name those that must stay in the DLQ.

    Work stops 2 s before the time of *context* is up, and no try of a call begins after that, in
    this invocation or in a later one.

    Raises:
        SettingsError: the environment has faults; the message lists all of them.
        MalformedEventError: the event is not from SQS. Nothing was touched in either case.
    """

    def seconds_left() -> float:
        left_ms: int = context.get_remaining_time_in_millis()
        return left_ms / 1000 - ANSWER_RESERVE_SECONDS

    with calls_until(seconds_left):
        try:
            replayer = wired_replayer()
            records = read_event(event)
        except (SettingsError, MalformedEventError) as error:
            logger.exception("nothing was replayed", extra={"reason": str(error)})
            raise
        batch = replayer.replay(records, seconds_left)

    _log(batch)
    _count(replayer, batch)
    return batch.to_partial_batch_response()


def wired_replayer() -> Replayer:
    """Return the replayer of this execution environment."""
    return wiring().current_replayer()


@cache
def wiring() -> "Wiring":
    """Read the settings and make the clients of this execution environment.

    Raises:
        SettingsError: the environment has faults.
    """
    settings = ReplaySettings.from_env(os.environ)
    logger.setLevel(settings.log_level)
    # One session for all clients: it keeps what it has read of botocore's data.
    session = with_checked_answers(botocore.session.get_session())
    client = make_client(session, "sqs", client_config(CONCURRENT_CALLS))
    executor = DeadlineExecutor(CONCURRENT_CALLS, thread_name_prefix="send")
    return Wiring(settings, session, without_recursion_header(client), executor)


@dataclass
class Wiring:
    """The clients of one execution environment, the limits of its queues, and its replayer.

    A queue that could not be asked for its limits is asked again: after a minute, then after twice
    as long each time, up to an hour. Only an answer makes a new replayer, because a replayer knows
    the state of circuit breakers.

    Attributes:
        answers: attributes of the queues that have answered, by URL.
        ask_at_seconds: when the others are asked again, by ``awake_seconds``.
        pause_seconds: how long after that they are asked once more.
    """

    settings: ReplaySettings
    session: Session
    client: Any
    executor: DeadlineExecutor
    answers: dict[str, Mapping[str, str]] = field(default_factory=dict)
    ask_at_seconds: float = -math.inf
    pause_seconds: float = ASK_AGAIN_AFTER_SECONDS
    replayer: Replayer | None = None

    def current_replayer(self) -> Replayer:
        """Return the replayer, with the limits of all queues that have answered."""
        has_news = self._ask()
        if self.replayer is None or has_news:
            self.replayer = self._make_replayer()
        return self.replayer

    def _ask(self) -> bool:
        """Ask the queues that have not answered, if it is time.

        Returns:
            Whether a queue has answered now.
        """
        settings = self.settings
        urls = [
            settings.dlq_url,
            settings.parked_queue_url,
            settings.main_queue_url,
            *settings.other_main_queue_urls.values(),
        ]
        unanswered = [url for url in urls if url not in self.answers]
        if not unanswered or awake_seconds() < self.ask_at_seconds:
            return False

        futures: dict[str, Future[Mapping[str, str]]] = {}
        for url in unanswered:
            futures[url] = self.executor.submit(_attributes, SqsQueue(self.client, url))
        wait(futures.values(), ASK_SECONDS)

        news: dict[str, Mapping[str, str]] = {}
        for url, future in futures.items():
            answer = future.result() if future.done() else {}
            if answer:
                news[url] = answer
        self.answers |= news
        self.ask_at_seconds = awake_seconds() + self.pause_seconds
        self.pause_seconds = min(2 * self.pause_seconds, ASK_AGAIN_AT_MOST_SECONDS)
        return bool(news)

    def _make_replayer(self) -> Replayer:
        settings = self.settings
        main_queue = settings.policy.main_queue
        urls = {main_queue: settings.main_queue_url, **settings.other_main_queue_urls}
        dlq_attributes = self.answers.get(settings.dlq_url, {})
        parked_attributes = self.answers.get(settings.parked_queue_url, {})

        limits: dict[QueueAddress, QueueLimits] = {}
        main_queues: dict[QueueAddress, SqsQueue] = {}
        for queue, url in urls.items():
            main_attributes = self.answers.get(url, {})
            limits[queue] = _limits(main_attributes, dlq_attributes, parked_attributes)
            main_queues[queue] = SqsQueue(self.client, url)

        replayer = Replayer(
            policy=replace(
                settings.policy,
                limits=limits[main_queue],
                other_main_queues={q: limits[q] for q in settings.other_main_queue_urls},
            ),
            main_queues=main_queues,
            dlq=SqsQueue(self.client, settings.dlq_url),
            parked_queue=SqsQueue(self.client, settings.parked_queue_url),
            now_seconds=_now_seconds,
            # The system's own randomness: execution environments restored from one snapshot would
            # otherwise draw the same delays.
            draw_up_to=lambda ceiling: secrets.randbelow(ceiling + 1),
            executor=self.executor,
        )
        if settings.failure_table is None:
            return replayer
        limited = limits if settings.has_breaker else {}
        return _with_failure_table(replayer, settings.failure_table, limited, self.session)


def make_client(session: Session, service: str, config: Config) -> Any:  # noqa: ANN401 - made at run time
    """Make a client whose every try checks the deadline of the invocation, and its answer.

    As boto3.client would, without loading boto3: a third of the time of a cold start.
    """
    client = session.create_client(service, config=config)
    client.meta.events.register("before-send", require_time_left)
    return client


def _with_failure_table(
    replayer: Replayer,
    table_name: str,
    limited: Mapping[QueueAddress, QueueLimits],
    session: Session,
) -> Replayer:
    failures = FailureTable(make_client(session, "dynamodb", table_client_config()), table_name)
    client = make_client(session, "dynamodb", breaker_client_config())
    # Made only where the metric is read: few environments ever do.
    make_metric_client = partial(make_client, session, "cloudwatch", breaker_client_config())

    workers = {}
    for queue, limits in limited.items():
        table = DynamoDbBreaker(client, table_name, queue.name, _now_seconds)
        deletions = partial(read_deletions, make_metric_client, queue.name)
        rules = rules_for(queue, limits.max_receive_count)
        workers[queue] = BreakerWorker(table, rules, deletions)

    returns = ReturnsCounter(ReturnsTable(client, table_name, _now_seconds).add)
    return replace(replayer, find_failures=failures.find, breakers=workers, returns=returns)


def _now_seconds() -> int:
    return int(time.time())


def _attributes(queue: SqsQueue) -> Mapping[str, str]:
    try:
        return queue.describe()
    except QueueError as error:
        logger.warning(
            "a queue's limits are unknown: assuming SQS's defaults", extra={"reason": str(error)}
        )
        return {}


def _limits(
    main: Mapping[str, str], dlq: Mapping[str, str], parked: Mapping[str, str]
) -> QueueLimits:
    max_receive_count = json.loads(main.get("RedrivePolicy", "{}")).get("maxReceiveCount")
    return QueueLimits(
        main_max_bytes=_max_bytes(main),
        dlq_max_bytes=_max_bytes(dlq),
        parked_max_bytes=_max_bytes(parked),
        main_retention_seconds=_retention_seconds(main),
        dlq_retention_seconds=_retention_seconds(dlq),
        max_receive_count=max_receive_count and int(max_receive_count),
        dlq_visibility_seconds=int(dlq.get("VisibilityTimeout", 0)),
    )


def _max_bytes(attributes: Mapping[str, str]) -> int:
    return int(attributes.get("MaximumMessageSize", MAX_MESSAGE_BYTES))


def _retention_seconds(attributes: Mapping[str, str]) -> int:
    return int(attributes.get("MessageRetentionPeriod", DEFAULT_RETENTION_SECONDS))


def _log(batch: BatchOutcome) -> None:
    """Write one line per cause and 100 ids: a batch of 10,000 that fails alike stays readable."""
    counts = Counter([type(outcome.decision).__name__.lower() for outcome in batch.outcomes])
    is_debug = logger.log_level <= logging.DEBUG

    groups: dict[tuple[Write, str, tuple[tuple[str, str], ...]], list[str]] = defaultdict(list)
    for outcome in batch.outcomes:
        match outcome.decision:
            case Park(reason):
                fields: tuple[tuple[str, str], ...] = (("reason", reason),)
                groups[logger.warning, "parked", fields].append(outcome.message_id)
            case Failed(cause, detail):
                fields = (("cause", cause), ("detail", detail))
                groups[logger.error, "left in the DLQ", fields].append(outcome.message_id)
            case Replay(number, delay_seconds) if is_debug:
                extra = {"number": number, "delay_seconds": delay_seconds}
                logger.debug("replayed", extra={"id": outcome.message_id, **extra})
        if outcome.fault:
            fields = (("fault", outcome.fault),)
            groups[logger.warning, "context ignored", fields].append(outcome.message_id)

    for (write, text, fields), ids in groups.items():
        for start in range(0, len(ids), IDS_PER_LOG_LINE):
            some = ids[start : start + IDS_PER_LOG_LINE]
            write(text, extra={**dict(fields), "ids": some, "count": len(some)})

    _log_tables(batch)
    logger.info("batch done", extra={"messages": len(batch.outcomes), **counts})


def _log_tables(batch: BatchOutcome) -> None:
    for queue, report in batch.breakers.items():
        if report.event:
            logger.warning(report.event, extra={"main_queue": queue.name})
        if report.fault:
            extra = {"main_queue": queue.name, "reason": report.fault}
            logger.warning("circuit breaker: no limit is known", extra=extra)

    if batch.failures_fault:
        logger.warning("failure reasons are missing", extra={"reason": batch.failures_fault})
    if batch.returns_fault:
        extra = {"reason": batch.returns_fault}
        logger.warning("returns of a redrive are not counted", extra=extra)


def _count(replayer: Replayer, batch: BatchOutcome) -> None:
    now_seconds = replayer.now_seconds()
    main_queue = replayer.policy.main_queue
    outcomes: dict[QueueAddress, list[PlannedRecord]] = {main_queue: []}
    for outcome in batch.outcomes:
        outcomes.setdefault(outcome.main_queue, []).append(outcome)

    measures = {}
    for queue in sorted(outcomes, key=lambda queue: queue.name):
        own_batch = BatchOutcome(tuple(outcomes[queue]))
        measures[queue] = measure_batch(own_batch, batch.breakers.get(queue))

    retention_seconds = replayer.policy.limits.dlq_retention_seconds
    dlq_measures = measure_dlq(batch, measures.values(), now_seconds, retention_seconds)
    measures[main_queue] |= dlq_measures
    for queue, measured in measures.items():
        publish(measured, MAIN_QUEUE_DIMENSION, queue.name, now_seconds)
