"""Adapter for SQS: converts boto3's answers and exceptions to the core's values and errors.

``SqsQueue`` satisfies ``sending.WritableQueue``.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
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

from dlq_replay import __version__
from dlq_replay.aws.refusals import is_gone
from dlq_replay.errors import MalformedMessageError, QueueError, QueueGoneError, TableError
from dlq_replay.replaying.sending import (
    BatchRejected,
    CallResult,
    Confirmed,
    Refused,
    SendResult,
    Unconfirmed,
    send_each_if_rejected,
)
from dlq_replay.rules.failures import one_line
from dlq_replay.wire.addresses import QueueAddress
from dlq_replay.wire.message import Message, SendEntry, UnreadableRecord, read_record

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_TRACE_HEADER = "X-Amzn-Trace-Id"

MAX_RECEIVE = 10
"""Messages in one ReceiveMessage answer, and entries in one DeleteMessageBatch."""

# Raised before anything is sent. After any other error of botocore the message may have been sent:
# by this try, or by an earlier try of the same call.
_NOT_SENT = (NoCredentialsError, ParamValidationError)
_NOT_CONNECTED = (ConnectTimeoutError, EndpointConnectionError)
_NOT_SIGNED = (
    CredentialRetrievalError,
    MetadataRetrievalError,
    PartialCredentialsError,
    SSOError,
    TokenRetrievalError,
)
"""Credentials expired and could not be renewed. Each try signs again, so an earlier one may have
been sent."""

_EXPIRED_AGAIN = "Credentials were refreshed, but the refreshed credentials are still expired"

# With these codes SQS refuses a whole call because of one entry. Nothing of the call was sent, so
# the entries are then sent one by one, and only the bad one is refused.
_REJECTED_FOR_AN_ENTRY = frozenset(
    {
        "BatchRequestTooLong",
        "AWS.SimpleQueueService.BatchRequestTooLong",
        "InvalidAttributeValue",
        "InvalidMessageContents",
        "InvalidParameterValue",
        "MissingParameter",
    }
)


class _WithHandle(Protocol):
    @property
    def receipt_handle(self) -> str: ...


_Received = TypeVar("_Received", bound=_WithHandle)


def client_config(max_connections: int) -> Config:
    """Return the configuration of a client that *max_connections* threads share.

    Retries are few and short, because every message that is not confirmed comes back by itself. Two
    things that took a third of the time of each call are switched off: the validation of the types
    that ``to_api`` returns, and botocore's own user agent.
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
    """Remove botocore's recursion header from the calls of *client*; return it.

    It is the trace header of the current invocation; ``Message.trace_header`` says why each entry
    has its own instead.

    It is removed where a request is signed, by a public event. Lambda updates botocore by itself,
    so a name inside botocore may be gone in any invocation.
    """
    client.meta.events.register_last("before-sign", _remove_trace_header)
    return client


def _remove_trace_header(request: Any, **_: object) -> None:  # noqa: ANN401 - botocore's
    if _TRACE_HEADER in request.headers:
        del request.headers[_TRACE_HEADER]


