"""The errors of SQS, with the names of AWS's protocol.

Each has two names: the shape in the body (``__type``) and the older code in ``x-amzn-query-error``,
which is what boto3 shows. Recorded from AWS in the snapshots of
https://github.com/localstack/localstack (tests/aws/services/sqs/*.snapshot.json).
"""

_NAMESPACED = "AWS.SimpleQueueService."


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


def namespaced(shape: str, message: str, status: int = 400) -> SqsError:
    """Return an error such as ``AWS.SimpleQueueService.EmptyBatchRequest``."""
    return SqsError(_NAMESPACED + shape, message, shape=shape, status=status)


def invalid_parameter(message: str) -> SqsError:
    return SqsError("InvalidParameterValue", message, shape="InvalidParameterValueException")


def invalid_value(name: str, value: object, reason: str) -> SqsError:
    return invalid_parameter(f"Value {value} for parameter {name} is invalid. Reason: {reason}")


def missing_parameter(name: str) -> SqsError:
    return SqsError(
        "MissingParameter",
        f"The request must contain the parameter {name}.",
        shape="MissingRequiredParameterException",
    )


def invalid_contents() -> SqsError:
    return SqsError(
        "InvalidMessageContents",
        "Invalid binary character was found in the message body, the set of allowed characters is "
        "#x9 | #xA | #xD | [#x20-#xD7FF] | [#xE000-#xFFFD] | [#x10000-#x10FFFF]",
    )


def unknown_queue_attribute(name: str) -> SqsError:
    return SqsError("InvalidAttributeName", f"Unknown Attribute {name}.")


def invalid_queue_attribute(name: str, reason: str = "") -> SqsError:
    text = f"Invalid value for the parameter {name}."
    return SqsError("InvalidAttributeValue", f"{text} Reason: {reason}" if reason else text)


def no_such_queue() -> SqsError:
    return SqsError(
        _NAMESPACED + "NonExistentQueue",
        "The specified queue does not exist.",
        shape="QueueDoesNotExist",
    )


def queue_exists(attribute: str) -> SqsError:
    return SqsError(
        "QueueAlreadyExists",
        "A queue already exists with the same name and a different value for attribute "
        f"{attribute}",
        shape="QueueNameExists",
    )


def invalid_receipt(handle: str) -> SqsError:
    return SqsError("ReceiptHandleIsInvalid", f'The input receipt handle "{handle}" is not valid.')


def expired_receipt(handle: str) -> SqsError:
    return invalid_value("ReceiptHandle", handle, "The receipt handle has expired.")


def not_in_flight() -> SqsError:
    return namespaced("MessageNotInflight", "The specified message isn't in flight.")


def over_limit() -> SqsError:
    return SqsError(
        "OverLimit", "Too many messages in flight for the queue to hand out another.", status=403
    )


def resource_not_found(message: str) -> SqsError:
    return SqsError("ResourceNotFoundException", message, status=404)


def throttled() -> SqsError:
    return SqsError("RequestThrottled", "Rate exceeded", status=403)


def internal(status: int = 500) -> SqsError:
    code = "ServiceUnavailable" if status == 503 else "InternalError"
    message = "We encountered an internal error. Please try again."
    return SqsError(code, message, status=status, is_sender_fault=False)
