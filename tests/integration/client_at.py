"""Clients of the server that a queue's URL names; Spark's workers import no more than this."""

import os
from functools import cache
from typing import TYPE_CHECKING
from unittest.mock import patch
from urllib.parse import urlsplit

from dlq.aws.clients import sqs_sender

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


@cache
def client_at(queue_url: str) -> "SQSClient":
    """The product's sender for the server that the URL names, whatever the environment says."""
    parts = urlsplit(queue_url)
    with patch.dict(os.environ, AWS_ENDPOINT_URL=f"{parts.scheme}://{parts.netloc}"):
        return sqs_sender(queue_url)