@dataclass(frozen=True, slots=True)
class SqsQueue:
    """One queue, through one client of boto3; safe to share between threads.

    *tries_once* says that the client makes no retries. Then nothing was sent if there was no
    connection.
    """

    client: "SQSClient"
    url: str
    tries_once: bool = False

    def send(self, entries: Sequence[SendEntry]) -> Sequence[SendResult]:
        """As ``sending.WritableQueue`` says."""
        return send_each_if_rejected(self.send_once, entries)

    def send_once(self, entries: Sequence[SendEntry]) -> CallResult:
        """Send with exactly one call, for callers that count calls; else the same as ``send``."""
        count = len(entries)
        try:
            raw = [entry.to_api(str(index)) for index, entry in enumerate(entries)]
            answer = _ask(self.client.send_message_batch, QueueUrl=self.url, Entries=raw)
        except ClientError as error:
            if count > 1 and _code(error) in _REJECTED_FOR_AN_ENTRY:
                return BatchRejected()
            return [_result_of_failed_call(error)] * count
        except BotoCoreError as error:
            if count > 1 and isinstance(error, ParamValidationError):
                return BatchRejected()
            is_first_try = self.tries_once and isinstance(error, (*_NOT_CONNECTED, *_NOT_SIGNED))
            if isinstance(error, _NOT_SENT) or is_first_try:
                return [Refused(type(error).__name__, describe(error))] * count
            return [Unconfirmed(describe(error))] * count
        return _results(answer, count)

    def receive(
        self,
        *,
        max_messages: int = MAX_RECEIVE,
        wait_seconds: int = 20,
        visibility_timeout_seconds: int | None = None,
        attempt_id: str | None = None,
    ) -> list[Message | MalformedMessageError]:
        """Receive up to *max_messages* (1 to 10), waiting 0 to 20 s for the first.

        An empty answer does not mean an empty queue. For a message that cannot be read the list
        has the error; the message stays in the queue.

        On a FIFO queue, a receive whose answer was lost blocks its message groups until the
        visibility timeout ends. A second receive with the same *attempt_id* within 5 minutes
        returns the same messages (SQS API, ReceiveMessage).

        Raises:
            QueueError: SQS refused or could not be reached.
        """
        received = self._receive(
            MaxNumberOfMessages=max_messages,
            WaitTimeSeconds=wait_seconds,
            VisibilityTimeout=visibility_timeout_seconds,
            ReceiveRequestAttemptId=attempt_id,
        )
        return [_read(message) for message in received]

    def receive_records(
        self, *, wait_seconds: int, visibility_timeout_seconds: int, attempt_id: str | None
    ) -> list[Message | UnreadableRecord]:
        """Receive up to 10 messages as records of an event; arguments and errors as ``receive``."""
        received = self._receive(
            MaxNumberOfMessages=MAX_RECEIVE,
            WaitTimeSeconds=wait_seconds,
            VisibilityTimeout=visibility_timeout_seconds,
            ReceiveRequestAttemptId=attempt_id,
        )
        return [read_record(message["MessageId"], message) for message in received]

    def _receive(self, **request: object) -> list[Mapping[str, Any]]:
        given = {name: value for name, value in request.items() if value is not None}
        answer = self._query(
            self.client.receive_message,
            "receiving from",
            MessageAttributeNames=["All"],
            MessageSystemAttributeNames=["All"],
            **given,
        )
        messages: list[Mapping[str, Any]] = answer.get("Messages", [])
        return messages

    def delete(self, messages: Sequence[_Received]) -> list[_Received]:
        """Delete received messages, any number of them.

        Returns:
            Those that SQS did not confirm as deleted; a lost answer counts as not confirmed. A
            message that was not deleted is received again.
        """
        entries: list[tuple[_Received, dict[str, int]]] = [(message, {}) for message in messages]
        return self._unconfirmed(self.client.delete_message_batch, entries)

    def change_visibility(self, changes: Sequence[tuple[_Received, int]]) -> list[_Received]:
        """As ``replay.DeadLetterQueue`` says; 0 to 43,200 seconds, for any number of messages.

        SQS refuses a timeout that would end more than 12 hours after the receive. What is not
        confirmed is visible again when its earlier timeout ends.
        """
        entries = [(message, {"VisibilityTimeout": seconds}) for message, seconds in changes]
        return self._unconfirmed(self.client.change_message_visibility_batch, entries)

    def _unconfirmed(
        self, call: Callable[..., Any], entries: Sequence[tuple[_Received, dict[str, int]]]
    ) -> list[_Received]:
        """Make one *call* for each ten *entries*: a message, and fields beside its handle."""
        left: list[_Received] = []
        for start in range(0, len(entries), MAX_RECEIVE):
            unconfirmed: dict[str, _Received] = {}
            request: list[dict[str, Any]] = []
            for message, fields in entries[start : start + MAX_RECEIVE]:
                entry_id = str(len(request))
                unconfirmed[entry_id] = message
                request.append({"Id": entry_id, "ReceiptHandle": message.receipt_handle, **fields})

            # A lost answer confirms nothing.
            with suppress(ClientError, BotoCoreError):
                answer = _ask(call, QueueUrl=self.url, Entries=request)
                for entry in answer.get("Successful", []):
                    unconfirmed.pop(entry["Id"], None)
            left += unconfirmed.values()
        return left

    def describe(self) -> Mapping[str, str]:
        """Return the queue's attributes by name, message counts included.

        Raises:
            QueueError: the queue does not exist, access is denied, or SQS cannot be reached.
        """
        call = self.client.get_queue_attributes
        attributes = self._query(call, "asking about", AttributeNames=["All"])["Attributes"]
        return {str(name): value for name, value in attributes.items()}

    def sources(self) -> frozenset[QueueAddress]:
        """Return the queues whose redrive policy names this one, by SQS's list of all pages.

        Raises:
            QueueError: as ``describe``. A part of the list is never returned.
        """
        sources = set[QueueAddress]()
        # Without a size SQS answers 1,000 queues and no token for more.
        request: dict[str, Any] = {"MaxResults": 1000}
        call = self.client.list_dead_letter_source_queues
        while True:
            answer = self._query(call, "asking for the sources of", **request)
            sources.update(map(QueueAddress.from_url, answer.get("queueUrls", [])))
            token = answer.get("NextToken")
            if not token:
                return frozenset(sources)
            request["NextToken"] = token

    def _query(self, call: Callable[..., Any], doing: str, **request: object) -> Any:  # noqa: ANN401 - boto3's
        try:
            return _ask(call, QueueUrl=self.url, **request)
        except (ClientError, BotoCoreError) as error:
            code = _code(error) if isinstance(error, ClientError) else type(error).__name__
            raised = QueueGoneError if is_gone(code) else QueueError
            raise raised(f"{doing} {self.url}: {describe(error)}", code) from error


