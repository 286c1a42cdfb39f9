"""The two clients that are compared: botocore's, and the direct one that is made of it."""

from typing import TYPE_CHECKING, Any

import botocore.session
from botocore.config import Config

from dlq_replay.direct_client import direct_client
from dlq_replay.sqs import client_config

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


def both(endpoint: str, **config: Any) -> "tuple[SQSClient, SQSClient]":
    """botocore's client, and the direct one that was made of it."""
    session = botocore.session.get_session()
    client: Any = session.create_client(
        "sqs", "us-east-1", endpoint_url=endpoint, config=client_config(4).merge(Config(**config))
    )
    return client, direct_client(client, session)


def once(endpoint: str, **config: Any) -> "tuple[SQSClient, SQSClient]":
    return both(endpoint, retries={"mode": "standard", "total_max_attempts": 1}, **config)
