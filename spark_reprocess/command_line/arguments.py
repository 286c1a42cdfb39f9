"""The command line's arguments, turned into each verb's options."""

import argparse
import math
from typing import TYPE_CHECKING

from spark_reprocess.analysis.analyze import AnalyzeOptions
from spark_reprocess.drain.drain import DrainOptions
from spark_reprocess.redrive.redrive_values import RedriveOptions

if TYPE_CHECKING:
    from collections.abc import Callable

Options = DrainOptions | AnalyzeOptions | RedriveOptions

_ABOUT = """\
Brings order into a parked queue: move its messages into an archive, see what failed and why,
and put the right ones back. The three verbs are the three steps, in this order."""

_EXAMPLES = """\
example, from a full parked queue to messages that are back in the main queue:

  python -m spark_reprocess drain --archive ./archive \\
      --parked-queue-url https://sqs.eu-west-1.amazonaws.com/123456789012/orders-parked
  python -m spark_reprocess analyze --archive ./archive
  # edit the actions in the plan.yaml that it names, then look at the dry run:
  python -m spark_reprocess redrive --archive ./archive --plan ./archive/reports/ID/plan.yaml \\
      --to-queue-url https://sqs.eu-west-1.amazonaws.com/123456789012/orders
  # and do it:
  python -m spark_reprocess redrive ... --execute --reason "address service is back"

The same verbs run on a cluster: spark-submit --py-files spark_reprocess.zip ... VERB.
Region, credentials and endpoint are boto3's: AWS_REGION, AWS_PROFILE, AWS_ENDPOINT_URL.

exit codes: 0 done; 2 bad arguments or input; 4 some messages could not be sent"""

_DRAIN = """\
Moves messages from the parked queue into the archive. Each is written durably before it is
deleted; killed at any point, the archive has duplicates at worst, which every read removes.
Run it again at any time to fetch what came since."""

_ANALYZE = """\
Groups the archive's undecided messages by what failed, and writes a report (groups.parquet,
summary.json) and a plan (plan.yaml) in which every group's action is "leave". Touches no queue."""

_REDRIVE = """\
Does what plan.yaml says, to exactly the messages that it froze: sends groups with action
"redrive" to the queue, records groups with action "discard". A dry run unless --execute is given.
Repeat it at will: what was sent is never sent again, and what may have been sent (an answer that
was lost, a run that was killed) is named and left alone unless you say --in-doubt send.

Messages that were parked as foreign_source came from another queue than the main queue. They are
left, and counted, unless --include-foreign says that the destination is theirs."""

_WHERE = "Spark SQL over the archive's columns, e.g. \"parked_reason = 'too_old'\""


def parse(argv: list[str]) -> Options:
    """Read *argv*; like argparse, exit with 2 on a fault and 0 after help."""
    values = vars(_parser().parse_args(argv))
    make: Callable[..., Options] = values.pop("make")
    return make(**values)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m spark_reprocess",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    _add_drain(_verb(verbs, "drain", "parked queue to archive", _DRAIN))
    _add_analyze(_verb(verbs, "analyze", "archive to report and plan", _ANALYZE))
    _add_redrive(_verb(verbs, "redrive", "plan to queue (dry run by default)", _REDRIVE))
    return parser


def _verb(
    verbs: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str, line: str, text: str
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(
        name,
        help=line,
        description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--archive", required=True, metavar="FOLDER", help="the archive's folder")
    return parser


def _add_drain(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    parser.set_defaults(make=DrainOptions)
    add("--parked-queue-url", required=True, metavar="URL", help="the queue to empty")
    add("--limit", type=_count, metavar="N", help="take at most N messages")
    add(
        "--time-budget-seconds",
        type=_above_zero,
        metavar="S",
        help="stop receiving after S seconds; what was received is still archived and deleted",
    )
    add("--tasks", type=_count, metavar="N", help="loops side by side (default: Spark's cores)")
    add(
        "--wait-seconds",
        type=_wait,
        default=2,
        metavar="S",
        help="length of a long poll, 0 to 20; two empty ones end a task (default: %(default)s)",
    )


def _add_analyze(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    parser.set_defaults(make=_analyze_options)
    add("--out", metavar="FOLDER", help="the report's folder (default: FOLDER/reports/ID)")
    add("--where", metavar="SQL", help=_WHERE)
    add(
        "--mask",
        dest="masks",
        action="append",
        default=[],
        metavar="REGEX",
        help="hide what it matches in samples and titles, besides e-mail addresses, card numbers "
        "and tokens; may be repeated",
    )
    add(
        "--no-samples",
        dest="has_samples",
        action="store_false",
        help="show no part of any body in the report's samples",
    )


def _add_redrive(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    parser.set_defaults(make=_redrive_options)
    add("--plan", required=True, metavar="FILE", help="the plan.yaml that analyze wrote")
    add("--to-queue-url", required=True, metavar="URL", help="the destination")
    add("--where", metavar="SQL", help=f"only these of the plan: {_WHERE}")
    add("--limit", type=_count, metavar="N", help="act on at most N messages in this run")
    add(
        "--max-rate",
        type=_above_zero,
        metavar="R",
        help="at most R messages a second (default: as fast as it goes)",
    )
    add(
        "--in-doubt",
        choices=("report", "send"),
        default="report",
        help="what to do with messages that may have been sent (default: %(default)s)",
    )
    add(
        "--claim-ttl",
        dest="claim_ttl_seconds",
        type=_claim_ttl,
        default=900,
        metavar="S",
        help="seconds after which an unfinished run's claim counts as dead (default: %(default)s)",
    )
    add("--include-foreign", action="store_true", help="also messages parked as foreign_source")
    add("--keep-counter", action="store_true", help="keep each message's replay count")
    add("--reason", default="", metavar="TEXT", help="why; goes into the ledger with --execute")
    add("--execute", action="store_true", help="do it; without this nothing is sent")


def _analyze_options(*, masks: list[str], **values: object) -> AnalyzeOptions:
    make: Callable[..., AnalyzeOptions] = AnalyzeOptions
    return make(masks=tuple(masks), **values)


def _redrive_options(*, in_doubt: str, **values: object) -> RedriveOptions:
    make: Callable[..., RedriveOptions] = RedriveOptions
    return make(send_in_doubt=in_doubt == "send", **values)


def _count(text: str) -> int:
    return _whole(text, 1, None)


def _wait(text: str) -> int:
    return _whole(text, 0, 20)


def _claim_ttl(text: str) -> int:
    return _whole(text, 60, 43_200)


def _whole(text: str, least: int, most: int | None) -> int:
    rule = f"of at least {least}" if most is None else f"from {least} to {most}"
    if not text.isascii() or not text.isdecimal() or not least <= int(text) <= (most or math.inf):
        raise argparse.ArgumentTypeError(f"{text!r}: must be a whole number {rule}")
    return int(text)


def _above_zero(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise argparse.ArgumentTypeError(f"{text!r}: must be a number above 0")
    return number
