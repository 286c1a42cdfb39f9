"""Processes a message once, even if it is delivered twice: Powertools Idempotency, set up for SQS.

Needs aws_lambda_powertools (in the layer) and boto3 (in the Lambda runtime).
"""

import functools
import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeVar

import boto3
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)

from dlq_replay.aws.answers import with_checked_answers
from dlq_replay.consumer.identity import Received, first_id
from dlq_replay.errors import MalformedMessageError

R = TypeVar("R", bound=Received)


def idempotent_by_first_id(
    table_name: str,
    *,
    consumer: str,
    key: Callable[[Any], str] = first_id,
    remember_seconds: int = 30 * 24 * 3600,
    crashed_after_seconds: int = 900,
    client: object = None,
) -> Callable[[Callable[[R], object]], Callable[[R], None]]:
    """Make a record handler process each message once, for any number of deliveries and copies.

    The handler is a synchronous function of one argument, ``record``, in any form that ``first_id``
    takes. Its return value is dropped, so that the table has a hash of the key and nothing of the
    message. A message that was processed before is skipped without an error: the caller deletes it.
    When the handler raises, the message counts as not processed. After a crash, also one between
    its last line and the write to the table, the handler runs again from its start.

    Args:
        table_name: a DynamoDB table with the partition key ``id`` (String), and ``expiration`` as
            its time-to-live attribute. Needs GetItem, PutItem, UpdateItem and DeleteItem.
        consumer: the name of this consumer in the table, so that several can share the table. After
            a change of *consumer* or *key*, messages that were processed before are not recognised.
        key: returns text of the record, not blank, such as the request id in the body. Messages
            with the same key count as one.
        remember_seconds: how long a processed message is recognised.
        crashed_after_seconds: after this time a message that was started but not completed may be
            processed again. It must exceed the handler's longest run; no Lambda exceeds 900 s.
        client: a boto3 DynamoDB client; else one is made at the first message.

    The decorated handler raises the exceptions of the handler and of *key*, and what follows;
    report the message as failed:
        IdempotencyAlreadyInProgressError: from Powertools; another worker is processing the
            message, or crashed a short time ago.
        IdempotencyPersistenceLayerError: from Powertools; the table could not be read or written.
        MalformedMessageError: the record has no message id, or *key* returned no text.
        TypeError: the handler is async. The message counts as not processed.
    """
    config = IdempotencyConfig(
        expires_after_seconds=remember_seconds,
        hash_function="sha256",
        # Without it, a record that a crash left would never count as crashed.
        lambda_context=SimpleNamespace(  # type: ignore[arg-type]
            get_remaining_time_in_millis=lambda: crashed_after_seconds * 1000
        ),
    )

    @functools.cache
    def store() -> DynamoDBPersistenceLayer:
        # Not at import: a client needs a Region and credentials.
        made: Any = client or with_checked_answers(boto3.session.Session()).client("dynamodb")
        return DynamoDBPersistenceLayer(table_name, boto3_client=made)

    def decorate(handler: Callable[[R], object]) -> Callable[[R], None]:
        def run(*, key: str, record: R) -> None:  # noqa: ARG001 - Powertools reads the key
            if inspect.isawaitable(handler(record)):
                # It would be marked as done before it ran, and its message would be lost.
                raise TypeError("idempotent_by_first_id: the handler must be a plain function")

        @functools.wraps(handler)
        def handle_once(record: R) -> None:
            record_key: object = key(record)
            # Powertools would take all blank keys for one message.
            if not isinstance(record_key, str) or not record_key.strip():
                raise MalformedMessageError("idempotency key: must be text, not blank")
            once = idempotent_function(
                run,
                data_keyword_argument="key",
                persistence_store=store(),
                config=config,
                key_prefix=consumer,
            )
            once(key=record_key, record=record)

        return handle_once

    return decorate
