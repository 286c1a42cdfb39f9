from math import inf

import pytest

from dlq_replay.consumer.errors import VisibilityLimitError, VisibilityLostError
from dlq_replay.consumer.lease import Extension, Lease, Loss
from dlq_replay.consumer.rhythm import LIMIT_SECONDS, Rhythm
from dlq_replay.errors import SettingsError

START = 1000.0


def lease(**numbers: float) -> Lease:
    return Lease.received("m", "r", Rhythm(**numbers), START)  # type: ignore[arg-type]


def extended(at: float, one: Lease) -> Lease:
    extension = one.extension(at)
    assert extension is not None
    return one.confirmed(extension, at)


def test_received_message_is_hidden_as_long_as_the_receive_said() -> None:
    one = lease(received_timeout_seconds=30)

    assert one.is_safe(START + 29.9)
    assert not one.is_safe(START + 30)
    assert one.extend_at == START


def test_confirmed_extension_counts_from_when_it_was_sent() -> None:
    one = lease()
    one = one.confirmed(Extension("m", "r", 120, sent_at=START + 10), answered_at=START + 15)

    assert one.hidden_until == START + 130
    assert one.extend_at == START + 70


def test_answer_that_came_too_late_is_no_confirmation() -> None:
    one = lease()
    one = one.confirmed(Extension("m", "r", 120, sent_at=START + 29), answered_at=START + 30)

    assert one.loss is Loss.LATE
    assert not one.is_safe(START + 30)


def test_failed_extension_is_tried_again_sooner_and_sooner() -> None:
    one = extended(START, lease())
    now, tries = one.extend_at, []
    while (extension := one.extension(now)) is not None:
        one = one.failed(extension, now, "RequestThrottled")
        tries.append(one.extend_at - now)
        now = one.extend_at

    assert tries[0] == 15
    assert min(tries) == 1
    assert tries == sorted(tries, reverse=True)
    assert 10 <= len(tries) <= 20
    assert one.aged(now).loss is Loss.LATE
    assert "RequestThrottled" in str(one.aged(now).error())


def test_lost_answer_counts_for_the_shorter_of_two_timeouts() -> None:
    one = lease(received_timeout_seconds=5400)
    one = one.failed(Extension("m", "r", 120, sent_at=START), START + 1, "ReadTimeoutError")

    assert one.hidden_until == START + 120


def test_loss_is_final() -> None:
    one = lease().refused("InvalidParameterValue")

    assert one.refused("again") == one
    assert one.aged(START + 99_999) == one
    assert one.confirmed(Extension("m", "r", 120, START + 1), START + 2).loss is Loss.REFUSED
    assert one.extension(START + 1) is None
    assert one.seconds_left(START + 1) == 0


def test_extensions_end_at_twelve_hours_and_never_ask_beyond() -> None:
    one = lease()
    now = START
    while one.extend_at < inf:
        now = max(now, one.extend_at)
        extension = one.extension(now)
        assert extension is not None
        assert now + extension.seconds <= START + LIMIT_SECONDS
        one = one.confirmed(extension, now)

    assert START + LIMIT_SECONDS - 12 < one.hidden_until < START + LIMIT_SECONDS
    assert one.aged(one.hidden_until).loss is Loss.LIMIT
    assert isinstance(one.aged(one.hidden_until).error(), VisibilityLimitError)


def test_late_message_is_not_called_one_at_its_limit() -> None:
    error = lease().aged(START + 31).error()

    assert type(error) is VisibilityLostError
    assert error.message_id == "m"


@pytest.mark.parametrize(
    ("numbers", "name"),
    [
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"timeout_seconds": 43_201}, "timeout_seconds"),
        ({"timeout_seconds": 1.5}, "timeout_seconds"),
        ({"interval_seconds": 0}, "interval_seconds"),
        ({"interval_seconds": 61}, "interval_seconds"),
        ({"interval_seconds": float("nan")}, "interval_seconds"),
        ({"received_timeout_seconds": -1}, "received_timeout_seconds"),
        ({"received_timeout_seconds": 43_201}, "received_timeout_seconds"),
    ],
)
def test_number_out_of_range_is_refused_by_name(numbers: dict[str, float], name: str) -> None:
    with pytest.raises(SettingsError, match=f"^invalid configuration:\n  {name}: "):
        lease(**numbers)


def test_faults_are_reported_together() -> None:
    with pytest.raises(SettingsError) as raised:
        lease(timeout_seconds=0, received_timeout_seconds=-1)

    assert len(raised.value.faults) == 2
