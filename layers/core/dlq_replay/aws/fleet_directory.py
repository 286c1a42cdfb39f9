"""The queues of a fleet, as AWS answers for them; each answer is kept for a while. An adapter.

It asks the Resource Groups Tagging API for the members, Lambda for the queues that mappings read,
and SQS for attributes and sources.
"""

import logging
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from dlq_replay.aws.sqs import SqsQueue, describe
from dlq_replay.aws.tagged_queues import list_tagged_queues
from dlq_replay.errors import QueueError, QueueGoneError
from dlq_replay.replaying.measures import SERVICE
from dlq_replay.retry import awake_seconds
from dlq_replay.rules.policy import Attributes
from dlq_replay.wire.addresses import QueueAddress

LIST_KEPT_SECONDS = 300.0
"""Time for which the lists of members and of mappings are kept."""

ASK_AGAIN_SECONDS = 60.0
"""After a list could not be read, or a queue did not answer."""

SOURCES_KEPT_SECONDS = 60.0
"""Time for which SQS's list of a DLQ's sources decides about messages."""

ATTRIBUTES_KEPT_SECONDS = 3600.0

ASK_SECONDS = 10.0
"""Longest wait for the attributes of queues."""

ASK_SOURCES_SECONDS = 30.0
"""Longest wait for the sources of all members: the first sweep of an environment asks for all."""

SWEEPS_UNTIL_ASKED_AGAIN = 60
"""In which the sources of each known member are asked for once."""

_OFF = {"Disabled", "Disabling", "Deleting"}

T = TypeVar("T")

logger = logging.getLogger(SERVICE)


@dataclass(frozen=True, slots=True)
class SweptQueues:
    """The DLQs that a sweep reads, and for each member of which SQS does not say, why not."""

    dlqs: Sequence[QueueAddress]
    faults: Mapping[QueueAddress, str]


