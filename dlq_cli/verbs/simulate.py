"""``simulate``: simulates a replay policy in an outage."""

import argparse
from collections.abc import Callable, Mapping, Sequence

from dlq_cli.simulation import (
    MAX_IN_FLIGHT,
    PRICES_AS_OF,
    PRICES_REGION,
    Recovery,
    Scenario,
    policy_of,
    simulate,
)
from dlq_replay.settings import BACKOFF_CAP_RANGE, MAX_AGE_RANGE, MAX_ATTEMPTS_RANGE
from spark_reprocess.command_line import arguments
from spark_reprocess.command_line.arguments import positive_number, whole_number
from spark_reprocess.command_line.terminal import print_answer, print_line, print_table
from spark_reprocess.command_line.verb import DONE, Verb
from spark_reprocess.errors import InputError
from spark_reprocess.figures import duration, percent, quantity

_ABOUT = """\
Simulates a replay policy in an outage of the consumer, with the rules of the replay function.
Prints how many messages recover by themselves, how many are parked, when the last one is processed,
the load on the consumer, and the cost: with the circuit breaker (CircuitBreaker) and without it."""

_EXAMPLES = """\
examples:

  the template's defaults, in an outage of an hour:
    dlq simulate --outage 1h --rate 50

  a consumer with little spare capacity:
    dlq simulate --outage 1h --rate 50 --capacity 60

  the first failed try makes a dead letter (the worst case: only the replays wait):
    dlq simulate --outage 1h --rate 50 --visibility-timeout 0 --max-receive-count 1

assumptions: all tries fail during the outage and none after it; a try takes no time; main is a
standard queue, of which at most 120,000 copies are in flight; the consumer records no errors. At
most 2,000 messages are simulated: where more arrive, each stands for several, and numbers are
averages with an error of about a percent."""


def _outage(text: str) -> int:
    seconds = int(arguments.duration(text).total_seconds())
    if seconds < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: must be at least 1s")
    return seconds


_ATTEMPTS, _CAP = whole_number(*MAX_ATTEMPTS_RANGE), whole_number(*BACKOFF_CAP_RANGE)
_AGE = whole_number(*MAX_AGE_RANGE)
_TIMEOUT, _RECEIVES = whole_number(0, 43_200), whole_number(1, 1000)
_POLICY = policy_of()
_OPTIONS: Sequence[tuple[str, Callable[[str], float], float | None, str]] = (
    ("--outage", _outage, 3600, "length of the outage: 90s, 30m, 4h (default: 1h)"),
    ("--rate", positive_number, 10, "messages that arrive per second"),
    ("--capacity", positive_number, None, "tries of the consumer per second (default: no limit)"),
    ("--max-attempts", _ATTEMPTS, _POLICY.max_attempts, "MaxAttempts"),
    ("--backoff-rate", positive_number, _POLICY.backoff.rate_seconds, "BackoffRate"),
    ("--cap", _CAP, _POLICY.backoff.cap_seconds, "BackoffCapSeconds"),
    ("--max-age", _AGE, None, "MaxAgeSeconds (default: no limit)"),
    ("--visibility-timeout", _TIMEOUT, 30, "of the main queue, in seconds"),
    ("--max-receive-count", _RECEIVES, 5, "maxReceiveCount of the main queue"),
)
"""Name, type, default and meaning."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    for name, kind, default, meaning in _OPTIONS:
        shown = meaning if "default" in meaning else f"{meaning} (default: {default:g})"
        parser.add_argument(name, type=kind, default=default, metavar="N", help=shown)


def _run(values: argparse.Namespace) -> int:
    try:
        scenario = Scenario(
            outage_seconds=values.outage,
            arrivals_per_second=values.rate,
            policy=policy_of(values.max_attempts, values.backoff_rate, values.cap, values.max_age),
            visibility_timeout_seconds=values.visibility_timeout,
            max_receive_count=values.max_receive_count,
            capacity_per_second=values.capacity,
        )
    except ValueError as error:
        raise InputError(str(error)) from error
    recoveries = [simulate(scenario, has_breaker=has_breaker) for has_breaker in (True, False)]
    names = ("arrived", *_ROWS)
    results = [{name: getattr(recovery, name) for name in names} for recovery in recoveries]
    answer = dict(zip(("with_breaker", "without_breaker"), results, strict=True))
    print_answer(answer, lambda: _print(recoveries))
    return DONE


def _dollars(amount: float) -> str:
    return f"${amount:,.2f}" if amount >= 0.01 else "<$0.01"  # noqa: PLR2004 - a cent


_ROWS: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "recovered": ("recovered by themselves", quantity),
    "parked": ("parked", quantity),
    "parked_share": ("  share of all", percent),
    "last_through_seconds": ("last one processed, after the outage", duration),
    "peak_load": ("highest load after it, tries a second", quantity),
    "replays": ("replays", quantity),
    "failed_tries": ("tries that failed", quantity),
    "held": ("holds of the circuit breaker", quantity),
    "peak_in_flight": (f"most in flight in main, of {MAX_IN_FLIGHT:,}", quantity),
    "sqs_requests": ("SQS requests, with the consumer's", quantity),
    "invocations": ("invocations of the function", quantity),
    "dollars": ("cost of both", _dollars),
    "dollars_per_million": ("a million messages of it cost", _dollars),
}
"""The rows of the table by the name of the field: label and format."""


def _print(recoveries: Sequence[Recovery]) -> None:
    scenario = recoveries[0].scenario
    print_line(
        f"An outage of {duration(scenario.outage_seconds)}, in which every try fails and "
        f"{quantity(recoveries[0].arrived)} messages arrive:\n"
    )
    print_table(
        ["", "with circuit breaker", "without"],
        [
            [label, *(form(getattr(recovery, name)) for recovery in recoveries)]
            for name, (label, form) in _ROWS.items()
        ],
    )
    print_line(f"\nList prices of {PRICES_REGION}, {PRICES_AS_OF}, without free tier.")


VERB = Verb(_ABOUT, _add_arguments, argparse.Namespace, _run, _EXAMPLES)
