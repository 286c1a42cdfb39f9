import pytest

from dlq_replay.sending import Confirmed, InDoubt, NotReached, Refused
from spark_reprocess.redrive.refusals import UNANSWERED_MESSAGES, Outlook, is_passing

GOOD = Confirmed("copy")
LOST = InDoubt("ReadTimeoutError")


@pytest.mark.parametrize(
    "code",
    [
        "AWS.SimpleQueueService.NonExistentQueue",
        "QueueDoesNotExist",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "UnrecognizedClientException",
        "AccessDenied",
        "AccessDeniedException",
        "KmsAccessDenied",
        "NoCredentialsError",
        "CredentialRetrievalError",
        "UnauthorizedSSOTokenError",
    ],
)
def test_refusal_that_concerns_every_message_stops_the_run(code: str) -> None:
    assert Outlook().reason_to_stop([GOOD, Refused(code, f"{code}: so it is")]).startswith(code)


@pytest.mark.parametrize("code", ["InvalidMessageContents", "InvalidParameterValue", "Whatever"])
def test_refusal_of_one_message_stops_nothing(code: str) -> None:
    assert Outlook().reason_to_stop([Refused(code)] * 1000) == ""
    assert not is_passing(Refused(code))


@pytest.mark.parametrize("code", ["RequestThrottled", "ThrottlingException", "InternalError"])
def test_some_refusals_pass(code: str) -> None:
    assert is_passing(Refused(code))
    assert Outlook().reason_to_stop([Refused(code), GOOD]) == ""


def test_silence_stops_the_run_before_all_is_in_doubt() -> None:
    outlook = Outlook()

    assert outlook.reason_to_stop([GOOD, *[LOST] * (UNANSWERED_MESSAGES - 1)]) == ""
    assert outlook.reason_to_stop([LOST]) == (
        f"{UNANSWERED_MESSAGES} messages in a row were not taken: ReadTimeoutError"
    )


def test_any_answer_breaks_the_silence() -> None:
    outlook = Outlook()

    for _ in range(10):
        assert outlook.reason_to_stop([LOST] * (UNANSWERED_MESSAGES - 1)) == ""
        assert outlook.reason_to_stop([Refused("InvalidMessageContents")]) == ""


def test_what_was_not_tried_says_nothing() -> None:
    assert Outlook().reason_to_stop([NotReached()] * 1000) == ""
