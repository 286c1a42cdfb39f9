"""AWS clients, and the facts that the driver asks SQS about queues.

A client is made where it is used: on the driver, and in each task. One session makes all clients of
a process. A client for a queue is in the queue's Region; InputError if nothing names the Region.
"""

import json
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING, Any, Self, cast
from urllib.parse import urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ProfileNotFound

from dlq.errors import InputError
from dlq_replay.aws.answers import with_checked_answers
from dlq_replay.aws.breaker_table import DynamoDbBreaker
from dlq_replay.aws.failure_table import table_client_config
from dlq_replay.aws.returns_table import ReturnsTable
from dlq_replay.aws.sqs import SqsQueue, client_config, describe
from dlq_replay.errors import QueueError, TableError
from dlq_replay.rules.breaker import BreakerView, rules_for
from dlq_replay.wire.addresses import QueueAddress

if TYPE_CHECKING:
    from boto3.session import Session
    from mypy_boto3_sqs import SQSClient

CONCURRENT_CALLS = 10
"""Calls of one task in progress at once, and connections of its client."""

_READ_TIMEOUT_SECONDS = 30
"""Longer than a long poll, which takes 20 s at most."""

TRIES_ONCE = Config(retries={"mode": "standard", "total_max_attempts": 1})
"""Settings of a client that never repeats a call by itself."""

_REGION_IN_HOST = re.compile(
    r"(?:^|\.)(?:sqs|sqs-fips)\.(?P<a>[a-z]+(?:-[a-z]+)+-\d)\.|^(?P<b>[a-z]+(?:-[a-z]+)+-\d)\.queue\."
)


_making_client = Lock()
"""A session must not make clients in two threads at once."""

ClientFactory = Callable[[str], "SQSClient"]
"""Makes a client for the queue of a URL, which threads may share. Picklable: Spark sends it to
tasks."""


def aws_session() -> "Session":
    """Return this process's session for AWS.

    Its Region is that of ``AWS_REGION``, which boto3 does not read, else of ``AWS_DEFAULT_REGION``,
    else of the profile. ``dlq`` sets variables for ``--region`` and ``--profile``; processes that
    it starts, Spark's workers among them, inherit them.

    Raises:
        InputError: there is no such profile.
    """
    profile = os.environ.get("AWS_DEFAULT_PROFILE") or os.environ.get("AWS_PROFILE")
    return session_of(os.environ.get("AWS_REGION"), profile)


@cache
def session_of(region: str | None, profile: str | None) -> "Session":
    """Return the one session of these; see ``aws_session``."""
    try:
        return with_checked_answers(boto3.session.Session(region_name=region or None))
    except ProfileNotFound as error:
        raise InputError(
            f"profile {profile}: the AWS configuration has no such profile; "
            "`aws configure list-profiles` lists them"
        ) from error


def aws_client(service: str, config: Config | None = None, region: str | None = None) -> Any:  # noqa: ANN401 - any client
    """Make a client with the session of ``aws_session``; *region* instead of the session's."""
    with _making_client:
        make: Callable[..., Any] = aws_session().client
        return make(service, region_name=region, config=config)


def sqs_client(queue_url: str) -> "SQSClient":
    """Make a client for a queue."""
    return _client(queue_url, Config(read_timeout=_READ_TIMEOUT_SECONDS))


def sqs_sender(queue_url: str) -> "SQSClient":
    """Make a client that tries each call once.

    A retry by botocore after a lost answer would send a message twice without a trace.
    """
    return _client(queue_url, TRIES_ONCE)


def _client(queue_url: str, config: Config) -> "SQSClient":
    config = client_config(CONCURRENT_CALLS).merge(config)
    return cast("SQSClient", _client_beside(queue_url, "sqs", config))


def _client_beside(queue_url: str, service: str, config: Config) -> Any:  # noqa: ANN401 - any client
    return aws_client(service, config, region_of(queue_url, aws_session().region_name))


def tagging_client(queue_url: str) -> Any:  # noqa: ANN401 - boto3's
    """Make a client of the Resource Groups Tagging API in the Region of a queue."""
    return _client_beside(queue_url, "resourcegroupstaggingapi", Config())


