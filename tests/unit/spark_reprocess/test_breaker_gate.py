"""What a limit of the circuit breaker allows a task that sends."""

from pathlib import Path

import pytest

from spark_reprocess.archive.storage.files import open_archive
from spark_reprocess.limits import Limit
from spark_reprocess.redrive.sending.breaker_gate import WAITING, BreakerGate
from spark_reprocess.redrive.sending.rate_limiter import RateLimiter
from spark_reprocess.redrive.sending.stop_signals import StopSignals


class Destination:
    """A gate whose limit the test sets."""

    def __init__(self, folder: Path, began_with: Limit, free_window: int | None = None) -> None:
        self.limiter = RateLimiter(5)
        self.signals = StopSignals(open_archive(str(folder)), "stop", None)
        self.limit = began_with
        self.gate = BreakerGate(
            lambda: self.limit, began_with, self.limiter, self.signals, free_window
        )

    def now(self, limit: Limit) -> "Destination":
        self.limit = limit
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
    destination = Destination(tmp_path, limit(began)).now(limit(now))

    assert bool(destination.signals.stopped_by) is is_stopped
    assert destination.signals.stopped_by.startswith(WAITING if is_stopped else "")


@pytest.mark.parametrize(("free", "messages"), [(None, 10), (21, 2)])
def test_without_a_limit_a_task_goes_as_fast_as_the_request_says(
    tmp_path: Path, free: int | None, messages: int
) -> None:
    destination = Destination(tmp_path, limit(30), free)
    assert destination.limiter.call_messages == 1
    destination.now(limit(None))

    assert destination.limiter.call_messages == messages
    # And it stops where a limit is set again.
    assert destination.now(limit(1)).signals.stopped_by


@pytest.mark.parametrize("began", [30, None])
def test_a_task_that_cannot_read_the_table_keeps_to_what_the_driver_read(
    tmp_path: Path, began: int | None
) -> None:
    destination = Destination(tmp_path, limit(began)).now(Limit(fault="no way to it"))

    assert destination.limiter.call_messages == 1
    assert not destination.signals.stopped_by


def test_a_limit_is_a_rate() -> None:
    assert (limit(90).least_rate(None), limit(90).least_rate(1)) == (1.5, 1)
    assert (Limit().least_rate(None), Limit().least_rate(7)) == (None, 7)
