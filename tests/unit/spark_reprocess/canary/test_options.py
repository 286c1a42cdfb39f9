import pytest
from spark_reprocess.canary.options import (
    CanaryOptions,
    CanarySample,
    Redelivery,
    Share,
    recommended,
)
from spark_reprocess.canary.probe import queue_url_beside

from spark_reprocess.errors import InputError

REDELIVERY = Redelivery(30, 3, "arn:aws:sqs:eu-west-1:123456789012:dlq")
NO_DLQ = Redelivery(30, 0, "")


def options(
    wait_seconds: float | None = None, *, forced: bool = False, longest: int | None = None
) -> CanaryOptions:
    return CanaryOptions(
        Share.of("5"),
        "https://sqs/1/parked",
        wait_seconds,
        is_wait_forced=forced,
        consumer_max_seconds=longest,
    )


@pytest.mark.parametrize(
    ("asked", "forced", "row", "wait"),
    [
        (None, False, 1, 150),
        (None, False, 2, 240),
        (150, False, 1, 150),
        (1000, False, 1, 1000),
        (5, True, 1, 5),
        (5, True, 9, 5),
    ],
)
def test_wait_is_what_was_asked_or_the_least_that_tells(
    asked: float | None, forced: bool, row: int, wait: float
) -> None:
    assert options(asked, forced=forced).wait(REDELIVERY, row) == wait


@pytest.mark.parametrize(("asked", "row", "least"), [(149, 1, 150), (239, 2, 240)])
def test_wait_that_tells_nothing_is_refused(asked: float, row: int, least: int) -> None:
    with pytest.raises(InputError, match=rf"= {least} s; give {least} or more, or --force"):
        options(asked).wait(REDELIVERY, row)


def test_wait_is_long_enough_for_a_consumer_that_extends_visibility() -> None:
    assert options(longest=300).wait(REDELIVERY) == 960
    with pytest.raises(InputError, match="--consumer-max-seconds 300 s x maxReceiveCount 3"):
        options(959, longest=300).wait(REDELIVERY)


@pytest.mark.parametrize(
    ("asked", "forced", "delay", "seconds"),
    [
        (None, False, 0, 60),
        (1000, False, 0, 60),
        (None, False, 45, 105),
        (15, True, 0, 15),
        (15, True, 45, 60),
        (1000, True, 0, 60),
    ],
)
def test_readings_count_from_a_minute_after_the_send_unless_the_wait_is_forced(
    asked: float | None, forced: bool, delay: int, seconds: float
) -> None:
    redelivery = Redelivery(30, 3, "arn", delay)

    assert options(asked, forced=forced).stale_seconds(redelivery) == seconds


def test_queue_that_keeps_its_failures_needs_a_forced_wait() -> None:
    with pytest.raises(InputError, match="has no redrive policy"):
        options(1000).wait(NO_DLQ)
    assert options(1000, forced=True).wait(NO_DLQ) == 1000


@pytest.mark.parametrize(
    ("wait", "apart"), [(12, 1.2), (50, 5), (150, 5), (300, 10), (900, 30), (9000, 30)]
)
def test_readings_are_neither_few_in_a_short_wait_nor_many_in_a_long_one(
    wait: float, apart: float
) -> None:
    assert options().reading_interval_seconds(wait) == pytest.approx(apart)


@pytest.mark.parametrize(
    "url",
    [
        "https://sqs.eu-west-1.amazonaws.com/123456789012/main",
        "http://localhost:4566/queue/eu-west-1/123456789012/main",
    ],
)
def test_dlq_is_found_beside_the_destination(url: str) -> None:
    arn = "arn:aws:sqs:eu-west-1:123456789012:dlq"

    assert queue_url_beside(url, arn) == url.replace("/main", "/dlq")
    assert queue_url_beside(url, "") is None


def test_recommended_canary_is_marked_as_such() -> None:
    assert recommended({"a": 1000, "b": 3}, REDELIVERY) == CanarySample(
        {"a": 9, "b": 1}, (), 60, 150, is_recommended=True
    )
    assert recommended({"a": 1, "b": 1}, REDELIVERY) is None
