"""Defines and parses the arguments of ``simulate``."""

import argparse
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from dlq_cli.simulate.scenario import (
    DEFAULT_BACKOFF_CAP_SECONDS,
    DEFAULT_BACKOFF_RATE,
    DEFAULT_MAX_ATTEMPTS,
    DEFAULT_MAX_RECEIVE_COUNT,
    DEFAULT_MESSAGE_BYTES,
    DEFAULT_VISIBILITY_TIMEOUT_SECONDS,
    Scenario,
    policy_of,
)
from dlq_replay.settings import BACKOFF_CAP_RANGE, BACKOFF_RATE_RANGE, MAX_ATTEMPTS_RANGE

ABOUT = """\
Simulates a replay policy in an outage of the consumer. Prints how many messages recover by
themselves, how many are parked, when the last one is processed, the load on the consumer, and the
cost. The simulation uses the rules of the replay function itself."""

EXAMPLES = """\
examples:

  the template's defaults, in an outage of an hour:
    dlq simulate --outage 1h --rate 50

  how many replays an outage of four hours needs:
    dlq simulate --outage 4h --rate 50 --find

  why jitter: 10,000 messages that failed together come back together, or spread out
    dlq simulate --outage 10m --rate 1 --burst 10000

  a consumer with little spare capacity:
    dlq simulate --outage 1h --rate 50 --capacity 60

  the first failed try makes a dead letter (the worst case: only the replays wait):
    dlq simulate --outage 1h --rate 50 --visibility-timeout 0 --max-receive-count 1

The column "with breaker" is a stack with the circuit breaker (CircuitBreaker=true) and the failure
table, whose consumer records no errors. The other columns, --find and --growth are without it.

assumptions: all tries fail during the outage and none after it. Numbers are averages; a real run of
few messages varies around them. Time passes in steps of 1 s, or longer ones for outages above 1.5
hours; each wait is wrong by at most half a step. The duration of a try, and the second or so in
which Lambda collects a batch, are ignored. As in SQS, at most 120,000 copies of a queue are in
flight; above that the consumer receives no more.

durations: 90, 30s, 15m, 1h30m, 2d"""


@dataclass(frozen=True, slots=True)
class Arguments:
    """The parsed arguments.

    Attributes:
        form: ``text``, ``json`` or ``csv``; ``growth`` for the tables of docs/growth.md.
        is_search: whether to print the smallest sufficient number of replays instead.
        has_breaker: whether to simulate the circuit breaker too.
    """

    scenario: Scenario
    form: str
    is_search: bool
    has_breaker: bool


