"""The command line of the job: reads a verb and its options, runs it, returns the exit code.

``python -m spark_reprocess VERB`` and ``spark-submit`` call ``main``. The ``dlq`` command uses the
parts: it adds verbs of its own, and values from a stack's outputs.
"""

import argparse
import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Self

from spark_reprocess.actor import text_of
from spark_reprocess.command_line.terminal import AS_JSON, print_error
from spark_reprocess.command_line.verb import BAD_INPUT, INTERRUPTED, Verb
from spark_reprocess.errors import JobError

VERBS = {
    "drain": "parked queue to archive",
    "analyze": "archive to report and plan",
    "groups": "groups of the newest report, and what is decided about each",
    "decide": "set the action of a group in the plan; note why, or that it is resolved",
    "redrive": "plan to queue (dry run by default)",
    "run": "drain, analyze, apply a policy, redrive",
    "restore": "archive to parked queue (dry run by default)",
    "erase": "messages out of the archive (dry run by default)",
    "status": "counts of messages, by state",
    "show": "what happened to one message, or in one run",
    "export": "the messages of a group as JSON lines, unmasked",
}
"""Every verb, in the order of ``--help``, and its line there."""

_ABOUT = """\
Archives the messages of a parked queue, groups them by failure, and sends the right ones back.
The first verbs are the steps, in this order."""

_PLACE = "the archive: s3://BUCKET/PREFIX, or a folder, which on a cluster all machines must share"

SETTINGS = """\
Region, credentials and endpoint are set as for boto3: AWS_REGION, AWS_PROFILE, AWS_ENDPOINT_URL.

exit codes: 0 done; 1 a check found a fault, or Spark failed; 2 bad arguments or input; 3 too much
of a redrive came back, or a rehearsal failed; 4 some messages could not be sent; 130 interrupted"""

_EXAMPLES = f"""\
example, from a full parked queue to messages that are back in the main queue:

  python -m spark_reprocess drain --archive ./archive \\
      --parked-queue-url https://sqs.eu-west-1.amazonaws.com/123456789012/orders-parked
  python -m spark_reprocess analyze --archive ./archive
  python -m spark_reprocess decide --archive ./archive g-53cb1ad25b redrive
  python -m spark_reprocess redrive --archive ./archive \\
      --main-queue-url https://sqs.eu-west-1.amazonaws.com/123456789012/orders
  # and send:
  python -m spark_reprocess redrive ... --execute --reason "address service is back"

The same verbs run on a cluster: spark-submit --py-files spark_reprocess.zip ... VERB.
{SETTINGS}"""


@dataclass(frozen=True, slots=True)
class Command:
    """A verb and its options, as read from the command line."""

    name: str
    verb: Verb
    options: Any
    as_json: bool = False

    @classmethod
    def of(cls, name: str, verb: Verb, values: dict[str, Any]) -> Self:
        """Return the command with these *values* of the arguments of ``fill``.

        Raises:
            JobError: they do not go together.
        """
        as_json = values.pop("as_json", False)
        return cls(name, verb, verb.make_options(**values), as_json)

    def run(self) -> int:
        """Run the verb; return the exit code. Raises JobError."""
        token = AS_JSON.set(self.as_json)
        try:
            return self.verb.run(self.options)
        finally:
            AS_JSON.reset(token)


def main(argv: Sequence[str]) -> int:
    """Run one verb in this process and its Spark session.

    A session that is started here stays for the next call.

    Returns:
        The exit code: 0 done; 2 bad arguments or input, or a drain that an error stopped; 3 too
        much came back; 4 some messages could not be sent; 1 Spark itself failed; 130 interrupted.
    """
    return exit_code_of(lambda: parse(list(argv)).run())


def exit_code_of(call: Callable[[], int]) -> int:
    """Return what *call* returns; print an error that ends it, and return its exit code instead."""
    # boto's debug lines hold whole requests, bodies included.
    for name in ("boto3", "botocore", "urllib3"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        try:
            return call()
        except Exception as error:
            # Some verbs need no Spark, and it may not be installed.
            if isinstance(error, JobError) or "pyspark" not in sys.modules:
                raise
            from spark_reprocess.command_line.spark_session import report_failure

            return report_failure(error)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else BAD_INPUT
    except JobError as error:
        print_error(text_of(error))
        return BAD_INPUT
    except KeyboardInterrupt:
        print_error("interrupted; nothing is lost, run the same command again")
        return INTERRUPTED


def parse(argv: list[str]) -> Command:
    """Read *argv*. As argparse does, exit with 2 on a fault and with 0 after help."""
    parser = argparse.ArgumentParser(
        prog="python -m spark_reprocess",
        description=_ABOUT,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for name, line in VERBS.items():
        one = verbs.add_parser(
            name,
            help=line,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        if argv[:1] == [name]:
            add_archive(one)
            fill(one, load(name))
    values = vars(parser.parse_args(argv))
    verb = load(argv[0])
    return Command.of(argv[0], verb, values)


def load(name: str) -> Verb:
    """Return a verb of ``VERBS``. Neither this nor its help needs pyspark; running it may."""
    verb: Verb = import_module(f"spark_reprocess.command_line.{name}").VERB
    return verb


def add_archive(parser: argparse.ArgumentParser) -> None:
    """Add ``--archive``, which every verb of the job has."""
    parser.add_argument("--archive", required=True, metavar="PLACE", help=_PLACE)


def fill(parser: argparse.ArgumentParser, verb: Verb) -> None:
    """Give *parser* the description, the examples and the arguments of *verb*."""
    parser.description = verb.about
    parser.epilog = verb.examples or None
    verb.add_arguments(parser)
    if verb.has_json:
        parser.add_argument(
            "--json", dest="as_json", action="store_true", help="answer with one JSON object"
        )
