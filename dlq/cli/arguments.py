"""Arguments that several verbs take, and the types of their values.

The message of a type's fault names the rule that the value breaks.
"""

import argparse
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from dlq.explain.logs.events import LIMIT_MINUTES

_AGE = re.compile(r"(?P<number>[0-9]{1,6})(?P<unit>[smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def whole_number(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return the type of whole numbers from *least* to *most*, both allowed."""
    rule = f"of at least {least}" if most is None else f"from {least} to {most}"
    limit = math.inf if most is None else most

    def read(text: str) -> int:
        is_number = text.isascii() and text.isdecimal()
        if not is_number or not least <= int(text) <= limit:
            raise argparse.ArgumentTypeError(f"{text!r}: must be a whole number {rule}")
        return int(text)

    return read


def since(text: str) -> datetime:
    """Read a time in ISO 8601 (UTC unless it names a zone), or an age such as 7d."""
    try:
        if _AGE.fullmatch(text):
            return (datetime.now(UTC) - duration(text)).replace(microsecond=0)

        time = datetime.fromisoformat(text)
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        return time.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise argparse.ArgumentTypeError(
            f"{text!r}: must be an age such as 45m, 12h, 7d or 2w, or a time such as "
            "2026-11-01T09:30:00Z"
        ) from error


def duration(text: str) -> timedelta:
    """Read a length of time such as 45m, 12h, 7d or 2w."""
    if age := _AGE.fullmatch(text):
        unit = _UNITS[age["unit"]]
        return timedelta(**{unit: int(age["number"])})
    raise argparse.ArgumentTypeError(f"{text!r}: must be a length of time such as 12h, 3d or 2w")


def positive_number(text: str) -> float:
    """Read a number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise argparse.ArgumentTypeError(f"{text!r}: must be a number above 0")
    return number


_SHARED: Mapping[str, dict[str, Any]] = {
    "group_id": {"metavar": "GROUP", "help": "id of a group, or its beginning: g-53cb"},
    "--parked-queue-url": {"metavar": "URL", "help": "the parked queue"},
    "--queue-tag": {
        "metavar": "VALUE",
        "help": "in place of --main-queue-url: each message goes to its own source queue, if that "
        "and its DLQ have the tag dlq-replay=VALUE",
    },
    "--sweep-function-arn": {
        "metavar": "ARN",
        "help": "for a ramp with --queue-tag: the function that reads all DLQs by schedule",
    },
    "--main-queue-url": {
        "metavar": "URL",
        "help": "the main queue: gets the messages that came from it and those that name no queue",
    },
    "--to-queue-url": {
        "metavar": "URL",
        "help": "another destination, for all messages; those parked as foreign_source are left",
    },
    "--plan": {
        "metavar": "FILE|ID",
        "help": "the plan.yaml of a report, or the id of its report (default: that of the "
        "archive's newest report)",
    },
    "--where": {
        "metavar": "SQL",
        "help": "only messages for which this is true: Spark SQL over the archive's columns, e.g. "
        "\"parked_reason = 'too_old'\"; docs/analysis.md lists what it may contain",
    },
    "--limit": {"type": whole_number(1), "metavar": "N", "help": "at most N messages in this run"},
    "--time-budget-seconds": {
        "type": positive_number,
        "metavar": "S",
        "help": "end in good order S seconds after the start; the next run goes on",
    },
    "--max-rate": {
        "type": positive_number,
        "metavar": "R",
        "help": "send at most R messages a second (default: no limit)",
    },
    "--failure-table": {
        "metavar": "NAME",
        "help": "the stack's DynamoDB table: limits of queues, what failed again, recorded errors",
    },
    "--policy": {"metavar": "FILE", "help": "rules that set actions: a file, or s3://BUCKET/KEY"},
    "--policy-sha256": {
        "metavar": "HEX",
        "help": "refuse a policy file with another SHA-256 (sha256sum FILE prints it)",
    },
    "--mask": {
        "dest": "masks",
        "action": "append",
        "default": [],
        "metavar": "FIELD|REGEX",
        "help": "hide a field with everything below it (body.customer.name, attribute.tenant), or "
        "what a regular expression matches, wherever content of messages is shown; e-mail "
        "addresses, card, phone and account numbers, tokens and fields named like secrets are "
        "always hidden, but not names, addresses and free text; may be repeated",
    },
    "--no-samples": {
        "dest": "has_samples",
        "action": "store_false",
        "help": "show no values of messages: no samples, no previews of edits, no words of text "
        "bodies in titles; keys, values that name a kind of message (type, action) and recorded "
        "errors are still shown",
    },
    "--logs": {
        "metavar": "GROUP|FILE",
        "action": "append",
        "default": [],
        "help": "a log group of the consumer's, or a FILE.jsonl of its events: look there for the "
        "errors of messages without a recorded one; may be repeated",
    },
    "--logs-limit": {
        "dest": "logs_minutes",
        "type": whole_number(1),
        "default": LIMIT_MINUTES,
        "metavar": "MINUTES",
        "help": "read log groups for at most this number of minutes, and 100 MB in each of them "
        "(default: %(default)s); beyond that around the newest 200 messages of each group",
    },
    "--pointer-bucket": {
        "metavar": "NAME",
        "help": "where bodies are pointers of the SQS extended client, the dry run looks up a "
        "sample of their objects in this bucket",
    },
    "--unconfirmed": {
        "choices": ("send", "leave"),
        "default": "leave",
        "help": "what to do with messages that may have been sent before: send them again, or "
        "leave them (default: %(default)s)",
    },
    "--reason": {
        "default": "",
        "metavar": "TEXT",
        "help": "why; recorded in the ledger with --execute",
    },
    "--execute": {
        "action": "store_true",
        "help": "act; without this option the run is a dry run, which sends and erases nothing",
    },
}


def add_parked_queues(
    parser: "argparse._ActionsContainer",
    help_text: str = "a parked queue; may be repeated",
    *,
    required: bool = False,
) -> None:
    """Add ``--parked-queue-url`` of verbs that take several; its value is ``parked_queue_urls``."""
    parser.add_argument(
        "--parked-queue-url",
        dest="parked_queue_urls",
        action="append",
        default=[],
        required=required,
        metavar="URL",
        help=help_text,
    )


def add_shared(parser: "argparse._ActionsContainer", *names: str, **changes: Any) -> None:  # noqa: ANN401 - argparse's
    """Add arguments of ``_SHARED``, with *changes* of their settings."""
    for name in names:
        settings = {**_SHARED[name], **changes}
        parser.add_argument(name, **settings)