def arguments_of(values: argparse.Namespace) -> Arguments:
    """Convert the parsed *values* of ``add_arguments``.

    Raises:
        ValueError: the values contradict each other. The text names the rule.
    """
    scenario = Scenario(
        outage_seconds=values.outage,
        arrivals_per_second=values.rate,
        burst_count=values.burst,
        policy=policy_of(values.max_attempts, values.backoff_rate, values.cap),
        visibility_timeout_seconds=values.visibility_timeout,
        max_receive_count=values.max_receive_count,
        capacity_per_second=values.capacity,
        message_bytes=values.message_bytes,
    )
    return Arguments(scenario, values.form, values.find, values.has_breaker)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the simulation."""
    _add_outage(parser.add_argument_group("the outage"))
    _add_policy(parser.add_argument_group("the policy, by the template's parameters"))
    _add_main(parser.add_argument_group("the main queue and its consumer"))
    form = parser.add_argument_group("the answer").add_mutually_exclusive_group()
    form.add_argument("--json", dest="form", action="store_const", const="json", help="as JSON")
    form.add_argument(
        "--csv", dest="form", action="store_const", const="csv", help="the load, second by second"
    )
    form.add_argument(
        "--find",
        action="store_true",
        help="the smallest --max-attempts that parks under 1 in 1,000",
    )
    form.add_argument(
        "--growth",
        dest="form",
        action="store_const",
        const="growth",
        help="tables of cost and quotas",
    )
    parser.set_defaults(form="text")


def _add_outage(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--outage", type=_duration(1), default=3600, metavar="TIME", help="its length (default: 1h)"
    )
    add(
        "--rate",
        type=_number(0, 1e9),
        default=10.0,
        metavar="N",
        help="messages that arrive per second (default: %(default)g)",
    )
    add(
        "--burst",
        type=_whole(0, 10**12),
        default=0,
        metavar="N",
        help="additional messages, all at the start (default: %(default)s)",
    )


def _add_policy(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--max-attempts",
        type=_whole(*MAX_ATTEMPTS_RANGE),
        default=DEFAULT_MAX_ATTEMPTS,
        metavar="N",
        help="MaxAttempts: replays before a message is parked (default: %(default)s)",
    )
    add(
        "--backoff-rate",
        type=_number(*BACKOFF_RATE_RANGE),
        default=DEFAULT_BACKOFF_RATE,
        metavar="S",
        help="BackoffRate: replay n waits up to this times 2^n (default: %(default)g)",
    )
    add(
        "--cap",
        type=_duration(*BACKOFF_CAP_RANGE),
        default=DEFAULT_BACKOFF_CAP_SECONDS,
        metavar="TIME",
        help="BackoffCapSeconds: the longest wait (default: %(default)s)",
    )
    add(
        "--no-breaker",
        dest="has_breaker",
        action="store_false",
        help="without the circuit breaker (CircuitBreaker=false)",
    )


def _add_main(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--visibility-timeout",
        type=_duration(0, 43_200),
        default=DEFAULT_VISIBILITY_TIMEOUT_SECONDS,
        metavar="TIME",
        help="how long a copy is hidden after a failed try (default: %(default)s)",
    )
    add(
        "--max-receive-count",
        type=_whole(1, 1000),
        default=DEFAULT_MAX_RECEIVE_COUNT,
        metavar="N",
        help="failed tries before it is a dead letter (default: %(default)s)",
    )
    add(
        "--capacity",
        type=_number(0.001, 1e12),
        metavar="N",
        help="tries that the consumer can make per second (default: no limit)",
    )
    add(
        "--message-bytes",
        type=_whole(1, 1_048_576),
        default=DEFAULT_MESSAGE_BYTES,
        metavar="N",
        help="size of a message, for the cost (default: %(default)s)",
    )


def _duration(low: int, high: int = 366 * 86_400) -> Callable[[str], int]:
    def duration(text: str) -> int:
        try:
            seconds = read_seconds(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r} {error}") from None
        return _bounded(text, seconds, low, high, " s")

    return duration


def _whole(low: int, high: int) -> Callable[[str], int]:
    def whole(text: str) -> int:
        if not (text.isascii() and text.isdigit()):
            raise argparse.ArgumentTypeError(f"{text!r} must be a whole number")
        return _bounded(text, int(text), low, high)

    return whole


def _number(low: float, high: float) -> Callable[[str], float]:
    def number(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} must be a number") from None
        return _bounded(text, value, low, high)

    return number


_UNIT_SECONDS = (86_400, 3600, 60, 1)
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s?)?")


def read_seconds(text: str) -> int:
    """Read a duration such as ``1h30m``; a bare number is seconds.

    Raises:
        ValueError: the text has another form.
    """
    match = _DURATION.fullmatch(text.strip())
    if not text.strip() or match is None:
        raise ValueError("must be a duration such as 90, 30s, 1h30m or 2d")
    return sum(int(n or 0) * s for n, s in zip(match.groups(), _UNIT_SECONDS, strict=True))


Bounded = TypeVar("Bounded", int, float)


def _bounded(text: str, value: Bounded, low: float, high: float, unit: str = "") -> Bounded:
    if not low <= value <= high:
        raise argparse.ArgumentTypeError(f"{text!r} must be from {low:g}{unit} to {high:g}{unit}")
    return value
