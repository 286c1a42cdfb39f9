"""Powertools' own code against moto's DynamoDB over HTTP."""

import itertools
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyPersistenceLayerError,
)
from botocore.exceptions import ClientError

from dlq_replay.consumer.idempotency import idempotent_by_first_id
from dlq_replay.errors import MalformedMessageError
from dlq_replay.wire.message import Message
from tests.support.builders import context, lambda_record, message, received
from tests.support.failure_table import create_table

if TYPE_CHECKING:
    from collections.abc import Callable

Record = dict[str, Any]

_numbers = itertools.count(1)


class Killed(BaseException):
    """Ends a handler as the end of its process would: nobody tidies up."""


class Later:
    """An awaitable, as an async function returns it."""

    def __await__(self) -> Iterator[None]:
        yield


class Table:
    """A table of its own for each test."""

    def __init__(self, endpoint: str) -> None:
        # No stubs of DynamoDB are installed.
        make: Callable[..., Any] = boto3.client
        self.client = make("dynamodb", endpoint_url=endpoint, region_name="us-east-1")
        self.name = f"processed-{next(_numbers)}"
        create_table(self.client, self.name, "id")

    def items(self) -> list[dict[str, Any]]:
        return list(self.client.scan(TableName=self.name)["Items"])

    def age(self, attribute: str) -> None:
        """Let the time in that attribute of every item be long past."""
        for item in self.items():
            self.client.update_item(
                TableName=self.name,
                Key={"id": item["id"]},
                UpdateExpression="SET #a = :past",
                ExpressionAttributeNames={"#a": attribute},
                ExpressionAttributeValues={":past": {"N": "1"}},
            )


class Refusing:
    """A client of which one operation is refused."""

    def __init__(self, client: Any, operation: str, code: str) -> None:
        self.client = client
        self.operation = operation
        self.error = ClientError({"Error": {"Code": code, "Message": "no"}}, operation)

    def __getattr__(self, name: str) -> Any:
        return self._refuse if name == self.operation else getattr(self.client, name)

    def _refuse(self, **_: object) -> None:
        raise self.error


class Handler:
    """Counts what it is given; fails where it is told to."""

    def __init__(self, table: Table, **options: Any) -> None:
        self.seen: list[str] = []
        self.failures: list[BaseException] = []
        decorate = idempotent_by_first_id(
            table.name, **{"consumer": "orders", "client": table.client, **options}
        )

        @decorate
        def handle(record: Record) -> object:
            self.seen.append(str(record.get("messageId", record.get("MessageId"))))
            if self.failures:
                raise self.failures.pop()
            return object()  # no JSON, and none is needed

        self.handle: Callable[..., None] = handle

    def fail(self, error: BaseException, record: Record) -> None:
        self.failures.append(error)
        with pytest.raises(type(error)):
            self.handle(record)


@pytest.fixture
def table(moto_endpoint: str) -> Table:
    return Table(moto_endpoint)


def copies() -> list[Message]:
    """A message, its redelivery, and two replayed copies of it."""
    return [
        message("first"),
        message("first"),
        message("copy-1", attributes=context(first_id="first")),
        message("copy-2", attributes=context(first_id="first", plan_id="p")),
    ]


def test_message_that_comes_again_is_processed_once_whatever_its_copy(table: Table) -> None:
    handler = Handler(table)
    for copy in [*copies(), message("other")]:
        handler.handle(lambda_record(copy))
        handler.handle(record=received(copy))

    assert handler.seen == ["first", "other"]


def test_crash_in_the_middle_refuses_the_message_until_its_worker_counts_as_crashed(
    table: Table,
) -> None:
    handler = Handler(table)
    handler.fail(Killed(), lambda_record(message("first")))
    copy = lambda_record(copies()[2])

    with pytest.raises(IdempotencyAlreadyInProgressError):
        handler.handle(copy)
    assert handler.seen == ["first"]

    table.age("in_progress_expiration")
    handler.handle(copy)
    handler.handle(copy)

    assert handler.seen == ["first", "copy-1"]


