"""Classes of refusals: for one message, transient, or global: for everything this run would send.

Codes as SQS's API names them: SQSAPI, SendMessageBatch and "Common errors"; KMS's come through.
What never reached SQS bears the name of botocore's exception.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from dlq_replay.sending import Confirmed, InDoubt, NotSent, Refused, SendResult

_TRANSIENT = frozenset(
    {
        "ConnectTimeoutError",
        "EndpointConnectionError",
        "InternalError",
        "InternalFailure",
        "KmsThrottled",
        "OverLimit",
        "RequestThrottled",
        "ServiceUnavailable",
        "Throttling",
    }
)
_GLOBAL = frozenset(
    {
        "AccessDenied",
        "CredentialRetrievalError",
        "ExpiredToken",
        "IncompleteSignature",
        "InvalidAccessKeyId",
        "InvalidAddress",
        "InvalidClientTokenId",
        "InvalidSecurity",
        "KmsAccessDenied",
        "KmsDisabled",
        "KmsInvalidKeyUsage",
        "KmsInvalidState",
        "KmsNotFound",
        "KmsOptInRequired",
        "MetadataRetrievalError",
        "MissingAuthenticationToken",
        "NoCredentialsError",
        "NonExistentQueue",
        "NotAuthorized",
        "OptInRequired",
        "PartialCredentialsError",
        "QueueDoesNotExist",
        "RequestExpired",
        "SSOTokenLoadError",
        "SignatureDoesNotMatch",
        "TokenRetrievalError",
        "UnauthorizedSSOTokenError",
        "UnrecognizedClient",
        "UnsupportedOperation",
    }
)


UNANSWERED_MESSAGES = 50
"""So many in a row that SQS neither took nor refused for their own sake, and the run stops."""


def is_transient(result: SendResult) -> bool:
    """Whether SQS did not take the message now, but may take the same message in a moment."""
    return isinstance(result, Refused) and _short(result.code) in _TRANSIENT


class GlobalErrorDetector:
    """Detects errors that are global rather than for one message, in one task. Thread-safe.

    Sends go side by side while SQS answers. After one without an answer they go one at a time,
    until one that began later is answered. So an outage of SQS puts in doubt the messages in
    flight when it began, and few more.
    """

    def __init__(self) -> None:
        """Start in the state in which SQS answers."""
        self._alone = threading.Lock()
        self._counting = threading.Lock()
        self._unanswered_in_a_row = 0
        self._answers = 0
        self._missing_answers = 0
        self._is_serial = False

    @property
    def is_serial(self) -> bool:
        """Whether sends go one at a time, because the last one got no answer."""
        return self._is_serial

    @contextmanager
    def one_at_a_time(self, seconds: float) -> Iterator[bool]:
        """Wait until a send may go, *seconds* at most; yield whether it may.

        The caller gives the results to ``reason_to_stop`` before the block ends.
        """
        if not self._is_serial:
            yield True
        elif not self._alone.acquire(timeout=max(0.0, min(seconds, threading.TIMEOUT_MAX))):
            yield False
        else:
            try:
                answers, missing = self._answers, self._missing_answers
                yield True
                with self._counting:
                    if self._answers > answers and self._missing_answers == missing:
                        self._is_serial = False
            finally:
                self._alone.release()

    def reason_to_stop(self, results: Iterable[SendResult]) -> str:
        """Count the results of one send; return why the run must stop, empty if it need not.

        One refusal that concerns the queue or the caller is reason enough. So are 50 messages in a
        row to which SQS had no answer or was busy: going on would put the rest in doubt, too.
        """
        with self._counting:
            for result in results:
                if why := self._reason(result):
                    return why
        return ""

    def _reason(self, result: SendResult) -> str:
        match result:
            case Confirmed():
                return self._answered()
            case NotSent():
                return ""
            case InDoubt(cause):
                return self._not_answered(cause)
            case Refused(code, text) if _short(code) in _GLOBAL:
                return text or code
            case Refused(code, text) if is_transient(result):
                return self._not_answered(text or code)
        return self._answered()

    def _answered(self) -> str:
        self._answers += 1
        self._unanswered_in_a_row = 0
        return ""

    def _not_answered(self, cause: str) -> str:
        self._is_serial = True
        self._missing_answers += 1
        self._unanswered_in_a_row += 1
        if self._unanswered_in_a_row < UNANSWERED_MESSAGES:
            return ""
        return f"{self._unanswered_in_a_row} messages in a row were not taken: {cause}"


def _short(code: str) -> str:
    return code.removeprefix("AWS.SimpleQueueService.").removesuffix("Exception")
