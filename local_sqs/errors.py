"""The errors of SQS, with the names of AWS's protocol.

Each has two names: the shape in the body (``__type``) and the older code in ``x-amzn-query-error``,
which is what boto3 shows. Recorded from AWS in the snapshots of
https://github.com/localstack/localstack (tests/aws/services/sqs/*.snapshot.json).
"""

_NAMESPACED = "AWS.SimpleQueueService."

KMS_CODES = {
    "KmsAccessDenied": "KMS.AccessDeniedException",
    "KmsDisabled": "KMS.DisabledException",
    "KmsInvalidKeyUsage": "KMS.InvalidKeyUsageException",
    "KmsInvalidState": "KMS.InvalidStateException",
    "KmsNotFound": "KMS.NotFoundException",
    "KmsOptInRequired": "KMS.OptInRequired",
    "KmsThrottled": "KMS.ThrottlingException",
}
"""Of each shape, the code that boto3 shows."""


class SqsError(Exception):
    """An error answer of SQS.

    Attributes:
        code: boto3's ``Error.Code``.
        shape: the name in the body of the answer.
        message: AWS's own text if it is known.
        status: of the HTTP answer.
        is_sender_fault: False for an error of the service.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        shape: str | None = None,
        status: int = 400,
        is_sender_fault: bool = True,
    ) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.shape = shape or code
        self.status = status
        self.is_sender_fault = is_sender_fault


def namespaced(name: str, message: str, shape: str | None = None) -> SqsError:
    """Return an error such as ``AWS.SimpleQueueService.EmptyBatchRequest``."""
    return SqsError(_NAMESPACED + name, message, shape=shape or name)


def invalid_parameter(message: str) -> SqsError:
    return SqsError("InvalidParameterValue", message, shape="InvalidParameterValueException")


def invalid_value(name: str, value: object, reason: str) -> SqsError:
    return invalid_parameter(f"Value {value} for parameter {name} is invalid. Reason: {reason}")


def missing_parameter(name: str) -> SqsError:
    text = f"The request must contain the parameter {name}."
    return SqsError("MissingParameter", text, shape="MissingRequiredParameterException")


def invalid_queue_attribute(name: str, reason: str = "") -> SqsError:
    text = f"Invalid value for the parameter {name}."
    return SqsError("InvalidAttributeValue", f"{text} Reason: {reason}" if reason else text)


def unknown_queue_attribute(name: str) -> SqsError:
    return SqsError("InvalidAttributeName", f"Unknown Attribute {name}.")


def kms_error(name: str, message: str) -> SqsError | None:
    """Return KMS's error of that shape or code; None where KMS has no such error."""
    for shape, code in KMS_CODES.items():
        if name in {shape, code}:
            return SqsError(code, message, shape=shape)
    return None


def no_such_queue() -> SqsError:
    text = "The specified queue does not exist."
    return namespaced("NonExistentQueue", text, shape="QueueDoesNotExist")
