"""Receipt handles: their content, and when a deletion or a change by one is allowed."""

import base64
import binascii
from typing import NamedTuple, Self

from local_sqs.errors import (
    SqsError,
    expired_receipt,
    invalid_receipt,
    invalid_value,
    not_in_flight,
)
from local_sqs.values import State, StoredMessage

MAX_VISIBILITY_SECONDS = 43_200
"""12 hours, counted from the receive: SQSAPI, ChangeMessageVisibility."""

_MAX_VISIBILITY_MS = MAX_VISIBILITY_SECONDS * 1000

_PREFIX = "AQEB"


class Receipt(NamedTuple):
    """The content of a handle: queue, message and receive."""

    queue_serial: int
    message_id: str
    receive_number: int
    received_ms: int

    def to_handle(self) -> str:
        text = "|".join(str(part) for part in self)
        return _PREFIX + base64.urlsafe_b64encode(text.encode()).decode()

    @classmethod
    def from_handle(cls, handle: str, queue_serial: int) -> Self:
        """Read a handle of the queue *queue_serial*.

        Raises:
            SqsError: it is not a handle, or it is another queue's.
        """
        try:
            text = base64.urlsafe_b64decode(handle.removeprefix(_PREFIX)).decode()
            serial, message_id, number, received_ms = text.split("|")
            receipt = cls(int(serial), message_id, int(number), int(received_ms))
        except (ValueError, binascii.Error) as error:
            raise invalid_receipt(handle) from error
        if receipt.queue_serial != queue_serial:
            raise invalid_receipt(handle)
        return receipt


def is_deletable(
    receipt: Receipt, message: StoredMessage | None, now_ms: int, *, is_fifo: bool
) -> bool:
    """Return whether a deletion by that handle has an effect.

    On a standard queue the latest handle deletes even after its timeout, and an older one does
    nothing (SQSAPI, DeleteMessage). Every handle expires after 12 hours
    (https://github.com/boto/boto3/issues/2898). On a FIFO queue it expires when its receive is not
    in flight any longer (https://github.com/localstack/localstack/pull/12442, recorded from AWS).

    Raises:
        SqsError: the handle has expired.
    """
    handle = receipt.to_handle()
    if now_ms > receipt.received_ms + _MAX_VISIBILITY_MS:
        raise expired_receipt(handle)
    if message is None:
        return False
    is_latest = message.handle == handle
    if is_fifo and not (is_latest and message.state is State.IN_FLIGHT):
        raise expired_receipt(handle)
    return is_latest


class VisibilityChange(NamedTuple):
    """A ChangeMessageVisibility: the receive, the new timeout, and the time of the call."""

    receipt: Receipt
    seconds: int
    now_ms: int


def is_changeable(
    change: VisibilityChange, message: StoredMessage | None, *, is_fifo: bool
) -> bool:
    """Return whether the change has an effect.

    A standard queue accepts the latest handle after its timeout, and does nothing
    (https://github.com/localstack/localstack/pull/9632, recorded from AWS). After a change to 0 the
    message is not in flight, which is an error (SQSAPI, ChangeMessageVisibility).

    Raises:
        SqsError: out of range; not in flight by that handle; or visible later than 12 hours after
            the receive.
    """
    seconds, handle = change.seconds, change.receipt.to_handle()
    if not 0 <= seconds <= MAX_VISIBILITY_SECONDS:
        reason = f"Must be between 0 and {MAX_VISIBILITY_SECONDS}."
        raise invalid_value("VisibilityTimeout", seconds, reason)
    if message is None or message.handle != handle:
        raise _not_available(handle)
    if message.state is not State.IN_FLIGHT:
        if message.was_released:
            raise not_in_flight()
        if is_fifo:
            raise _not_available(handle)
        return False
    if change.now_ms + seconds * 1000 > message.received_ms + _MAX_VISIBILITY_MS:
        reason = "Total VisibilityTimeout for the message is beyond the limit"
        reason += f" [{MAX_VISIBILITY_SECONDS} seconds]"
        raise invalid_value("VisibilityTimeout", seconds, reason)
    return True


def _not_available(handle: str) -> SqsError:
    reason = "Message does not exist or is not available for visibility timeout change."
    return invalid_value("ReceiptHandle", handle, reason)
