"""What a refusal is about: one message, a moment, or everything that this run would send. Pure.

Codes as SQS's API names them: SQSAPI, SendMessageBatch and "Common errors"; KMS's come through.
What never reached SQS bears the name of botocore's exception.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from dlq_replay.sending import Confirmed, InDoubt, Refused, SendResult

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


@dataclass(slots=True)
class Outlook:
    """Watches one task's results for signs that no other message would fare better."""

    _unanswered: int = 0

    def reason_to_stop(self, results: Iterable[SendResult]) -> str:
        """Take in the results of a chunk; say why to stop, empty where there is no reason.

        One refusal that concerns the queue or the caller is reason enough. So are 50 messages in a
        row to which SQS had no answer or was busy: to go on would put the rest in doubt, too.
        """
        for result in results:
            match result:
                case Refused(code, text) if _short(code) in _FOR_ALL:
                    return text or code
                case InDoubt(cause):
                    self._unanswered += 1
                case Refused(code, text) if _short(code) in _PASSING:
                    self._unanswered += 1
                    cause = text or code
                case Confirmed() | Refused():
                    self._unanswered = 0
            if self._unanswered >= UNANSWERED_MESSAGES:
                return f"{self._unanswered} messages in a row were not taken: {cause}"
        return ""


def _short(code: str) -> str:
    return code.removeprefix("AWS.SimpleQueueService.").removesuffix("Exception")
