"""Clients of the server that a queue's URL names; Spark's workers import no more than this."""

import os
from functools import cache
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import botocore.session

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


def client_at(queue_url: str) -> "SQSClient":
    """A client for the server that the URL names."""
    parts = urlsplit(queue_url)
    return _client(f"{parts.scheme}://{parts.netloc}")


@cache
def _client(endpoint: str) -> "SQSClient":
    client: Any = botocore.session.get_session().create_client(
        "sqs", endpoint_url=endpoint, region_name=os.environ["AWS_REGION"]
    )
    return cast("SQSClient", client)
