"""SQS clients, made where they are used: on the driver for questions, in each task for the work."""

import os
import re
from typing import TYPE_CHECKING, Protocol, cast
from urllib.parse import urlsplit

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from dlq_replay.addresses import QueueAddress
from dlq_replay.errors import QueueError
from dlq_replay.sqs import SqsQueue, client_config
from spark_reprocess.errors import InputError

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

CONCURRENT_CALLS = 10
"""Per task: calls that are under way at once, and connections of the client that makes them."""

_READ_TIMEOUT_SECONDS = 30
"""Longer than the longest long poll."""

_REGION_IN_HOST = re.compile(
    r"(?:^|\.)(?:sqs|sqs-fips)\.(?P<a>[a-z]+(?:-[a-z]+)+-\d)\.|^(?P<b>[a-z]+(?:-[a-z]+)+-\d)\.queue\."
)


class ClientFactory(Protocol):
    """Makes the client for one queue. Picklable: tasks carry it along."""

    def __call__(self, queue_url: str) -> "SQSClient":
        """Return a client that several threads may share."""


def sqs_client(queue_url: str) -> "SQSClient":
    """Make a client for the queue's Region; credentials and endpoint are boto3's own affair.

    Raises:
        InputError: nothing names a Region.
    """
    return _client(queue_url, Config(read_timeout=_READ_TIMEOUT_SECONDS))


def sqs_sender(queue_url: str) -> "SQSClient":
    """Make a client that tries each call once; otherwise as ``sqs_client``.

    A repeat by botocore after an answer that was lost sends twice and says nothing of it.

    Raises:
        InputError: nothing names a Region.
    """
    return _client(queue_url, Config(retries={"mode": "standard", "total_max_attempts": 1}))


def _client(queue_url: str, config: Config) -> "SQSClient":
    session = botocore.session.get_session()
    usual = os.environ.get("AWS_REGION") or session.get_config_variable("region")
    region = region_of(queue_url, usual)
    merged = client_config(CONCURRENT_CALLS).merge(config)
    client = session.create_client("sqs", region_name=region, config=merged)
    return cast("SQSClient", client)


def region_of(queue_url: str, fallback: str | None) -> str:
    """Return the Region that the URL's host names, else *fallback*.

    Raises:
        InputError: neither is known.
    """
    host = urlsplit(queue_url).hostname or ""
    match = _REGION_IN_HOST.search(host)
    region = (match["a"] or match["b"]) if match else fallback
    if not region:
        raise InputError(
            f"queue {queue_url}: its host names no Region; set AWS_REGION, e.g. eu-west-1"
        )
    return region


def require_queue_url(option: str, url: str) -> QueueAddress:
    """Read a queue URL that was given as *option*.

    Raises:
        InputError: it is none.
    """
    try:
        return QueueAddress.from_url(url)
    except ValueError as error:
        raise InputError(f"{option} {url}: {error}") from error


def require_queue(option: str, url: str, make_client: ClientFactory) -> dict[str, str]:
    """Ask SQS for the queue that was given as *option*; return its attributes by name.

    Raises:
        InputError: it is no queue URL, or SQS does not let us see such a queue.
    """
    require_queue_url(option, url)
    try:
        return dict(SqsQueue(make_client(url), url).describe())
    except QueueError as error:
        raise InputError(
            f"{option}: {error}; check the URL, the Region, the credentials and AWS_ENDPOINT_URL"
        ) from error


def dead_letter_sources(
    queue_url: str, make_client: ClientFactory
) -> dict[QueueAddress, str] | None:
    """Ask SQS which queues name this one as their dead-letter queue; None where it does not say.

    Returns:
        Their URLs.
    """
    pages = make_client(queue_url).get_paginator("list_dead_letter_source_queues")
    try:
        urls = [url for page in pages.paginate(QueueUrl=queue_url) for url in page["queueUrls"]]
    except (ClientError, BotoCoreError):
        return None
    return {QueueAddress.from_url(url): url for url in urls}
