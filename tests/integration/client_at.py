"""Clients of the server that a queue's URL names; Spark's workers import no more than this."""

from functools import cache
from threading import Lock
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from dlq.aws.clients import CONCURRENT_CALLS, TRIES_ONCE, aws_session
from dlq_replay.aws.sqs import client_config

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

# A session must not make clients in two threads at once.
_making_client = Lock()


@cache
def client_at(queue_url: str) -> "SQSClient":
    """A client like the product's sender for the server that the URL names.

    The environment is not changed for it: threads of a task make clients, and others read it.
    """
    parts = urlsplit(queue_url)
    with _making_client:
        return aws_session().client(
            "sqs",
            endpoint_url=f"{parts.scheme}://{parts.netloc}",
            config=client_config(CONCURRENT_CALLS).merge(TRIES_ONCE),
        )
