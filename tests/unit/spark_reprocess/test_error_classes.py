import pytest

from dlq_replay.replaying.sending import Confirmed, InDoubt, NotSent, Refused, SendResult
from spark_reprocess.redrive.sending.rate_limited_queue import (
    UNANSWERED_MESSAGES,
    GlobalErrorDetector,
    is_transient,
)

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
    assert (
        GlobalErrorDetector()
        .reason_to_stop([GOOD, Refused(code, f"{code}: so it is")])
        .startswith(code)
    )


@pytest.mark.parametrize("code", ["InvalidMessageContents", "InvalidParameterValue", "Whatever"])
def test_refusal_of_one_message_stops_nothing(code: str) -> None:
    assert GlobalErrorDetector().reason_to_stop([Refused(code)] * 1000) == ""
    assert not is_transient(Refused(code))


@pytest.mark.parametrize("code", ["RequestThrottled", "ThrottlingException", "InternalError"])
def test_some_refusals_are_transient(code: str) -> None:
    assert is_transient(Refused(code))
    assert GlobalErrorDetector().reason_to_stop([Refused(code), GOOD]) == ""


def test_silence_stops_the_run_before_all_is_in_doubt() -> None:
    detector = GlobalErrorDetector()

    assert detector.reason_to_stop([GOOD, *[LOST] * (UNANSWERED_MESSAGES - 1)]) == ""
    assert detector.reason_to_stop([LOST]) == (
        f"{UNANSWERED_MESSAGES} messages in a row were not taken: ReadTimeoutError"
    )


def test_any_answer_breaks_the_silence() -> None:
    detector = GlobalErrorDetector()

    for _ in range(10):
        assert detector.reason_to_stop([LOST] * (UNANSWERED_MESSAGES - 1)) == ""
        assert detector.reason_to_stop([Refused("InvalidMessageContents")]) == ""


def test_what_was_not_tried_says_nothing() -> None:
    assert GlobalErrorDetector().reason_to_stop([NotSent()] * 1000) == ""


def test_sends_go_side_by_side_while_sqs_answers() -> None:
    detector = GlobalErrorDetector()

    with detector.one_at_a_time(0) as first, detector.one_at_a_time(0) as second:
        assert (first, second) == (True, True)


def silent() -> GlobalErrorDetector:
    detector = GlobalErrorDetector()
    with detector.one_at_a_time(0):
        detector.reason_to_stop([GOOD, LOST])
    return detector


def test_after_silence_they_go_one_at_a_time() -> None:
    detector = silent()

    with detector.one_at_a_time(0) as first, detector.one_at_a_time(0) as second:
        assert (first, second) == (True, False)
    with detector.one_at_a_time(0) as after:
        assert after


@pytest.mark.parametrize(
    ("results", "is_over"),
    [
        ([GOOD], True),
        ([Refused("InvalidMessageContents")], True),
        ([GOOD, NotSent()], True),
        ([GOOD, LOST], False),
        ([LOST], False),
        ([Refused("RequestThrottled")], False),
        ([NotSent()], False),
    ],
)
def test_an_answer_to_a_later_send_ends_that(results: list[SendResult], is_over: bool) -> None:
    detector = silent()
    with detector.one_at_a_time(0):
        detector.reason_to_stop(results)

    with detector.one_at_a_time(0), detector.one_at_a_time(0) as beside:
        assert beside is is_over


def test_an_answer_to_an_earlier_send_does_not() -> None:
    detector = GlobalErrorDetector()
    with detector.one_at_a_time(0):
        with detector.one_at_a_time(0):
            detector.reason_to_stop([LOST])
        detector.reason_to_stop([GOOD])

    with detector.one_at_a_time(0), detector.one_at_a_time(0) as beside:
        assert not beside


def test_a_send_that_raises_makes_room_for_the_next() -> None:
    detector = silent()
    with pytest.raises(RuntimeError), detector.one_at_a_time(0):
        raise RuntimeError("a bug")

    with detector.one_at_a_time(0) as after:
        assert after
