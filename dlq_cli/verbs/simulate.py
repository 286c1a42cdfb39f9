"""``simulate``: simulates a replay policy in an outage."""

import argparse
import os
import re
import shutil
import sys
from collections.abc import Callable

from dlq_cli.simulate.bill import bill_of
from dlq_cli.simulate.files import write_csv, write_json
from dlq_cli.simulate.flow import simulate, smallest_max_attempts
from dlq_cli.simulate.growth import tables
from dlq_cli.simulate.jitter import Jitter
from dlq_cli.simulate.recovery import BREAKER, Recovery
from dlq_cli.simulate.report import ACCEPTED_SHARE, Screen, text_report
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
from dlq_replay.breaker import BreakerRules
from dlq_replay.settings import BACKOFF_CAP_RANGE, BACKOFF_RATE_RANGE, MAX_ATTEMPTS_RANGE
from spark_reprocess.command_line.arguments import whole_number
from spark_reprocess.command_line.verb import DONE, Verb
from spark_reprocess.errors import InputError

_ABOUT = """\
Simulates a replay policy in an outage of the consumer. Prints how many messages recover by
themselves, how many are parked, when the last one is processed, the load on the consumer, and the
cost. The simulation uses the rules of the replay function itself."""

_EXAMPLES = """\
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


def _add_arguments(parser: argparse.ArgumentParser) -> None:
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
        type=whole_number(0, 10**12),
        default=0,
        metavar="N",
        help="additional messages, all at the start (default: %(default)s)",
    )


def _add_policy(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--max-attempts",
        type=whole_number(*MAX_ATTEMPTS_RANGE),
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
        type=whole_number(1, 1000),
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
        type=whole_number(1, 1_048_576),
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
        if not low <= seconds <= high:
            raise argparse.ArgumentTypeError(f"{text!r} must be from {low} s to {high} s")
        return seconds

    return duration


def _number(low: float, high: float) -> Callable[[str], float]:
    def number(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} must be a number") from None
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"{text!r} must be from {low:g} to {high:g}")
        return value

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


def _run(values: argparse.Namespace) -> int:
    try:
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
    except ValueError as error:
        raise InputError(str(error)) from error
    try:
        _answer(scenario, values)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader closed the pipe. Without this, Python would fail when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return DONE


def _answer(scenario: Scenario, values: argparse.Namespace) -> None:
    if values.find:
        enough = smallest_max_attempts(scenario, ACCEPTED_SHARE)
        _print(f"{enough}" if enough is not None else "no number of replays is enough")
        return
    if values.form == "growth":
        _print("\n\n".join(tables()))
        return
    recoveries: dict[str, Recovery] = {}
    if values.has_breaker:
        recoveries[BREAKER] = simulate(scenario, breaker=BreakerRules())
    recoveries |= {jitter: simulate(scenario, jitter) for jitter in Jitter}
    products = (BREAKER, Jitter.FULL)
    bills = {name: bill_of(recoveries[name]) for name in products if name in recoveries}
    if values.form == "json":
        write_json(recoveries, bills, sys.stdout)
    elif values.form == "csv":
        write_csv(recoveries, sys.stdout)
    else:
        _print(text_report(recoveries, bills, _screen()))


def _screen() -> Screen | None:
    """Return the terminal to draw on; None in a pipe, or if it cannot show braille."""
    shows_braille = (sys.stdout.encoding or "").lower().startswith("utf")
    if not (sys.stdout.isatty() and shows_braille):
        return None
    return Screen(shutil.get_terminal_size().columns, has_colours="NO_COLOR" not in os.environ)


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")


VERB = Verb(_ABOUT, _add_arguments, argparse.Namespace, _run, _EXAMPLES, has_json=False)
