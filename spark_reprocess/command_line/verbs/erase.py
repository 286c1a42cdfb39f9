"""``erase``: messages leave the archive for good."""

import argparse
from typing import TYPE_CHECKING

from spark_reprocess.command_line.answers.erase import print_erase
from spark_reprocess.command_line.argument_types import WHERE
from spark_reprocess.command_line.shared_arguments import add_execution
from spark_reprocess.command_line.verb import DONE, Verb, progress_here, start_spark
from spark_reprocess.erase.erase import EraseOptions, erase

if TYPE_CHECKING:
    from collections.abc import Callable

_ABOUT = """\
Erases messages from the archive, because a person's data must go: every archived copy with the
same first id, in every drain, and the reports that may quote it. Their plan.yaml stays, without the
titles of the groups it was in; the ids of the messages that stay take the place of its condition.
The ledger keeps who, when, why and the ids, not the condition and nothing of the messages; older
plans say how many of theirs are gone and go on with the rest. With --failure-table go the failures
that consumers recorded of these messages, by the ids that the archive and its ledger know.

A copy that lost its context has its own id as first id, so the id of another copy does not find it.
Find such copies with --where on the body or on an attribute.

A dry run unless --execute is given. Killed at any point, the next erase ends what was begun. On a
versioned bucket every version goes, also of files that were deleted before, which needs
s3:DeleteObjectVersion, s3:GetObjectVersion and s3:ListBucketVersions."""


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
    add(
        "--failure-table",
        metavar="NAME",
        help="the DynamoDB table of failures; what is recorded there of these messages goes, too",
    )
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
