"""The command line's arguments: which verb is meant, and its options."""

import argparse
from dataclasses import dataclass
from typing import Any

from spark_reprocess.command_line.verb import Verb
from spark_reprocess.command_line.verbs import (
    analyze,
    drain,
    erase,
    redrive,
    restore,
    run,
    show,
    status,
)

VERBS = (
    drain.VERB,
    analyze.VERB,
    redrive.VERB,
    run.VERB,
    restore.VERB,
    erase.VERB,
    status.VERB,
    show.VERB,
)

_ABOUT = """\
Brings order into a parked queue: move its messages into an archive, see what failed and why,
and put the right ones back. The first three verbs are the three steps, in this order."""

_PLACE = "the archive: s3://BUCKET/PREFIX, or a folder; on a cluster one that all machines share"

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

exit codes: 0 done; 1 Spark failed; 2 bad arguments or input; 3 stopped by the canary; 4 some
messages could not be sent; 130 interrupted"""


@dataclass(frozen=True, slots=True)
class Command:
    """What was typed."""

    verb: Verb
    options: Any

    def run(self) -> int:
        """Do it; return the exit code. Raises JobError."""
        return self.verb.run(self.options)


def parse(argv: list[str]) -> Command:
    """Read *argv*; like argparse, exit with 2 on a fault and 0 after help."""
    values = vars(_parser().parse_args(argv))
    verb: Verb = values.pop("verb")
    return Command(verb, verb.make_options(**values))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m spark_reprocess",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb in VERBS:
        _add(verbs, verb)
    return parser


def _add(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]", verb: Verb) -> None:
    parser = verbs.add_parser(
        verb.name,
        help=verb.line,
        description=verb.about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--archive", required=True, metavar="PLACE", help=_PLACE)
    verb.add_arguments(parser)
    parser.set_defaults(verb=verb)
