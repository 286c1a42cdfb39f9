"""Makes what an execution environment works with: clients, queues and replayers.

It is made once, from the environment variables, and serves each invocation.
"""

import gc
import logging
import math
import os
import secrets
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from functools import cache, partial
from threading import Lock
from typing import Any

import botocore.session
from botocore.config import Config
from botocore.session import Session

from dlq_replay.aws.answers import with_checked_answers
from dlq_replay.aws.breaker_table import DynamoDbBreaker, breaker_client_config, read_deletions
from dlq_replay.aws.deadline import DeadlineExecutor, require_time_left
from dlq_replay.aws.failure_table import FailureTable, table_client_config
from dlq_replay.aws.fleet_directory import FleetDirectory, directory_client_config
from dlq_replay.aws.returns_table import ReturnsTable
from dlq_replay.aws.sqs import SqsQueue, client_config, without_recursion_header
from dlq_replay.errors import QueueError
from dlq_replay.replaying.breaker_worker import BreakerWorker
from dlq_replay.replaying.fleet import Fleet
from dlq_replay.replaying.journal import logger
from dlq_replay.replaying.replay import Replayer
from dlq_replay.replaying.returns import ReturnsCounter
from dlq_replay.retry import awake_seconds
from dlq_replay.rules.breaker import rules_for
from dlq_replay.rules.policy import Attributes, QueueLimits, ReplayPolicy
from dlq_replay.settings import QUEUE_TAG, FleetSettings, ReplaySettings
from dlq_replay.wire.addresses import QueueAddress

CONCURRENT_CALLS = 16

ASK_SECONDS = 10.0
"""Time for SQS to return the limits of queues. For a queue without an answer, SQS's defaults are
assumed."""

ASK_AGAIN_AFTER_SECONDS = 60.0
ASK_AGAIN_AT_MOST_SECONDS = 3600.0

# By default Python collects garbage after 700 new objects, so several times per batch. That took a
# fifth of the time and found nothing.
gc.set_threshold(50_000)

# boto's own debug lines print whole requests, bodies included, to whichever level the root logger
# is set: by Lambda's logging controls, for one.
for _name in ("boto3", "botocore", "urllib3"):
    logging.getLogger(_name).setLevel(logging.WARNING)


@cache
def wiring() -> "Wiring":
    """Read the settings of a function with one DLQ, and make its clients.

    Raises:
        SettingsError: the environment has faults.
    """
    settings = ReplaySettings.from_env(os.environ)
    logger.setLevel(settings.log_level)
    clients = Clients(CONCURRENT_CALLS)
    return Wiring(settings, clients, _tables(clients, settings))


@dataclass(frozen=True, slots=True)
class WiredFleet:
    """The fleet of an execution environment; *queue_of* returns the queue at an address."""

    fleet: Fleet
    directory: FleetDirectory
    queue_of: Callable[[QueueAddress], SqsQueue]


@cache
def wired_fleet(concurrent_queues: int = 1, visibility_seconds: int | None = None) -> WiredFleet:
    """Read the settings of a function whose queues join by a tag, and make its clients.

    *concurrent_queues* is how many DLQs threads work on at once; for *visibility_seconds* see
    ``Fleet``.

    Raises:
        SettingsError: the environment has faults.
    """
    settings = FleetSettings.from_env(os.environ)
    logger.setLevel(settings.log_level)
    clients = Clients(CONCURRENT_CALLS + concurrent_queues)
    tables = _tables(clients, settings)

    def url_of(queue: QueueAddress) -> str:
        # All members are in the account and Region of the stack.
        return queue.url_beside(settings.parked_queue_url)

    def replayer_of(dlq: QueueAddress, parked_queue_url: str, policy: ReplayPolicy) -> Replayer:
        urls = {source: url_of(source) for source in policy.other_main_queues}
        return make_replayer(clients, tables, policy, url_of(dlq), parked_queue_url, urls)

    def queue_of(queue: QueueAddress) -> SqsQueue:
        return clients.queue(url_of(queue))

    directory = FleetDirectory(
        tag=settings.queue_tag,
        make_client=lambda service: clients.make(service, directory_client_config()),
        queue_of=queue_of,
        executor=clients.executor,
        parked_queues=settings.parked_queues,
    )
    fleet = Fleet(settings, directory, replayer_of, visibility_seconds)
    return WiredFleet(fleet, directory, queue_of)


def is_fleet() -> bool:
    """Return whether the environment names a tag, by which queues join."""
    return bool(os.environ.get(QUEUE_TAG))


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
    clients: "Clients"
    tables: "Tables | None"
    answers: dict[str, Attributes] = field(default_factory=dict)
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

        futures: dict[str, Future[Attributes]] = {}
        for url in unanswered:
            futures[url] = self.clients.executor.submit(_attributes, self.clients.queue(url))
        wait(futures.values(), ASK_SECONDS)

        news: dict[str, Attributes] = {}
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
        for queue, url in urls.items():
            main_attributes = self.answers.get(url, {})
            limits[queue] = QueueLimits.of(main_attributes, dlq_attributes, parked_attributes)

        policy = replace(
            settings.policy,
            limits=limits[main_queue],
            other_main_queues={q: limits[q] for q in settings.other_main_queue_urls},
        )
        return make_replayer(
            self.clients, self.tables, policy, settings.dlq_url, settings.parked_queue_url, urls
        )


