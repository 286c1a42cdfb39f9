"""What a limit of the circuit breaker allows a task that sends."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from dlq_replay.breaker import BreakerState
from spark_reprocess.archive.files import open_archive
from spark_reprocess.figures import limit_sentence
from spark_reprocess.redrive.breaker_gate import WAITING, BreakerGate, Limit
from spark_reprocess.redrive.rate_limiter import RateLimiter
from spark_reprocess.redrive.stop_signals import StopSignals

NOW = datetime(2026, 11, 24, 3, 32, tzinfo=UTC)


class Destination:
    """A gate whose clock and limit the test sets; the limit was last known at 0 s."""

    def __init__(self, folder: Path, began_with: Limit, free_window: int | None = None) -> None:
        self.limiter = RateLimiter(5)
        self.signals = StopSignals(open_archive(str(folder)), "stop", None)
        self.limit: Limit | None = began_with
        self.seconds = 0.0
        self.gate = BreakerGate(
            lambda: self.limit,
            began_with,
            self.limiter,
            self.signals,
            free_window,
            lambda: self.seconds,
        )

    def after(self, seconds: float, limit: Limit | None) -> "Destination":
        self.seconds, self.limit = seconds, limit
        self.gate.look()
        return self


def limit(per_minute: int | None) -> Limit:
    return Limit(per_minute, "" if per_minute is None else f"limited to {per_minute} a minute")


@pytest.mark.parametrize(
    ("began", "now", "is_stopped"),
    [(None, None, False), (90, 90, False), (90, 120, False), (90, 1, True), (None, 1, True)],
)
def test_a_task_stops_where_the_limit_falls(
    tmp_path: Path, began: int | None, now: int | None, *, is_stopped: bool
) -> None:
    destination = Destination(tmp_path, limit(began)).after(10, limit(now))

    assert bool(destination.signals.stopped_by) is is_stopped
    assert destination.signals.stopped_by.startswith(WAITING if is_stopped else "")


@pytest.mark.parametrize(("free", "messages"), [(None, 10), (21, 2)])
def test_without_a_limit_a_task_goes_as_fast_as_the_request_says(
    tmp_path: Path, free: int | None, messages: int
) -> None:
    destination = Destination(tmp_path, limit(30), free)
    assert destination.limiter.call_messages == 1
    destination.after(10, limit(None))

    assert destination.limiter.call_messages == messages
    # And it stops where a limit is set again.
    assert destination.after(20, limit(1)).signals.stopped_by


def test_a_task_keeps_to_its_limit_while_the_table_fails_for_a_minute(tmp_path: Path) -> None:
    """Then there is no limit, as without a circuit breaker."""
    destination = Destination(tmp_path, limit(30)).after(60, None)
    assert destination.limiter.call_messages == 1

    assert destination.after(61, None).limiter.call_messages == 10
    assert not destination.signals.stopped_by


def test_a_limit_of_1_means_waiting_and_a_higher_one_a_rate() -> None:
    now = int(NOW.timestamp())
    low = BreakerState({"limit": 1, "since": now - 1200, "silent_since": now - 1320})

    assert Limit(1, limit_sentence(low, NOW)).waiting == (
        "waiting for the breaker: limited to 1 replay a minute since 03:12 UTC; the consumer has "
        "deleted nothing for 22 minutes"
    )
    full = limit(90)
    assert (full.waiting, full.least_rate(None), full.least_rate(1)) == ("", 1.5, 1)
    assert (Limit().waiting, Limit().least_rate(None), Limit().least_rate(7)) == ("", None, 7)
