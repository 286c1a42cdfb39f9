"""Processes a message once, even if it is delivered twice.

Uses Powertools Idempotency. The key is the message's first id, or one that the consumer reads from
the message. Needs aws_lambda_powertools (in the layer) and boto3 (in the Lambda runtime).
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyAlreadyInProgressError

from dlq_replay.consumer.errors import InProgressError
from dlq_replay.consumer.identity import Received, first_id
from dlq_replay.errors import MalformedMessageError, SettingsError

R = TypeVar("R", bound=Received)

REMEMBER_SECONDS = 30 * 24 * 3600
CRASHED_AFTER_SECONDS = 900
"""No Lambda invocation lasts longer."""

_NOT_PLAIN = "idempotent_by_first_id: the handler must be a plain function, not an async one"


def idempotent_by_first_id(
    table_name: str,
    *,
    consumer: str,
    key: Callable[[Any], str] | None = None,
    remember_seconds: int = REMEMBER_SECONDS,
    crashed_after_seconds: int = CRASHED_AFTER_SECONDS,
    client: object = None,
) -> Callable[[Callable[[R], object]], Callable[[R], None]]:
    """Make a record handler process each message once, for any number of deliveries and copies.

    The handler is a synchronous function of one argument, ``record``, in any form that ``first_id``
    takes. Its return value is dropped, so that the table has a hash of the key and nothing of the
    message. A message that was processed before is skipped without an error: the caller deletes it.
    When the handler raises, the message counts as not processed.

    "Once" means: completed once. After a crash in the middle the handler runs again from its start;
    also after a crash between its last line and the write to the table.

    Args:
        table_name: a DynamoDB table with the partition key ``id`` (String), and ``expiration`` as
            its time-to-live attribute. Needs GetItem, PutItem, UpdateItem and DeleteItem.
        consumer: the name of this consumer in the table, so that several can share the table. After
            a change of the name, messages that were processed before are not recognised.
        key: a function of the record that returns text, not blank, such as the request id in the
            body. Messages with the same key count as one message: the first is processed, the
            others are skipped. The table has a hash of the key. Without *key*, the first id is
            used. After a change, messages that were processed before are not recognised.
        remember_seconds: how long a processed message is recognised, at least 1; default 30 days.
        crashed_after_seconds: at least 1. After this time a message that was started but not
            completed may be processed again. It must exceed the handler's longest run; in a Lambda
            the function's timeout is enough.
        client: a boto3 DynamoDB client. Without one, boto3's default session makes it at the first
            message.

    Raises:
        SettingsError: an argument is out of range.

        TypeError: the handler is async. It would be marked as done before it ran, and its message
            would be lost.

    The decorated handler raises:
        InProgressError: another worker is processing the message, or crashed a short time ago.
            Report it as failed.
        MalformedMessageError: the record has no message id, or *key* returned no text or blank
            text. The handler did not run. Report it as failed.
        Any exception of *key*: the handler did not run. Report it as failed.
        IdempotencyPersistenceLayerError: from Powertools; the table could not be read or written.
            Report it as failed. If the handler has ended by then, it will run again.
    """
    _require(table_name, consumer, key, remember_seconds, crashed_after_seconds)
    config = IdempotencyConfig(
        raise_on_no_idempotency_key=True,
        expires_after_seconds=remember_seconds,
        hash_function="sha256",
        lambda_context=_Deadline(crashed_after_seconds),  # type: ignore[arg-type]
    )

    def decorate(handler: Callable[[R], object]) -> Callable[[R], None]:
        if inspect.iscoroutinefunction(handler):
            raise TypeError(_NOT_PLAIN)

        @functools.cache
        def run_once() -> Callable[..., None]:
            # Not at import: a client needs a Region and credentials.
            store = DynamoDBPersistenceLayer(table_name, boto3_client=client)
            return _noted_in(store, config, consumer, handler)

        @functools.wraps(handler)
        def handle_once(record: R) -> None:
            record_key = first_id(record) if key is None else _checked(key(record))
            try:
                run_once()(key=record_key, record=record)
            except IdempotencyAlreadyInProgressError as error:
                # The text is logged and recorded, so not the key: it may be a part of the body.
                raise InProgressError(first_id(record)) from error

        return handle_once

    return decorate


def _checked(key: object) -> str:
    if not isinstance(key, str):
        raise MalformedMessageError(f"idempotency key: must be text, not {type(key).__name__}")
    if not key.strip():
        raise MalformedMessageError("idempotency key: must not be blank")
    return key


def _noted_in(
    store: DynamoDBPersistenceLayer,
    config: IdempotencyConfig,
    consumer: str,
    handler: Callable[[R], object],
) -> Callable[..., None]:
    def run(*, key: str, record: R) -> None:  # noqa: ARG001 - Powertools reads the key
        if inspect.isawaitable(handler(record)):
            raise TypeError(_NOT_PLAIN)

    noted: Callable[..., None] = idempotent_function(
        run,
        data_keyword_argument="key",
        persistence_store=store,
        config=config,
        key_prefix=consumer,
    )
    return noted


@dataclass(frozen=True, slots=True)
class _Deadline:
    """Replaces Lambda's context: Powertools only reads the remaining time.

    Without it, a record that a crash left would never count as crashed, and the message would be
    refused for ``remember_seconds``.
    """

    seconds: int

    def get_remaining_time_in_millis(self) -> int:
        return self.seconds * 1000


def _require(
    table_name: str,
    consumer: str,
    key: object,
    remember_seconds: int,
    crashed_after_seconds: int,
) -> None:
    texts = {"table_name": table_name, "consumer": consumer}
    numbers = {"remember_seconds": remember_seconds, "crashed_after_seconds": crashed_after_seconds}
    faults = [f"{name}: must not be empty" for name, value in texts.items() if not value]
    if key is not None and not callable(key):
        faults.append(f"key: {key!r} must be a function of the record")
    faults += [
        f"{name}: {value!r} must be a whole number of at least 1"
        for name, value in numbers.items()
        if type(value) is not int or value < 1
    ]
    if faults:
        raise SettingsError(faults)
