from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq_replay.backoff import Backoff
from dlq_replay.retry import Retry


class Flaky:
    """Fails so many times, then returns the number of the call."""

    def __init__(self, failures: int, error: type[Exception] = ConnectionError) -> None:
        self.failures = failures
        self.error = error
        self.calls = 0

    def __call__(self) -> int:
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error(self.calls)
        return self.calls


def is_connection_error(error: Exception) -> bool:
    return isinstance(error, ConnectionError)


def retry(
    pauses: list[float],
    max_attempts: int = 4,
    share: float = 1.0,
    seconds_left: Callable[[], float] | None = None,
) -> Retry:
    return Retry(
        max_attempts,
        Backoff(rate_seconds=0.5, cap_seconds=3),
        pauses.append,
        lambda: share,
        seconds_left or (lambda: 1e9),
    )


@pytest.mark.parametrize(
    ("flaky", "pauses", "outcome"),
    [
        (Flaky(0), [], nullcontext()),
        (Flaky(2), [1, 2], nullcontext()),
        (Flaky(9), [1, 2, 3], pytest.raises(ConnectionError, match="4")),
        # It is not transient.
        (Flaky(9, KeyError), [], pytest.raises(KeyError, match="1")),
    ],
)
def test_call_is_repeated_until_it_succeeds_or_its_attempts_are_used_up(
    flaky: Flaky, pauses: list[float], outcome: AbstractContextManager[object]
) -> None:
    waited: list[float] = []
    with outcome:
        assert retry(waited).call(flaky, is_connection_error) == flaky.calls

    assert waited == pauses
    assert flaky.calls == len(pauses) + 1


@given(st.integers(1, 12), st.floats(0, 1))
def test_each_wait_is_a_share_of_a_window_that_doubles_up_to_the_cap(
    max_attempts: int, share: float
) -> None:
    pauses: list[float] = []

    assert list(retry(pauses, max_attempts, share).attempts()) == [*range(1, max_attempts + 1)]
    assert pauses == [share * min(3, 0.5 * 2**number) for number in range(1, max_attempts)]


def test_no_attempt_but_the_first_follows_a_wait_that_would_pass_the_deadline() -> None:
    pauses: list[float] = []
    left = [5.0, 2.0, 9.0]

    assert list(retry(pauses, seconds_left=lambda: left.pop(0)).attempts()) == [1, 2]
    assert pauses == [1.0]
    assert list(retry([], seconds_left=lambda: 0.0).attempts()) == [1]


def test_wait_is_drawn_again_for_each_attempt() -> None:
    pauses: list[float] = []
    list(Retry(30, Backoff(1, 1), sleep=pauses.append).attempts())

    assert len(set(pauses)) > 20
    assert all(0 <= pause <= 1 for pause in pauses)