def describe(error: Exception) -> str:
    """Describe *error* of any service in one line without any part of a message or an item.

    Of a ParamValidationError, and of what is no error of ours or botocore's, only the name is used:
    its text may quote values.
    """
    if isinstance(error, ClientError):
        return one_line(f"{_code(error)}: {error.response['Error'].get('Message', '')}")
    if isinstance(error, BotoCoreError) and not isinstance(error, ParamValidationError):
        return one_line(f"{type(error).__name__}: {error}")
    return str(error) if isinstance(error, TableError) else type(error).__name__


def _code(error: ClientError) -> str:
    return str(error.response["Error"].get("Code", "Unknown"))


def _result_of_failed_call(error: ClientError) -> SendResult:
    metadata = error.response.get("ResponseMetadata", {})
    is_refusal = 400 <= metadata.get("HTTPStatusCode", 0) < 500  # noqa: PLR2004 - HTTP's class
    if is_refusal and not metadata.get("RetryAttempts"):
        # SQS may quote a part of the message in the text of these.
        may_quote = _code(error) in _REJECTED_FOR_AN_ENTRY
        return Refused(_code(error), "" if may_quote else describe(error))
    return Unconfirmed(describe(error))


def _ask(call: Callable[..., Any], **request: Any) -> Any:  # noqa: ANN401 - any of boto3's calls
    """Make one call; raise CredentialRetrievalError, too, where boto3 raises RuntimeError.

    It does so where refreshed credentials are already expired.
    """
    try:
        return call(**request)
    except RuntimeError as error:
        if not str(error).startswith(_EXPIRED_AGAIN):
            raise
        raise CredentialRetrievalError(provider="refresh", error_msg=str(error)) from error


def _results(answer: Mapping[str, Any], count: int) -> list[SendResult]:
    named: dict[str, SendResult] = {}
    for entry in answer.get("Failed", ()):
        named[entry["Id"]] = Refused(entry["Code"])
    for entry in answer.get("Successful", ()):
        named[entry["Id"]] = Confirmed(entry["MessageId"])
    unnamed = Unconfirmed("the answer does not name the entry")
    return [named.get(str(index), unnamed) for index in range(count)]


def _read(received: Mapping[str, Any]) -> Message | MalformedMessageError:
    try:
        return Message.from_received(received)
    except MalformedMessageError as error:
        return MalformedMessageError(f"message {received.get('MessageId', '?')}: {error}")
