"""Conclusions of a watch from what failed again, and their exit codes."""

import pytest

from dlq.archive.ledger.stop import Stop, StopCause
from dlq.cli.verb import CHECK_FAILED, DONE, FAILED_AGAIN, INTERRUPTED, NOT_ALL_SENT
from dlq.cli.verbs.redrive import exit_code_of_watch
from dlq.inspect.outcomes import Outcome
from dlq.redrive.watch import Watched, too_many_returned

SIGNAL = Stop(StopCause.INTERRUPTED)
OVER = Stop(StopCause.TIME_OVER)


@pytest.mark.parametrize(
    ("sent", "before", "returned", "allowed", "is_bad"),
    [
        (4, 0, 0, None, False),
        (4, 0, 1, None, True),
        (4, 2, 2, None, False),
        (4, 2, 3, None, True),
        (4, 2, 3, "1", False),
        (40, 0, 1, None, False),
        (40, 0, 2, None, True),
        # What is not known is not bad; the watch says so by other means.
        (4, 0, None, None, False),
    ],
)
def test_only_what_came_back_since_the_watch_began_counts(
    sent: int, before: int, returned: int | None, allowed: str | None, *, is_bad: bool
) -> None:
    outcome = Outcome("g-1", {"sent": sent}, sent, 0.0, returned)

    bad = too_many_returned([outcome], {"g-1": before}, allowed)

    assert bad == (("g-1",) if is_bad else ())


def watched(
    *, bad: bool = False, unknown: bool = False, stop: Stop | None = None, fault: str = ""
) -> Watched:
    return Watched(
        outcomes=(),
        bad=("g-1",) if bad else (),
        unknown=("g-1",) if unknown else (),
        stopped_by=stop,
        fault=fault,
    )


@pytest.mark.parametrize(
    ("of_watch", "of_run", "exit_code"),
    [
        (watched(), DONE, DONE),
        (watched(), NOT_ALL_SENT, NOT_ALL_SENT),
        (watched(bad=True), NOT_ALL_SENT, FAILED_AGAIN),
        (watched(bad=True, stop=SIGNAL), NOT_ALL_SENT, INTERRUPTED),
        (watched(unknown=True), DONE, CHECK_FAILED),
        (watched(unknown=True), FAILED_AGAIN, FAILED_AGAIN),
        (watched(stop=OVER), DONE, CHECK_FAILED),
        (watched(stop=OVER), NOT_ALL_SENT, NOT_ALL_SENT),
        (watched(fault="the archive cannot be read"), DONE, CHECK_FAILED),
        # A fault whose text says something else is a fault.
        (watched(fault="interrupted"), DONE, CHECK_FAILED),
    ],
)
def test_exit_code_of_a_watch(of_watch: Watched, of_run: int, exit_code: int) -> None:
    assert exit_code_of_watch(of_watch, of_run) == exit_code