def breaker_table(failure_table: str, queue_url: str) -> DynamoDbBreaker:
    """Return the circuit breaker of a queue."""
    client = _client_beside(queue_url, "dynamodb", table_client_config())
    name = QueueAddress.from_url(queue_url).name
    return DynamoDbBreaker(client, failure_table, name, lambda: int(time.time()))


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit of replays to a main queue.

    Attributes:
        per_minute: replays; None for no limit.
        sentence: the limit in words; empty without one.
        fault: why the limit is not known; empty if it is.
        unjudged: why no limit is set, whatever the consumer does; empty if one can be set.
    """

    per_minute: int | None = None
    sentence: str = ""
    fault: str = ""
    unjudged: str = ""

    def least_rate(self, max_rate: float | None) -> float | None:
        """The lower one of *max_rate*, messages a second, and the limit; None for neither."""
        limit_rate = self.per_minute / 60 if self.per_minute else None
        return min(filter(None, (max_rate, limit_rate)), default=None)


def read_limit(failure_table: str | None, queue_url: str) -> Limit:
    """Read the limit of a queue; there is none without a table. Never raises an error of AWS."""
    if failure_table is None:
        return Limit()
    try:
        numbers = breaker_table(failure_table, queue_url).read()
    except TableError as error:
        return Limit(fault=str(error))

    rules = rules_for(QueueAddress.from_url(queue_url))
    view = BreakerView(numbers, int(time.time()), rules)
    return Limit(view.limit, view.in_words, unjudged=view.unjudged_in_words)


def returns_table(failure_table: str, queue_url: str) -> ReturnsTable:
    """Return the counters of returned messages of a queue's redrives."""
    client = _client_beside(queue_url, "dynamodb", table_client_config())
    return ReturnsTable(client, failure_table, lambda: int(time.time()))


def region_of(queue_url: str, fallback: str | None) -> str:
    """Return the Region in the URL's host, else *fallback*."""
    host = urlsplit(queue_url).hostname or ""
    match = _REGION_IN_HOST.search(host)
    region = (match["a"] or match["b"]) if match else fallback
    if not region:
        raise InputError(
            f"queue {queue_url}: its host names no Region; set AWS_REGION, e.g. eu-west-1"
        )
    return region


def require_queue_url(option: str, url: str) -> QueueAddress:
    """Parse the queue URL that was given as *option*; raise InputError if it is none."""
    try:
        return QueueAddress.from_url(url)
    except ValueError as error:
        raise InputError(f"{option} {url}: {error}") from error


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """The numbers of messages that SQS counts in a queue.

    All three numbers are approximate and may lag by a minute: SQS API, GetQueueAttributes.

    Attributes:
        visible: can be received now; on a FIFO queue also those behind one in flight.
        in_flight: received, neither deleted nor visible again yet.
        delayed: not yet visible for the first time.
    """

    visible: int = 0
    in_flight: int = 0
    delayed: int = 0

    @classmethod
    def of(cls, attributes: Mapping[str, str]) -> Self:
        """Read the counts from a queue's attributes."""
        return cls(
            visible=int(attributes.get("ApproximateNumberOfMessages", 0)),
            in_flight=int(attributes.get("ApproximateNumberOfMessagesNotVisible", 0)),
            delayed=int(attributes.get("ApproximateNumberOfMessagesDelayed", 0)),
        )

    @property
    def total(self) -> int:
        """The sum of all three."""
        return self.visible + self.in_flight + self.delayed


