"""ChangeMessageVisibilityBatch, result by result. Needs nothing but a client like boto3's."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_logger = logging.getLogger(__name__)

MAX_CHANGES = 10
"""Entries in one call."""

# SQS says by these that the receipt handle does not hold the message any more. Whatever else goes
# wrong (throttling, a denied call, a broken connection) may go right at the next try.
_GONE = frozenset({"InvalidParameterValue", "ReceiptHandleIsInvalid", "MessageNotInflight"})


class Verdict(Enum):
    """What became of one change."""

    CONFIRMED = auto()
    REFUSED = auto()
    """The handle does not hold the message; trying again is of no use."""
    FAILED = auto()
    """Not confirmed: perhaps done, perhaps not; to be tried again."""


@dataclass(frozen=True, slots=True)
class Change:
    """The result for one message.

    Attributes:
        code: SQS's error code, or the name of the exception; never its text, which quotes
            receipt handles.
    """

    verdict: Verdict
    code: str = ""


def change_visibility(
    client: "SQSClient", queue_url: str, changes: Sequence[tuple[str, int]]
) -> list[Change]:
    """Hide up to 10 messages, given by receipt handle, for so many seconds (0 to 43,200) from now.

    Never raises for anything that a client raises. One result each, in order.
    """
    entries: list[Any] = [
        {"Id": str(index), "ReceiptHandle": handle, "VisibilityTimeout": seconds}
        for index, (handle, seconds) in enumerate(changes)
    ]
    try:
        answer = client.change_message_visibility_batch(QueueUrl=queue_url, Entries=entries)
    except Exception as error:  # noqa: BLE001 - the next try is the answer to all of them
        return [Change(Verdict.FAILED, error_code(error))] * len(entries)
    return [_of_entry(answer, entry["Id"]) for entry in entries]


def log_unconfirmed(text: str, changes: Iterable[tuple[str, Change]]) -> None:
    """Warn of messages, by id, that SQS did not confirm: one line per error code."""
    by_code: dict[str, list[str]] = {}
    for message_id, change in changes:
        if change.verdict is not Verdict.CONFIRMED:
            by_code.setdefault(change.code, []).append(message_id)
    for code, ids in by_code.items():
        _logger.warning("%s: %s: %s", text, code, ", ".join(ids))


def error_code(error: Exception) -> str:
    """SQS's code where the exception carries one, as botocore's ClientError does; else its name."""
    response = getattr(error, "response", None)
    if isinstance(response, Mapping):
        return _plain(str(response.get("Error", {}).get("Code", "Unknown")))
    return type(error).__name__


def _of_entry(answer: Mapping[str, Any], entry_id: str) -> Change:
    for entry in answer.get("Successful", []):
        if entry["Id"] == entry_id:
            return Change(Verdict.CONFIRMED)
    for entry in answer.get("Failed", []):
        if entry["Id"] == entry_id:
            code = _plain(str(entry.get("Code", "Unknown")))
            return Change(Verdict.REFUSED if code in _GONE else Verdict.FAILED, code)
    return Change(Verdict.FAILED, "NotInAnswer")


def _plain(code: str) -> str:
    """The code alone, without ``AWS.SimpleQueueService.``."""
    return code.rpartition(".")[2]
