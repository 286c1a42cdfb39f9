"""What a refusal is about: one message, a moment, or everything that this run would send.

Codes as SQS's API names them: SQSAPI, SendMessageBatch and "Common errors"; KMS's come through.
What never reached SQS bears the name of botocore's exception.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from dlq_replay.sending import Confirmed, InDoubt, NotReached, Refused, SendResult

_PASSING = frozenset(
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
_FOR_ALL = frozenset(
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
"""So many in a row without a yes or a no of SQS to any, and the run stops."""


def is_passing(result: SendResult) -> bool:
    """Whether the same message may well be taken in a moment; it was not taken now."""
    return isinstance(result, Refused) and _short(result.code) in _PASSING


class Outlook:
    """Watches one task's sends for signs that no other message would fare better. Thread-safe.

    Sends go side by side while SQS answers. After one that it did not answer they go one at a
    time, until one that began later is answered: so silence puts in doubt what was under way when
    it began, and few messages more.
    """

    def __init__(self) -> None:
        """Begin with good hope."""
        self._alone = threading.Lock()
        self._counting = threading.Lock()
        self._unanswered = 0
        self._answers = 0
        self._silences = 0
        self._is_doubtful = False

    @property
    def is_doubtful(self) -> bool:
        """Whether the latest that was heard of SQS is silence."""
        return self._is_doubtful

    @contextmanager
    def turn(self, seconds: float) -> Iterator[bool]:
        """Wait until a send may go, *seconds* at most; yield whether it may.

        What came of it is told to ``reason_to_stop`` before the block ends.
        """
        if not self._is_doubtful:
            yield True
        elif not self._alone.acquire(timeout=max(0.0, min(seconds, threading.TIMEOUT_MAX))):
            yield False
        else:
            try:
                answers, silences = self._answers, self._silences
                yield True
                with self._counting:
                    if self._answers > answers and self._silences == silences:
                        self._is_doubtful = False
            finally:
                self._alone.release()

    def reason_to_stop(self, results: Iterable[SendResult]) -> str:
        """Take in the results of one send; say why to stop, empty where there is no reason.

        One refusal that concerns the queue or the caller is reason enough. So are 50 messages in a
        row to which SQS had no answer or was busy: to go on would put the rest in doubt, too.
        """
        with self._counting:
            for result in results:
                if why := self._reason(result):
                    return why
        return ""

    def _reason(self, result: SendResult) -> str:
        match result:
            case Confirmed():
                return self._answer()
            case NotReached():
                return ""
            case InDoubt(cause):
                return self._silence(cause)
            case Refused(code, text) if _short(code) in _FOR_ALL:
                return text or code
            case Refused(code, text) if is_passing(result):
                return self._silence(text or code)
        return self._answer()

    def _answer(self) -> str:
        self._answers += 1
        self._unanswered = 0
        return ""

    def _silence(self, cause: str) -> str:
        self._is_doubtful = True
        self._silences += 1
        self._unanswered += 1
        if self._unanswered < UNANSWERED_MESSAGES:
            return ""
        return f"{self._unanswered} messages in a row were not taken: {cause}"


def _short(code: str) -> str:
    return code.removeprefix("AWS.SimpleQueueService.").removesuffix("Exception")
