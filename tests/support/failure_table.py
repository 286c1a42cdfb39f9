"""A table of failures in memory, and a consumer's records and exceptions that go into it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from aws_lambda_powertools.utilities.parser.models import SqsRecordModel

from dlq_replay.consumer.failure_recorder import FailureRecorder
from dlq_replay.rules.failures import Failure
from tests.support.builders import NOW


class CardRefusedError(Exception):
    pass


class PlainRecord(SqsRecordModel):
    """A parsed record, of the fields that tests' records have."""

    attributes: Any


def create_failure_table(dynamodb: Any, name: str) -> None:
    create_table(dynamodb, name, "message_id")


def create_table(dynamodb: Any, name: str, key: str) -> None:
    """Create a table as the templates do, in whichever account *dynamodb* speaks to."""
    dynamodb.create_table(
        TableName=name,
        KeySchema=[{"AttributeName": key, "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )


@dataclass
class FakeFailureTable:
    """Remembers each call; says *fault*, or raises *error*."""

    fault: str | None = None
    error: Exception | None = None
    calls: list[list[Failure]] = field(default_factory=list)

    def record(self, failures: Sequence[Failure]) -> str | None:
        self.calls.append(list(failures))
        if self.error:
            raise self.error
        return self.fault

    @cached_property
    def recorder(self) -> FailureRecorder:
        return FailureRecorder(self.record, now_seconds=lambda: NOW)

    @property
    def ids(self) -> list[list[str]]:
        return [[failure.message_id for failure in call] for call in self.calls]
