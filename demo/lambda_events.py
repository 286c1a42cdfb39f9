"""Lambda's side of an SQS event: the records it builds, and how it reads the answer. Pure."""

import base64
import hashlib
import json
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demo.world import REGION


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an answer makes of its batch.

    Attributes:
        failed: message ids that stay in the queue; Lambda deletes all others.
        fault: why the whole batch counts as failed; None where the answer was understood.
    """

    failed: frozenset[str]
    fault: str | None = None


def to_event(
    messages: Sequence[Mapping[str, Any]], queue_arn: str, dead_letter_source_arn: str | None
) -> dict[str, Any]:
    """Build the event for messages of a ReceiveMessage answer."""
    return {"Records": [to_record(m, queue_arn, dead_letter_source_arn) for m in messages]}


def to_record(
    message: Mapping[str, Any], queue_arn: str, dead_letter_source_arn: str | None
) -> dict[str, Any]:
    """Build one record.

    *dead_letter_source_arn* is what SQS notes on a message that a redrive policy moved; the
    embedded server does not, so that it is given here.
    """
    system = dict(message.get("Attributes", {}))
    if dead_letter_source_arn:
        system.setdefault("DeadLetterQueueSourceArn", dead_letter_source_arn)
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": system,
        "messageAttributes": {
            name: _attribute(raw) for name, raw in message.get("MessageAttributes", {}).items()
        },
        "md5OfBody": hashlib.md5(message["Body"].encode(), usedforsecurity=False).hexdigest(),
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": REGION,
    }


def _attribute(raw: Mapping[str, Any]) -> dict[str, Any]:
    shared = {"stringListValues": [], "binaryListValues": [], "dataType": raw["DataType"]}
    if "BinaryValue" in raw:
        return {"binaryValue": base64.b64encode(raw["BinaryValue"]).decode(), **shared}
    return {"stringValue": raw["StringValue"], **shared}


def interpret(answer: object, message_ids: Collection[str]) -> Verdict:
    """Read a partial batch response as Lambda does.

    Success of all: nothing, an empty object, an empty or null list. Failure of all: what is no
    JSON or has another shape, or names an empty or an unknown message id. See
    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html
    """
    try:
        return Verdict(_failures(_as_json(answer), message_ids))
    except ValueError as error:
        return Verdict(frozenset(message_ids), str(error))


def _as_json(answer: object) -> object:
    try:
        return json.loads(json.dumps(answer, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"the answer is no JSON: {error}") from None


def _failures(answer: object, message_ids: Collection[str]) -> frozenset[str]:
    if answer is None or answer == "":
        return frozenset()
    if not isinstance(answer, dict):
        raise ValueError("the answer is no object")  # noqa: TRY004 - one error type for the caller
    items = answer.get("batchItemFailures")
    if items is None:
        return frozenset()
    if not isinstance(items, list):
        raise ValueError("batchItemFailures is no list")  # noqa: TRY004 - as above
    return frozenset(_identifier(item, message_ids) for item in items)


def _identifier(item: object, message_ids: Collection[str]) -> str:
    identifier = item.get("itemIdentifier") if isinstance(item, dict) else None
    if not isinstance(identifier, str) or not identifier:
        raise ValueError("an item has no itemIdentifier")
    if identifier not in message_ids:
        raise ValueError(f"itemIdentifier {identifier} is not in the batch")
    return identifier


def new_request_id() -> str:
    """An id as Lambda gives to each invocation."""
    return str(uuid.uuid4())
