"""``status``: what is where."""

import argparse

from spark_reprocess.command_line.answers.status import print_status, status_json
from spark_reprocess.command_line.shared_arguments import add_claim_ttl, add_json
from spark_reprocess.command_line.terminal import say
from spark_reprocess.command_line.verb import DONE, Verb, progress_here, start_spark
from spark_reprocess.upkeep.status import StatusOptions, status

_ABOUT = """\
Counts what is in the archive and, if you name it, in the parked queue: messages by what was decided
about them, by drain and by plan; the oldest that nobody decided about; what is in doubt.
Reads only."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--parked-queue-url", metavar="URL", help="also ask SQS what it counts in this queue"
    )
    add_claim_ttl(parser)
    add_json(parser)


def _run(options: StatusOptions) -> int:
    found = status(start_spark(), options, progress=progress_here())
    if options.as_json:
        say(status_json(found))
    else:
        print_status(found)
    return DONE


VERB = Verb("status", "what is where", _ABOUT, _add_arguments, StatusOptions, _run)
