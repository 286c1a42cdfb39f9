"""The meaning of each code of SQS for the other calls, in every spelling that boto3 shows."""

import pytest

from dlq_replay.aws.refusals import RefusalKind, refusal_kind

KMS_CODES = {
    "KmsAccessDenied": "KMS.AccessDeniedException",
    "KmsDisabled": "KMS.DisabledException",
    "KmsInvalidKeyUsage": "KMS.InvalidKeyUsageException",
    "KmsInvalidState": "KMS.InvalidStateException",
    "KmsNotFound": "KMS.NotFoundException",
    "KmsOptInRequired": "KMS.OptInRequired",
    "KmsThrottled": "KMS.ThrottlingException",
}


@pytest.mark.parametrize(("shape", "query_code"), KMS_CODES.items())
def test_kms_error_means_the_same_by_shape_and_by_query_code(shape: str, query_code: str) -> None:
    is_throttled = shape == "KmsThrottled"
    expected = RefusalKind.TRANSIENT if is_throttled else RefusalKind.GLOBAL
    spellings = [shape, query_code, query_code.upper(), shape.lower(), f"{shape}Exception"]

    assert {refusal_kind(spelling) for spelling in spellings} == {expected}


@pytest.mark.parametrize(
    ("kind", "codes"),
    [
        (
            RefusalKind.GLOBAL,
            [
                "AWS.SimpleQueueService.NonExistentQueue",
                "AccessDenied",
                "AccessDeniedException",
                "CredentialRetrievalError",
                "ExpiredToken",
                "ExpiredTokenException",
                "InvalidClientTokenId",
                "KMS.AnErrorOfNextYear",
                "NoCredentialsError",
                "QueueDoesNotExist",
                "UnauthorizedSSOTokenError",
                "UnrecognizedClientException",
            ],
        ),
        (
            RefusalKind.TRANSIENT,
            ["InternalError", "RequestThrottled", "ThrottlingException", "ConnectTimeoutError"],
        ),
        (
            RefusalKind.OTHER,
            ["", "InvalidMessageContents", "InvalidParameterValue", "OverLimit", "Whatever"],
        ),
    ],
)
def test_code_is_of_the_queue_or_transient_or_of_one_message(
    kind: RefusalKind, codes: list[str]
) -> None:
    assert {code: refusal_kind(code) for code in codes} == dict.fromkeys(codes, kind)
