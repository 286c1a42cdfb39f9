"""The meaning of a code of SQS or of botocore for the other calls. Pure.

SQS's API names the codes: SQSAPI, "SendMessageBatch", "ReceiveMessage" and "Common errors". What
never reached SQS has the name of botocore's exception. KMS's errors have two names: the shape in
SQS's model, ``KmsDisabled``, and the code that SQS sends in ``x-amzn-query-error`` and boto3 shows,
``KMS.DisabledException``.
"""

from enum import StrEnum


class RefusalKind(StrEnum):
    """The scope of a failure."""

    TRANSIENT = "transient"
    """The same call may succeed in a moment."""
    GLOBAL = "global"
    """Every other call to the queue fails, too, until a person repairs the queue, the key, the
    rights or the credentials."""
    OTHER = "other"
    """Of one message, or unknown."""


_TRANSIENT = {
    # SQS.
    "internalerror",
    "internalfailure",
    "requestthrottled",
    "serviceunavailable",
    "throttling",
    # The queue's key. botocore repeats neither.
    "kmsthrottled",
    "kmsthrottling",
    # The network.
    "connecttimeouterror",
    "endpointconnectionerror",
}

_GONE = {"nonexistentqueue", "queuedoesnotexist"}

_GLOBAL = {
    # The queue.
    *_GONE,
    "invalidaddress",
    "unsupportedoperation",
    # The caller's rights.
    "accessdenied",
    "invalidsecurity",
    "notauthorized",
    "optinrequired",
    # Credentials: missing, not accepted, expired.
    "credentialretrievalerror",
    "expiredtoken",
    "incompletesignature",
    "invalidaccesskeyid",
    "invalidclienttokenid",
    "metadataretrievalerror",
    "missingauthenticationtoken",
    "nocredentialserror",
    "partialcredentialserror",
    "requestexpired",
    "signaturedoesnotmatch",
    "ssotokenloaderror",
    "tokenretrievalerror",
    "unauthorizedssotokenerror",
    "unrecognizedclient",
}


def refusal_kind(code: str) -> RefusalKind:
    """Return what *code* means for the other calls, whatever its case and its spelling.

    A code of KMS is transient if KMS throttles, else global, also one that is not known here.
    """
    name = _name(code)
    if name.startswith("kms."):
        name = name.replace(".", "", 1)
    if name in _TRANSIENT:
        return RefusalKind.TRANSIENT
    if name in _GLOBAL or name.startswith("kms"):
        return RefusalKind.GLOBAL
    return RefusalKind.OTHER


def is_gone(code: str) -> bool:
    """Return whether *code* says that the queue does not exist."""
    return _name(code) in _GONE


def _name(code: str) -> str:
    return code.lower().removeprefix("aws.simplequeueservice.").removesuffix("exception")
