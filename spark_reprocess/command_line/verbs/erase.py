"""``erase``: messages leave the archive for good."""

import argparse
from typing import TYPE_CHECKING

from spark_reprocess.command_line.answers.erase import print_erase
from spark_reprocess.command_line.argument_types import WHERE
from spark_reprocess.command_line.exit_codes import DONE
from spark_reprocess.command_line.shared_arguments import add_execution
from spark_reprocess.command_line.verb import Verb, progress_here, start_spark
from spark_reprocess.erase.erase import EraseOptions, erase

if TYPE_CHECKING:
    from collections.abc import Callable

_ABOUT = """\
Erases messages from the archive, because a person's data must go: every archived copy of the same
dead letter, in every drain, and the reports that may quote it (their plan.yaml stays, without the
titles of the groups it was in). The ledger keeps who, when, why and the ids, not the condition and
nothing of the messages; older plans say how many of theirs are gone and go on with the rest.
A dry run unless --execute is given. Killed at any point, the next erase ends what was begun.
On a versioned bucket every version goes, which needs s3:DeleteObjectVersion."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--id",
        dest="ids",
        action="append",
        default=[],
        metavar="ID",
        help="a message id, of any copy, or a first id; may be repeated",
    )
    add("--where", metavar="SQL", help=f"all of these: {WHERE}")
    add_execution(parser, without="nothing is touched")


def _make_options(*, ids: list[str], **values: object) -> EraseOptions:
    make: Callable[..., EraseOptions] = EraseOptions
    return make(ids=tuple(ids), **values)


def _run(options: EraseOptions) -> int:
    print_erase(erase(start_spark(), options, progress=progress_here()))
    return DONE


VERB = Verb(
    "erase",
    "messages out of the archive (dry run by default)",
    _ABOUT,
    _add_arguments,
    _make_options,
    _run,
)
