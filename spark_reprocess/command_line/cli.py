"""The command line: reads a verb and its options, runs it, and returns the exit code."""

import argparse
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PythonException

from spark_reprocess.command_line import (
    analyze,
    drain,
    erase,
    export,
    redrive,
    restore,
    run,
    show,
    status,
)
from spark_reprocess.command_line.terminal import print_error
from spark_reprocess.command_line.verb import BAD_INPUT, INTERRUPTED, PROGRAM, SPARK_FAILED, Verb
from spark_reprocess.errors import JobError
from spark_reprocess.spark.failures import (
    SPARK_FAILURES,
    archive_fault_of,
    condition_of,
    sentence_of,
)
from spark_reprocess.spark.interrupts import CANCELLED

VERBS = (
    drain.VERB,
    analyze.VERB,
    redrive.VERB,
    run.VERB,
    restore.VERB,
    erase.VERB,
    status.VERB,
    show.VERB,
    export.VERB,
)
"""In the order of ``--help``."""

_ABOUT = """\
Archives the messages of a parked queue, groups them by failure, and sends the right ones back.
The first three verbs are the steps, in this order."""

_PLACE = "the archive: s3://BUCKET/PREFIX, or a folder, which on a cluster all machines must share"

_EXAMPLES = """\
example, from a full parked queue to messages that are back in the main queue:

  python -m spark_reprocess drain --archive ./archive \\
      --parked-queue-url https://sqs.eu-west-1.amazonaws.com/123456789012/orders-parked
  python -m spark_reprocess analyze --archive ./archive
  # edit the actions in the plan.yaml that it names, then make a dry run:
  python -m spark_reprocess redrive --archive ./archive --plan ./archive/reports/ID/plan.yaml \\
      --main-queue-url https://sqs.eu-west-1.amazonaws.com/123456789012/orders
  # and send:
  python -m spark_reprocess redrive ... --execute --reason "address service is back"

The same verbs run on a cluster: spark-submit --py-files spark_reprocess.zip ... VERB.
Region, credentials and endpoint are set as for boto3: AWS_REGION, AWS_PROFILE, AWS_ENDPOINT_URL.

exit codes: 0 done; 1 Spark failed; 2 bad arguments or input; 3 stopped by the canary; 4 some
messages could not be sent; 130 interrupted"""


@dataclass(frozen=True, slots=True)
class Command:
    """A verb and its options, as read from the command line."""

    verb: Verb
    options: Any

    def run(self) -> int:
        """Run the verb; return the exit code. Raises JobError."""
        return self.verb.run(self.options)


def main(argv: Sequence[str]) -> int:
    """Run one verb in this process and its Spark session.

    A session that is started here stays for the next call.

    Returns:
        The exit code: 0 done; 2 bad arguments or input, or a drain that an error stopped; 3 stopped
        by the canary; 4 some messages could not be sent; 1 Spark itself failed; 130 interrupted.
    """
    # boto's debug lines hold whole requests, bodies included.
    for name in ("boto3", "botocore", "urllib3"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        return parse(list(argv)).run()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else BAD_INPUT
    except JobError as error:
        print_error(str(error))
        return BAD_INPUT
    except PythonException as error:
        fault = archive_fault_of(error)
        if fault is None:
            # A bug in code that runs on a worker: the traceback is needed to find it.
            raise
        print_error(str(fault))
        return BAD_INPUT
    except SPARK_FAILURES as error:
        return _report_spark_failure(error)
    except KeyboardInterrupt:
        return _report_interrupt()


def parse(argv: list[str]) -> Command:
    """Read *argv*. As argparse does, exit with 2 on a fault and with 0 after help."""
    values = vars(_parser().parse_args(argv))
    verb: Verb = values.pop("verb")
    return Command(verb, verb.make_options(**values))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for verb in VERBS:
        _add_verb(verbs, verb)
    return parser


def _add_verb(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]", verb: Verb) -> None:
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


def _report_spark_failure(error: BaseException) -> int:
    condition = condition_of(error)
    if condition == CANCELLED:
        return _report_interrupt()
    print_error(
        f"Spark failed: {condition or sentence_of(error)}; nothing is lost, run the same command "
        "again"
    )
    return SPARK_FAILED


def _report_interrupt() -> int:
    print_error("interrupted; nothing is lost, run the same command again")
    return INTERRUPTED