class Clients:
    """The clients of one execution environment, which its threads share."""

    def __init__(self, threads: int) -> None:
        # One session for all clients: it keeps what it has read of botocore's data.
        self._session = with_checked_answers(botocore.session.get_session())
        # A session must not make clients in two threads at once.
        self._making_client = Lock()
        client = make_client(self._session, "sqs", client_config(threads))
        self._sqs = without_recursion_header(client)
        self.executor = DeadlineExecutor(CONCURRENT_CALLS, thread_name_prefix="send")

    def queue(self, url: str) -> SqsQueue:
        """Return the queue at a URL."""
        return SqsQueue(self._sqs, url)

    def make(self, service: str, config: Config) -> Any:  # noqa: ANN401 - made at run time
        """Make the client of another service."""
        with self._making_client:
            return make_client(self._session, service, config)


def make_client(session: Session, service: str, config: Config) -> Any:  # noqa: ANN401 - made at run time
    """Make a client whose every try checks the deadline of the invocation, and its answer.

    As boto3.client would, without loading boto3: a third of the time of a cold start.
    """
    client = session.create_client(service, config=config)
    client.meta.events.register("before-send", require_time_left)
    return client


class Tables:
    """Makes the users of the failure table; keeps the state of breakers and of counters."""

    def __init__(self, clients: Clients, table_name: str, *, has_breaker: bool) -> None:
        self._table_name = table_name
        self._has_breaker = has_breaker
        self._client = clients.make("dynamodb", breaker_client_config())
        # Made only where the metric is read: few environments ever do.
        self._make_metric_client = partial(clients.make, "cloudwatch", breaker_client_config())
        self._breakers: dict[tuple[str, QueueAddress, int | None], BreakerWorker] = {}
        self._returns: dict[str, ReturnsCounter] = {}
        failures = FailureTable(clients.make("dynamodb", table_client_config()), table_name)
        self.find_failures = failures.find

    def breakers(self, dlq_url: str, policy: ReplayPolicy) -> dict[QueueAddress, BreakerWorker]:
        """Return the circuit breakers of a policy's queues; none where they are switched off."""
        queues = list(policy.other_main_queues)
        if policy.takes_unnamed:
            queues.append(policy.main_queue)
        if not self._has_breaker:
            return {}

        breakers: dict[QueueAddress, BreakerWorker] = {}
        for queue in queues:
            max_receive_count = policy.of(queue).limits.max_receive_count
            key = (dlq_url, queue, max_receive_count)
            if key not in self._breakers:
                self._breakers[key] = self._make_breaker(queue, max_receive_count)
            breakers[queue] = self._breakers[key]
        return breakers

    def returns(self, dlq_url: str) -> ReturnsCounter:
        """Return the counter of what comes back to a DLQ."""
        if dlq_url not in self._returns:
            table = ReturnsTable(self._client, self._table_name, _now_seconds)
            self._returns[dlq_url] = ReturnsCounter(table.add)
        return self._returns[dlq_url]

    def _make_breaker(self, queue: QueueAddress, max_receive_count: int | None) -> BreakerWorker:
        table = DynamoDbBreaker(self._client, self._table_name, queue.name, _now_seconds)
        deletions = partial(read_deletions, self._make_metric_client, queue.name)
        return BreakerWorker(table, rules_for(queue, max_receive_count), deletions)


def make_replayer(
    clients: Clients,
    tables: Tables | None,
    policy: ReplayPolicy,
    dlq_url: str,
    parked_queue_url: str,
    main_queue_urls: Mapping[QueueAddress, str],
) -> Replayer:
    """Make the use case between the queues at these URLs."""
    replayer = Replayer(
        policy=policy,
        main_queues={queue: clients.queue(url) for queue, url in main_queue_urls.items()},
        dlq=clients.queue(dlq_url),
        parked_queue=clients.queue(parked_queue_url),
        now_seconds=_now_seconds,
        # The system's own randomness: execution environments restored from one snapshot would
        # otherwise draw the same delays.
        draw_up_to=lambda ceiling: secrets.randbelow(ceiling + 1),
        executor=clients.executor,
    )
    if tables is None:
        return replayer
    return replace(
        replayer,
        find_failures=tables.find_failures,
        breakers=tables.breakers(dlq_url, policy),
        returns=tables.returns(dlq_url),
    )


def _tables(clients: Clients, settings: ReplaySettings | FleetSettings) -> Tables | None:
    if settings.failure_table is None:
        return None
    return Tables(clients, settings.failure_table, has_breaker=settings.has_breaker)


def _now_seconds() -> int:
    return int(time.time())


def _attributes(queue: SqsQueue) -> Attributes:
    try:
        return queue.describe()
    except QueueError as error:
        logger.warning(
            "a queue's limits are unknown: assuming SQS's defaults", extra={"reason": str(error)}
        )
        return {}