class FleetDirectory:
    """The directory of one execution environment; satisfies ``fleet.Directory``.

    Args:
        tag: the value of the tag ``dlq-replay`` of the members.
        make_client: makes the client of a service, ``resourcegroupstaggingapi`` or ``lambda``.
        queue_of: returns the queue at an address.
        executor: asks several queues at once. Its threads must not ask this directory.
        parked_queues: never members, whatever their tags: a sweep would park there again and again
            what it read there.
        clock_seconds: see ``awake_seconds``.
    """

    def __init__(
        self,
        tag: str,
        make_client: Callable[[str], Any],
        queue_of: Callable[[QueueAddress], SqsQueue],
        executor: Executor,
        parked_queues: frozenset[QueueAddress],
        clock_seconds: Callable[[], float] = awake_seconds,
    ) -> None:
        self._queue_of = queue_of
        self._executor = executor
        self._clock_seconds = clock_seconds
        self._members = _Remembered(
            lambda: (
                list_tagged_queues(make_client("resourcegroupstaggingapi"), tag) - parked_queues
            ),
            clock_seconds,
        )
        self._mapped = _Remembered(lambda: list_mapped_queues(make_client("lambda")), clock_seconds)
        self._sources: dict[QueueAddress, tuple[float, frozenset[QueueAddress]]] = {}
        self._swept_at: dict[QueueAddress, float] = {}
        self._attributes: dict[QueueAddress, tuple[float, Attributes]] = {}
        self._faults: dict[QueueAddress, tuple[float, str]] = {}

    def members(self) -> frozenset[QueueAddress]:
        """As ``Directory.members``; kept for five minutes, and longer where AWS does not answer."""
        return self._members.value()

    def mapped(self) -> frozenset[QueueAddress]:
        """Return the queues that an enabled event source mapping of any function reads.

        Kept as ``members`` are, and raises QueueError as it does.
        """
        return self._mapped.value()

    def sources(self, dlq: QueueAddress) -> frozenset[QueueAddress] | None:
        """As ``Directory.sources``; kept for a minute."""
        asked_at, sources = self._sources.get(dlq, (-math.inf, frozenset()))
        if self._clock_seconds() < asked_at + SOURCES_KEPT_SECONDS:
            return sources
        try:
            return self._ask_sources(dlq)
        except QueueError as error:
            logger.warning("sources are not known", extra={"dlq": dlq.name, "reason": str(error)})
            return None

    def swept_queues(self) -> SweptQueues:
        """Find the members that are a DLQ and that no mapping reads.

        SQS is asked for the sources of members that are new, and of some others each time, so that
        after an hour of sweeps all are asked again. A member that does not exist is no DLQ.

        Raises:
            QueueError: the list of members, or that of mappings, could never be read.
        """
        mapped = self.mapped()
        members = [queue for queue in sorted(self.members()) if queue not in mapped]
        faults = self._ask_for_sources(members)
        dlqs: list[QueueAddress] = []
        for queue in members:
            _, sources = self._sources.get(queue, (0.0, frozenset()))
            if sources:
                dlqs.append(queue)
                faults.pop(queue, None)
        return SweptQueues(dlqs, faults)

    def _ask_for_sources(self, members: Sequence[QueueAddress]) -> dict[QueueAddress, str]:
        """Ask for the sources of some members; return why some did not answer."""
        new: list[QueueAddress] = []
        others: list[QueueAddress] = []
        for queue in members:
            is_known = queue in self._sources and queue in self._swept_at
            (others if is_known else new).append(queue)

        others.sort(key=lambda queue: self._swept_at[queue])
        share = math.ceil(len(others) / SWEEPS_UNTIL_ASKED_AGAIN)
        asked: dict[QueueAddress, Future[frozenset[QueueAddress]]] = {}
        for queue in (*new, *others[:share]):
            self._swept_at[queue] = self._clock_seconds()
            asked[queue] = self._executor.submit(self._ask_sources, queue)
        wait(asked.values(), ASK_SOURCES_SECONDS)

        faults: dict[QueueAddress, str] = {}
        for queue, future in asked.items():
            # One that has not begun is asked by the next sweep.
            if future.cancel() or not future.done():
                faults[queue] = f"asking for the sources of {queue.name}: no answer"
                continue
            try:
                future.result()
            except QueueGoneError:
                self._sources[queue] = self._clock_seconds(), frozenset()
            except QueueError as error:
                faults[queue] = str(error)
        return faults

    def describe(
        self, queues: Collection[QueueAddress]
    ) -> tuple[Mapping[QueueAddress, Attributes], Mapping[QueueAddress, str]]:
        """As ``Directory.describe``; kept for an hour, a refusal for a minute."""
        now = self._clock_seconds()
        asked: dict[QueueAddress, Future[Attributes]] = {}
        for queue in queues:
            answered_at, _ = self._attributes.get(queue, (-math.inf, {}))
            refused_at, _ = self._faults.get(queue, (-math.inf, ""))
            is_fresh = now < answered_at + ATTRIBUTES_KEPT_SECONDS
            if not is_fresh and now >= refused_at + ASK_AGAIN_SECONDS:
                asked[queue] = self._executor.submit(self._queue_of(queue).describe)
        wait(asked.values(), ASK_SECONDS)

        for queue, future in asked.items():
            if not future.done():
                self._faults[queue] = now, f"asking about {queue.name}: no answer"
                continue
            try:
                self._attributes[queue] = now, future.result()
                self._faults.pop(queue, None)
            except QueueError as error:
                self._faults[queue] = now, str(error)

        attributes: dict[QueueAddress, Attributes] = {}
        faults: dict[QueueAddress, str] = {}
        for queue in queues:
            if queue in self._attributes:
                _, attributes[queue] = self._attributes[queue]
            else:
                _, faults[queue] = self._faults[queue]
        return attributes, faults

    def _ask_sources(self, dlq: QueueAddress) -> frozenset[QueueAddress]:
        asked_at = self._clock_seconds()
        sources = self._queue_of(dlq).sources()
        self._sources[dlq] = asked_at, sources
        return sources


class _Remembered(Generic[T]):
    """A list that is read every five minutes; where that fails, it is the last one."""

    def __init__(self, read: Callable[[], T], clock_seconds: Callable[[], float]) -> None:
        self._read = read
        self._clock_seconds = clock_seconds
        self._lists: list[T] = []
        self._read_again_at = -math.inf

    def value(self) -> T:
        """Return the list. Raises QueueError where it could never be read."""
        now = self._clock_seconds()
        if now >= self._read_again_at:
            try:
                self._lists = [self._read()]
                self._read_again_at = now + LIST_KEPT_SECONDS
            except QueueError as error:
                if not self._lists:
                    raise
                self._read_again_at = now + ASK_AGAIN_SECONDS
                logger.warning("the last list is used", extra={"reason": str(error)})
        return self._lists[0]


def list_mapped_queues(client: Any) -> frozenset[QueueAddress]:  # noqa: ANN401 - boto3's
    """Return the queues that an event source mapping reads, or is about to; *client* is Lambda's.

    Raises:
        QueueError: a page was refused or not answered.
    """
    queues = set[QueueAddress]()
    try:
        for page in client.get_paginator("list_event_source_mappings").paginate():
            for mapping in page["EventSourceMappings"]:
                arn = mapping.get("EventSourceArn", "")
                if ":sqs:" in arn and mapping["State"] not in _OFF:
                    queues.add(QueueAddress.from_arn(arn))
    except (ClientError, BotoCoreError) as error:
        raise QueueError(f"event source mappings: {describe(error)}") from error
    return frozenset(queues)


def directory_client_config() -> Config:
    """Timeouts and retries for the lists, which are asked for every five minutes."""
    return Config(
        connect_timeout=3,
        read_timeout=5,
        retries={"mode": "standard", "total_max_attempts": 3},
    )