@dataclass(frozen=True, slots=True)
class DescribedQueue:
    """A queue as GetQueueAttributes describes it. A policy that cannot be read is none.

    Attributes:
        attributes: as GetQueueAttributes names and spells them.
    """

    url: str
    attributes: Mapping[str, str]

    @property
    def arn(self) -> str:
        """Its ARN."""
        return self.attributes["QueueArn"]

    @property
    def name(self) -> str:
        """Its name."""
        return self.arn.rpartition(":")[2]

    @property
    def is_fifo(self) -> bool:
        """True for a FIFO queue."""
        return self.name.endswith(".fifo")

    @property
    def counts(self) -> QueueCounts:
        """The numbers of messages that SQS counts in it."""
        return QueueCounts.of(self.attributes)

    @property
    def retention_seconds(self) -> int:
        """MessageRetentionPeriod."""
        return int(self.attributes["MessageRetentionPeriod"])

    @property
    def visibility_timeout_seconds(self) -> int:
        """VisibilityTimeout: of a receive that requests no other."""
        return int(self.attributes.get("VisibilityTimeout", 30))

    @property
    def delay_seconds(self) -> int:
        """The time by which the queue itself delays every message."""
        return int(self.attributes.get("DelaySeconds", 0))

    @property
    def customer_key(self) -> str | None:
        """The KMS key that encrypts it, None where that is SQS's own or AWS's for SQS."""
        key = self.attributes.get("KmsMasterKeyId")
        return None if not key or key.endswith("alias/aws/sqs") else key

    @property
    def redrive_target_arn(self) -> str | None:
        """The queue to which SQS moves messages that were received too often."""
        return self._policy("RedrivePolicy").get("deadLetterTargetArn")

    @property
    def max_receive_count(self) -> int | None:
        """The number of receives after which SQS moves a message there."""
        count = self._policy("RedrivePolicy").get("maxReceiveCount")
        return None if count is None else int(count)

    @property
    def failure_seconds(self) -> int:
        """The time that a message that always fails takes from its first receive to the DLQ."""
        return self.visibility_timeout_seconds * (self.max_receive_count or 0)

    @property
    def dead_letter_url(self) -> str | None:
        """The URL of the DLQ, in the Region of this queue; None without a DLQ."""
        arn = self.redrive_target_arn
        return QueueAddress.from_arn(arn).url_beside(self.url) if arn else None

    def lets_in(self, source_arn: str) -> bool:
        """Return whether its redrive allow policy admits dead letters of *source_arn*."""
        policy = self._policy("RedriveAllowPolicy")
        permission = policy.get("redrivePermission", "allowAll")
        if permission == "byQueue":
            return source_arn in policy.get("sourceQueueArns", [])
        return bool(permission == "allowAll")

    def _policy(self, name: str) -> dict[str, Any]:
        try:
            return dict(json.loads(self.attributes.get(name) or "{}"))
        except (TypeError, ValueError):
            return {}


def described(url: str, make_client: ClientFactory) -> DescribedQueue:
    """Ask SQS for a queue; raise QueueError if it does not describe it."""
    return DescribedQueue(url, SqsQueue(make_client(url), url).describe())


def require_queue(option: str, url: str, make_client: ClientFactory) -> DescribedQueue:
    """Describe the queue that was given as *option*.

    Raises:
        InputError: *url* is not a queue URL, or SQS does not return the queue's attributes.
    """
    require_queue_url(option, url)
    try:
        return described(url, make_client)
    except QueueError as error:
        raise InputError(
            f"{option}: {error}; check the URL, the Region, the credentials and AWS_ENDPOINT_URL"
        ) from error


def find_queue(name: str) -> DescribedQueue:
    """Describe the queue of a URL, an ARN, or a name in the Region and account of the session.

    Raises:
        InputError: there is no such queue, or SQS does not describe it.
    """
    url = name if "://" in name else _url_of(name)
    return require_queue("QUEUE", url, sqs_client)


def _url_of(name: str) -> str:
    """Ask SQS for the URL of a queue, by its ARN or its name."""
    region = aws_session().region_name
    request = {"QueueName": name}
    if name.startswith("arn:"):
        try:
            address = QueueAddress.from_arn(name)
        except ValueError as error:
            raise InputError(f"QUEUE {name}: {error}") from error
        region = name.split(":")[3]
        request = {"QueueName": address.name, "QueueOwnerAWSAccountId": address.account_id}
    if region is None:
        raise InputError(f"QUEUE {name}: no Region; set --region or AWS_REGION, or give its URL")

    client = aws_client("sqs", client_config(CONCURRENT_CALLS), region)
    try:
        return str(client.get_queue_url(**request)["QueueUrl"])
    except (ClientError, BotoCoreError) as error:
        raise InputError(
            f"QUEUE {name}: {describe(error)}; give the URL, the ARN, or the name of a queue in "
            f"Region {region} and in the account of the credentials"
        ) from error


def queue_counts(queue: SqsQueue) -> QueueCounts | None:
    """Return the counts of a queue; None if SQS does not answer."""
    try:
        return QueueCounts.of(queue.describe())
    except QueueError:
        return None


def dead_letter_sources(
    queue_url: str, make_client: ClientFactory
) -> dict[QueueAddress, str] | None:
    """Return the URLs of the queues with this DLQ; None if SQS does not answer."""
    try:
        sources = SqsQueue(make_client(queue_url), queue_url).sources()
    except QueueError:
        return None
    return {source: source.url_beside(queue_url) for source in sources}
