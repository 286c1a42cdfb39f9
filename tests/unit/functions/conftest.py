"""Fixtures of tests of functions."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from functions.reminder import handler
from tests.support.notices import BUCKET, Account


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")  # as Lambda does
    with mock_aws():
        sqs = boto3.client("sqs")
        sns = boto3.client("sns")
        s3 = boto3.client("s3")

        s3.create_bucket(Bucket=BUCKET)
        parked_url = sqs.create_queue(QueueName="parked")["QueueUrl"]
        inbox_url = sqs.create_queue(QueueName="inbox")["QueueUrl"]
        inbox = sqs.get_queue_attributes(QueueUrl=inbox_url, AttributeNames=["QueueArn"])
        topic = sns.create_topic(Name="alarms")["TopicArn"]
        sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=inbox["Attributes"]["QueueArn"])

        variables = {
            "MAIN_QUEUE_NAME": "orders",
            "PARKED_QUEUE_URL": parked_url,
            "TOPIC_ARN": topic,
            "ARCHIVE_BUCKET": BUCKET,
            "ARCHIVE_PREFIX": "archive/",
            "SHOWS_SAMPLES": "false",
            "STACK_NAME": "shop-dlq",
            "SPARK_JOB": "",
            "QUEUE_TAG": "",
            "FIFO_PARKED_QUEUE_URL": "",
        }
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

        handler._client.cache_clear()  # noqa: SLF001 - clients outlive an invocation, not a test
        yield Account(sqs, s3, boto3.client("cloudwatch"), parked_url, inbox_url)
        handler._client.cache_clear()  # noqa: SLF001


@pytest.fixture
def published(account: Account) -> list[dict[str, Any]]:
    """The requests to publish, as they reach SNS."""
    del account
    requests: list[dict[str, Any]] = []

    def record(params: dict[str, Any], **_: object) -> None:
        requests.append(dict(params))

    events = handler._client("sns").meta.events  # noqa: SLF001
    events.register("provide-client-params.sns.Publish", record)
    return requests