def test_table_holds_nothing_of_the_message(table: Table) -> None:
    Handler(table).handle(lambda_record(message("first", body="a secret")))
    (item,) = table.items()

    assert set(item) <= {"id", "expiration", "in_progress_expiration", "status", "data"}
    assert item["id"]["S"].startswith("orders#")
    assert "secret" not in str(item)


@pytest.mark.parametrize(
    "code", ["AccessDeniedException", "ProvisionedThroughputExceededException", None]
)
def test_refused_or_missing_table_fails_the_message_before_it_is_processed(
    table: Table, code: str | None
) -> None:
    client = Refusing(table.client, "put_item", code) if code else table.client
    handler = Handler(table, client=client)
    if code is None:
        table.client.delete_table(TableName=table.name)

    with pytest.raises(IdempotencyPersistenceLayerError):
        handler.handle(lambda_record(message("first")))
    assert handler.seen == []


def test_note_that_fails_leaves_the_message_to_be_processed_again_after_a_while(
    table: Table,
) -> None:
    refusing = Refusing(table.client, "update_item", "InternalServerError")
    handler = Handler(table, client=refusing)
    with pytest.raises(IdempotencyPersistenceLayerError):
        handler.handle(lambda_record(message("first")))
    refusing.operation = ""
    with pytest.raises(IdempotencyAlreadyInProgressError):
        handler.handle(lambda_record(message("first")))
    assert handler.seen == ["first"]

    table.age("in_progress_expiration")
    handler.handle(lambda_record(message("first")))

    assert handler.seen == ["first", "first"]


def request_id(record: Record) -> str:
    """Read the key that a producer gave its request, as a consumer would."""
    return str(json.loads(record["body"])["request_id"])


def request(message_id: str, request_id: str, **fields: Any) -> Record:
    return lambda_record(message(message_id, body=json.dumps({"request_id": request_id}), **fields))


def test_key_of_the_user_makes_several_messages_one_and_replaces_the_first_id(table: Table) -> None:
    handler = Handler(table, key=request_id)
    records = [
        request("m-1", "r-1"),
        request("m-1", "r-1"),
        request("m-2", "r-1"),
        request("m-3", "r-2"),
        request("copy-1", "r-1", attributes=context(first_id="m-1")),
        request("copy-2", "r-3", attributes=context(first_id="m-1")),
    ]
    handler.fail(ZeroDivisionError(), records[0])
    for record in records:
        handler.handle(record)

    assert handler.seen == ["m-1", "m-1", "m-3", "copy-2"]


def test_key_of_the_user_stands_neither_in_the_table_nor_in_an_error(table: Table) -> None:
    handler = Handler(table, key=request_id)
    handler.fail(Killed(), request("m-1", "bob@example.com"))
    with pytest.raises(IdempotencyAlreadyInProgressError) as raised:
        handler.handle(request("m-2", "bob@example.com"))

    assert "bob" not in f"{raised.value} {table.items()}"


BAD_KEY = (MalformedMessageError, r"^idempotency key: must be text, not blank$")


@pytest.mark.parametrize(
    ("key", "record", "error", "error_message"),
    [
        (None, {"body": "x"}, MalformedMessageError, "id"),
        *((lambda _, key=key: key, {}, *BAD_KEY) for key in ("", " ", None, 7, b"r-1", ["r-1"])),
        (request_id, {"body": "no JSON"}, json.JSONDecodeError, "Expecting value"),
    ],
)
def test_record_without_a_key_is_refused_before_the_handler_runs(
    table: Table, key: Any, record: Record, error: type[Exception], error_message: str
) -> None:
    handler = Handler(table, key=key) if key else Handler(table)

    with pytest.raises(error, match=error_message):
        handler.handle(record or lambda_record(message("m-1")))
    assert handler.seen == []
    assert table.items() == []


def test_handler_that_turns_out_async_does_not_count_as_having_processed(table: Table) -> None:
    decorate = idempotent_by_first_id(table.name, consumer="orders", client=table.client)
    handle = decorate(lambda _: Later())

    for _ in range(2):
        with pytest.raises(TypeError, match="plain function"):
            handle(lambda_record(message("first")))
    assert table.items() == []
