"""What a limit of the circuit breaker allows a task that sends."""

from pathlib import Path

import pytest

from dlq_replay.breaker import BreakerState
from spark_reprocess.archive.files import open_archive
from spark_reprocess.redrive.breaker_gate import WAITING, BreakerGate, Limit
from spark_reprocess.redrive.rate_limiter import RateLimiter
from spark_reprocess.redrive.stop_signals import StopSignals

NOW = 1_800_000_000


class Destination:
    """A gate whose clock and limit the test sets."""

    def __init__(self, folder: Path, began_with: Limit, free_window: int | None = None) -> None:
        self.seconds, self.reads, self.limit = 0.0, 0, began_with
        self.limiter = RateLimiter(5)
        self.signals = StopSignals(open_archive(str(folder)), "stop", None)
        self.gate = BreakerGate(
            self.read, began_with, self.limiter, self.signals, free_window, lambda: self.seconds
        )

    def read(self) -> Limit:
        self.reads += 1
        return self.limit

    def after(self, seconds: float, limit: Limit) -> "Destination":
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
    one = Destination(tmp_path, limit(began)).after(10, limit(now))

    assert bool(one.signals.stopped_by) is is_stopped
    assert one.signals.stopped_by.startswith(WAITING if is_stopped else "")


def test_the_limit_is_read_every_ten_seconds(tmp_path: Path) -> None:
    one = Destination(tmp_path, limit(90))
    for seconds in (3, 9.9, 10, 15, 21):
        one.after(seconds, limit(90))

    assert one.reads == 2


@pytest.mark.parametrize(("free", "messages"), [(None, 10), (21, 2)])
def test_without_a_limit_a_task_goes_as_fast_as_the_request_says(
    tmp_path: Path, free: int | None, messages: int
) -> None:
    one = Destination(tmp_path, limit(30), free)
    assert one.limiter.call_messages == 1
    one.after(10, limit(None))

    assert one.limiter.call_messages == messages
    # And it stops where a limit is set again.
    assert one.after(20, limit(1)).signals.stopped_by


def test_a_limit_of_1_means_waiting_and_a_higher_one_a_rate() -> None:
    low = Limit.of(BreakerState({"limit": 1, "since": NOW - 60, "silent_since": NOW - 600}), NOW)
    full = Limit.of(BreakerState({"limit": 90, "since": NOW}), NOW)

    assert low.waiting == (
        "waiting for the breaker: limited to 1 replay a minute; the consumer has deleted nothing "
        "for 10 minutes"
    )
    assert (full.waiting, full.least_rate(None), full.least_rate(1)) == ("", 1.5, 1)
    assert (Limit().waiting, Limit().least_rate(None), Limit().least_rate(7)) == ("", None, 7)
