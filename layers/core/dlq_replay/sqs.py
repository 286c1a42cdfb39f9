"""The one adapter: SQS as boto3 speaks it, turned into the core's values and errors.

Satisfies ``sending.Queue``. The only module of the core that names botocore.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import botocore
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    MetadataRetrievalError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
    SSOError,
    TokenRetrievalError,
)
from botocore.handlers import add_recursion_detection_header

from dlq_replay import __version__
from dlq_replay.errors import MalformedMessageError, QueueError
from dlq_replay.message import Message, SendEntry
from dlq_replay.sending import (
    CallResult,
    Confirmed,
    InDoubt,
    Refused,
    SendResult,
    Spoiled,
    send_apart_if_spoiled,
)

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

MAX_RECEIVE = 10
"""Messages in one ReceiveMessage answer, and entries in one DeleteMessageBatch."""

MAX_WAIT_SECONDS = 20
"""The longest long poll."""

# Raised before a byte leaves. Every other error of botocore may hide an answer that was lost, if
# not of the last try then of one before it.
_NOT_SENT = (NoCredentialsError, ParamValidationError)
_NOT_CONNECTED = (ConnectTimeoutError, EndpointConnectionError)
_NOT_SIGNED = (
    CredentialRetrievalError,
    MetadataRetrievalError,
    PartialCredentialsError,
    SSOError,
    TokenRetrievalError,
)
"""Credentials that ran out and could not be renewed: each try signs anew."""

_EXPIRED_AGAIN = "Credentials were refreshed, but the refreshed credentials are still expired"

# SQS names one of these when a single entry spoils a whole call; nothing of the call was sent, so
# the entries are sent one by one and only the bad one is refused.
_SPOILED_BY_AN_ENTRY = frozenset(
    {
        "BatchRequestTooLong",
        "AWS.SimpleQueueService.BatchRequestTooLong",
        "InvalidAttributeValue",
        "InvalidMessageContents",
        "InvalidParameterValue",
        "MissingParameter",
    }
)


class Received(Protocol):
    """What can be deleted: a message, or what is kept of one until then."""

    @property
    def receipt_handle(self) -> str:
        """What deletes this receive."""


_Received = TypeVar("_Received", bound=Received)


def client_config(max_connections: int) -> Config:
    """Timeouts and retries for a client that *max_connections* threads share.

    Retries stay few and short: every message that is not confirmed comes back by itself. Left out
    are two things that botocore does for each call and that took a third of its time: it checks
    the types of what ``to_api`` returns, and formats its own name and surroundings.
    """
    return Config(
        parameter_validation=False,
        user_agent=f"sqs-dlq-replay/{__version__} Botocore/{botocore.__version__}",
        connect_timeout=3,
        read_timeout=10,
        retries={"mode": "standard", "total_max_attempts": 3},
        max_pool_connections=max_connections,
    )


def without_recursion_header(client: "SQSClient") -> "SQSClient":
    """Stop *client* from marking its calls with the invocation's own trace.

    botocore copies the trace of the current Lambda invocation into every call, and Lambda ends
    loops of about 16 laps by it. Our loop ends by its own rule, and a batch mixes messages: one
    would be charged with another's laps. Each entry carries its own header instead.
    """
    client.meta.events.unregister("before-call", add_recursion_detection_header)
    return client


@dataclass(frozen=True, slots=True)
class SqsQueue:
    """One queue, through one client; safe to share between threads.

    Attributes:
        client: a boto3 SQS client.
        url: the queue's URL.
        tries_once: the client repeats no call by itself, so that where there was no connection
            nothing was sent.
    """

    client: "SQSClient"
    url: str
    tries_once: bool = False

    def send(self, entries: Sequence[SendEntry]) -> Sequence[SendResult]:
        """Send at most 10 entries of at most 1 MiB together; one result each, in order.

        Never raises for an error of SQS or of the network. Where SQS refuses the whole call for
        what one entry contains, each entry is sent by itself, so that only that one is refused.
        """
        return send_apart_if_spoiled(self.send_once, entries)

    def send_once(self, entries: Sequence[SendEntry]) -> CallResult:
        """Send with exactly one call, for callers who count calls; otherwise as ``send``."""
        count = len(entries)
        try:
            answer = _ask(
                self.client.send_message_batch, QueueUrl=self.url, Entries=_to_api(entries)
            )
        except ClientError as error:
            if count > 1 and _code(error) in _SPOILED_BY_AN_ENTRY:
                return Spoiled()
            return [_result_of_failed_call(error)] * count
        except BotoCoreError as error:
            if count > 1 and isinstance(error, ParamValidationError):
                return Spoiled()
            return [self._result_without_answer(error)] * count
        return _results(answer, count)

    def _result_without_answer(self, error: Exception) -> SendResult:
        is_first_try = self.tries_once and isinstance(error, (*_NOT_CONNECTED, *_NOT_SIGNED))
        if isinstance(error, _NOT_SENT) or is_first_try:
            return Refused(type(error).__name__, describe(error))
        return InDoubt(describe(error))

    def receive(
        self,
        *,
        max_messages: int = MAX_RECEIVE,
        wait_seconds: int = MAX_WAIT_SECONDS,
        visibility_timeout_seconds: int | None = None,
        attempt_id: str | None = None,
    ) -> list[Message | MalformedMessageError]:
        """Receive up to *max_messages* (1 to 10), waiting 0 to 20 s for the first.

        An empty answer does not mean an empty queue. A message that cannot be read stands as the
        error that says why; it stays in the queue.

        On a FIFO queue a receive whose answer was lost blocks its groups until the visibility
        timeout ends; one that repeats it with the same *attempt_id* within 5 minutes gets the same
        messages (SQS API, ReceiveMessage).

        Raises:
            QueueError: SQS refused or could not be reached.
        """
        request: dict[str, Any] = {
            "QueueUrl": self.url,
            "MaxNumberOfMessages": max_messages,
            "WaitTimeSeconds": wait_seconds,
            "MessageAttributeNames": ["All"],
            "MessageSystemAttributeNames": ["All"],
        }
        if visibility_timeout_seconds is not None:
            request["VisibilityTimeout"] = visibility_timeout_seconds
        if attempt_id is not None:
            request["ReceiveRequestAttemptId"] = attempt_id
        try:
            answer = _ask(self.client.receive_message, **request)
        except (ClientError, BotoCoreError) as error:
            raise QueueError(f"receiving from {self.url}: {describe(error)}") from error
        return [_read(received) for received in answer.get("Messages", [])]

    def delete(self, messages: Sequence[_Received]) -> list[_Received]:
        """Delete received messages, any number of them.

        Returns:
            Those that SQS did not confirm as deleted; they will be received again. A lost answer
            counts as not confirmed.
        """
        left: list[_Received] = []
        for start in range(0, len(messages), MAX_RECEIVE):
            left.extend(self._delete_batch(messages[start : start + MAX_RECEIVE]))
        return left

    def _delete_batch(self, messages: Sequence[_Received]) -> list[_Received]:
        entries: list[Any] = [
            {"Id": str(index), "ReceiptHandle": message.receipt_handle}
            for index, message in enumerate(messages)
        ]
        try:
            answer = _ask(self.client.delete_message_batch, QueueUrl=self.url, Entries=entries)
        except (ClientError, BotoCoreError):
            return list(messages)
        return _not_named(answer, messages)

    def change_visibility(self, changes: Sequence[tuple[Message, int]]) -> list[Message]:
        """Hide each received message for so many seconds from now, any number of them.

        Args:
            changes: message and seconds, 0 to 43,200; SQS refuses what would end more than
                12 hours after the receive.

        Returns:
            Those that SQS did not confirm; they reappear when their former timeout ends.
        """
        left: list[Message] = []
        for start in range(0, len(changes), MAX_RECEIVE):
            left.extend(self._change_visibility_batch(changes[start : start + MAX_RECEIVE]))
        return left

    def _change_visibility_batch(self, changes: Sequence[tuple[Message, int]]) -> list[Message]:
        entries: list[Any] = [
            {
                "Id": str(index),
                "ReceiptHandle": message.receipt_handle,
                "VisibilityTimeout": seconds,
            }
            for index, (message, seconds) in enumerate(changes)
        ]
        messages = [message for message, _ in changes]
        try:
            answer = _ask(
                self.client.change_message_visibility_batch, QueueUrl=self.url, Entries=entries
            )
        except (ClientError, BotoCoreError):
            return messages
        return _not_named(answer, messages)

    def describe(self) -> Mapping[str, str]:
        """The queue's attributes by name, counts included.

        Raises:
            QueueError: the queue does not exist, or may not be asked, or cannot be reached.
        """
        try:
            answer = _ask(
                self.client.get_queue_attributes, QueueUrl=self.url, AttributeNames=["All"]
            )
        except (ClientError, BotoCoreError) as error:
            raise QueueError(f"asking about {self.url}: {describe(error)}") from error
        return {str(name): value for name, value in answer["Attributes"].items()}


def describe(error: Exception) -> str:
    """Say what went wrong in one line that never holds a part of a message.

    A ParamValidationError prints the values it found wrong, so only its name is given.
    """
    if isinstance(error, ClientError):
        return f"{_code(error)}: {error.response['Error'].get('Message', '')}"
    if isinstance(error, ParamValidationError):
        return type(error).__name__
    return f"{type(error).__name__}: {error}"


def _code(error: ClientError) -> str:
    return str(error.response["Error"].get("Code", "Unknown"))


def _result_of_failed_call(error: ClientError) -> SendResult:
    metadata = error.response.get("ResponseMetadata", {})
    is_refusal = 400 <= metadata.get("HTTPStatusCode", 0) < 500  # noqa: PLR2004 - HTTP's class
    if is_refusal and not metadata.get("RetryAttempts"):
        return Refused(_code(error), _unquoted(error))
    return InDoubt(describe(error))


def _unquoted(error: ClientError) -> str:
    """The text of a refusal, unless SQS may quote in it what it refuses: a part of a message."""
    return "" if _code(error) in _SPOILED_BY_AN_ENTRY else describe(error)


def _ask(call: Callable[..., Any], **request: Any) -> Any:  # noqa: ANN401 - any of boto3's calls
    """Make one call.

    Raises:
        ClientError, BotoCoreError: as boto3 raises them. CredentialRetrievalError also where boto3
            raises RuntimeError, because refreshed credentials are already expired.
    """
    try:
        return call(**request)
    except RuntimeError as error:
        if not str(error).startswith(_EXPIRED_AGAIN):
            raise
        raise CredentialRetrievalError(provider="refresh", error_msg=str(error)) from error


def _to_api(entries: Sequence[SendEntry]) -> list[Any]:
    return [entry.to_api(str(index)) for index, entry in enumerate(entries)]


def _results(answer: Mapping[str, Any], count: int) -> list[SendResult]:
    """What became of entries 0 to *count* - 1."""
    named: dict[str, SendResult] = {}
    for entry in answer.get("Failed", ()):
        named[entry["Id"]] = Refused(entry["Code"])
    for entry in answer.get("Successful", ()):
        named[entry["Id"]] = Confirmed(entry["MessageId"])
    unnamed = InDoubt("the answer does not name the entry")
    return [named.get(str(index), unnamed) for index in range(count)]


def _not_named(answer: Mapping[str, Any], messages: Sequence[_Received]) -> list[_Received]:
    done = {entry["Id"] for entry in answer.get("Successful", [])}
    return [message for index, message in enumerate(messages) if str(index) not in done]


def _read(received: Mapping[str, Any]) -> Message | MalformedMessageError:
    try:
        return Message.from_receive(received)
    except MalformedMessageError as error:
        return MalformedMessageError(f"message {received.get('MessageId', '?')}: {error}")
