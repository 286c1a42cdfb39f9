"""Arguments that several verbs take, and the types of their values.

The message of a type's fault names the rule that the value breaks.
"""

import argparse
import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from spark_reprocess.archive.ledger.disposition import CLAIM_TTL_SECONDS

_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_AGE = re.compile(r"(?P<number>[0-9]{1,6})(?P<unit>[smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

WHERE = (
    "Spark SQL over the archive's columns, e.g. \"parked_reason = 'too_old'\"; docs/analysis.md "
    "lists what it may contain"
)
"""The help of ``--where``."""


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return the type of whole numbers from *least* to *most*, both allowed."""
    rule = f"of at least {least}" if most is None else f"from {least} to {most}"

    def read(text: str) -> int:
        is_number = text.isascii() and text.isdecimal()
        if not is_number or not least <= int(text) <= (math.inf if most is None else most):
            raise argparse.ArgumentTypeError(f"{text!r}: must be a whole number {rule}")
        return int(text)

    return read


def sha256_hex(text: str) -> str:
    """Read a SHA-256 in hex."""
    if not _SHA256.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r}: must be a SHA-256: 64 hex digits")
    return text.lower()


def since(text: str) -> datetime:
    """Read a time in ISO 8601 (UTC unless it names a zone), or an age such as 7d."""
    try:
        if _AGE.fullmatch(text):
            return (datetime.now(UTC) - duration(text)).replace(microsecond=0)
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise argparse.ArgumentTypeError(
            f"{text!r}: must be an age such as 45m, 12h, 7d or 2w, or a time such as "
            "2026-11-01T09:30:00Z"
        ) from error


def duration(text: str) -> timedelta:
    """Read a length of time such as 45m, 12h, 7d or 2w."""
    if found := _AGE.fullmatch(text):
        return timedelta(**{_UNITS[found["unit"]]: int(found["number"])})
    raise argparse.ArgumentTypeError(f"{text!r}: must be a length of time such as 12h, 3d or 2w")


def add_group(parser: argparse.ArgumentParser) -> None:
    """Add the id of a group, the first argument."""
    parser.add_argument("group_id", metavar="GROUP", help="id of a group, or its beginning: g-53cb")


def positive_number(text: str) -> float:
    """Read a number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise argparse.ArgumentTypeError(f"{text!r}: must be a number above 0")
    return number


def add_claim_ttl(parser: argparse.ArgumentParser) -> None:
    """Add ``--claim-ttl``."""
    parser.add_argument(
        "--claim-ttl",
        dest="claim_ttl_seconds",
        type=whole_number(60, 43_200),
        default=CLAIM_TTL_SECONDS,
        metavar="S",
        help="seconds after which an unfinished run's claim expires, unless that run set more "
        "(default: %(default)s)",
    )


def add_time_budget(parser: "argparse._ActionsContainer") -> None:
    """Add ``--time-budget-seconds``."""
    parser.add_argument(
        "--time-budget-seconds",
        type=positive_number,
        metavar="S",
        help="end in good order S seconds after the start; the next run goes on",
    )


def add_destination(parser: argparse.ArgumentParser) -> None:
    """Add ``--main-queue-url`` and ``--to-queue-url``."""
    parser.add_argument(
        "--main-queue-url",
        metavar="URL",
        help="the main queue: gets the messages that came from it and those that name no queue",
    )
    parser.add_argument(
        "--to-queue-url",
        metavar="URL",
        help="another destination, for all messages; those parked as foreign_source are left",
    )


def add_masks(parser: "argparse._ActionsContainer", hides: str, without_samples: str) -> None:
    """Add ``--mask`` (*hides*: what it hides, and where) and ``--no-samples``, with their help."""
    parser.add_argument(
        "--mask",
        dest="masks",
        action="append",
        default=[],
        metavar="FIELD|REGEX",
        help=f"{hides}; may be repeated",
    )
    parser.add_argument(
        "--no-samples", dest="has_samples", action="store_false", help=without_samples
    )


def add_plan(parser: "argparse._ActionsContainer") -> None:
    """Add ``--plan``."""
    parser.add_argument(
        "--plan",
        metavar="FILE|ID",
        help="the plan.yaml of a report, or the id of its report (default: that of the "
        "archive's newest report)",
    )


def add_policy_sha256(parser: "argparse._ActionsContainer") -> None:
    """Add ``--policy-sha256``."""
    parser.add_argument(
        "--policy-sha256",
        type=sha256_hex,
        metavar="HEX",
        help="refuse a policy file with another SHA-256 (sha256sum FILE prints it)",
    )


def add_execution(parser: argparse.ArgumentParser, *, without: str = "nothing is sent") -> None:
    """Add ``--reason`` and ``--execute``; *without* is what a dry run does not do, for the help."""
    parser.add_argument(
        "--reason", default="", metavar="TEXT", help="why; recorded in the ledger with --execute"
    )
    parser.add_argument(
        "--execute", action="store_true", help=f"act; without this option {without}"
    )


def add_breaker(parser: argparse.ArgumentParser) -> None:
    """Add ``--failure-table``."""
    parser.add_argument(
        "--failure-table",
        metavar="NAME",
        help="the DynamoDB table with the circuit breakers: send no more to a queue than its limit "
        "allows, and nothing while its consumer does not work",
    )


def add_sending(parser: argparse.ArgumentParser, *in_doubt: str) -> None:
    """Add ``--max-rate``, ``--in-doubt`` with *in_doubt* beside leave, and ``--claim-ttl``."""
    parser.add_argument(
        "--max-rate",
        type=positive_number,
        metavar="R",
        help="at most R messages a second (default: no limit)",
    )
    parser.add_argument(
        "--in-doubt",
        choices=(*in_doubt, "leave"),
        default="leave",
        help="what to do with messages that may have been sent (default: %(default)s)",
    )
    add_claim_ttl(parser)
