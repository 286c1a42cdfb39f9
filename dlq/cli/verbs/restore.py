"""``restore``: archive to parked queue."""

import argparse

from dlq.archive.storage.files import open_archive
from dlq.cli.arguments import add_parked_queues, add_shared
from dlq.cli.suggested import suggested_command
from dlq.cli.terminal import print_answer, print_line
from dlq.cli.verb import Verb, progress_here, with_archive
from dlq.cli.verbs.redrive import (
    exit_code_of,
    print_execution,
    print_redrive,
    print_stop,
    redrive_fields,
)
from dlq.redrive.request import RestoreRequest

_ABOUT = """\
Sends archived messages to their parked queue, with body, attributes, counter and context as
archived. Messages that were sent, discarded or restored before are left (--include-discarded
includes discarded ones). A dry run unless --execute is given. You can repeat it at any time: the
ledger records what was restored. A restored message counts as decided; the next drain archives it
again under another id."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_parked_queues(
        parser,
        "a parked queue, which gets the messages that were drained from it; may be repeated",
        required=True,
    )
    add_shared(parser, "--where", "--limit", "--max-rate", "--unconfirmed")
    add(
        "--include-foreign",
        action="store_true",
        help="also messages drained from another parked queue; of a single --parked-queue-url",
    )
    add("--include-discarded", action="store_true", help="also discarded messages")
    add_shared(parser, "--reason", "--execute")


def _run(options: tuple[str, RestoreRequest]) -> int:
    from dlq.cli.engines import engine_for
    from dlq.inspect.sizes import size_of_archive
    from dlq.redrive.restore import check_restore, restore

    place, request = options
    archive = open_archive(place)
    check_restore(archive, request)
    engine = engine_for("restore", lambda: size_of_archive(archive))
    summary = restore(engine, archive, request, progress=progress_here())

    def show() -> None:
        print_redrive(summary, "drain")
        print_execution(summary, request.reason)
        if summary.executed and not summary.stopped_by:
            print_line(f"next: {suggested_command('status', place)}")

    print_answer(redrive_fields(summary), show)
    print_stop(summary.stopped_by)
    return exit_code_of(summary)


VERB = Verb(_ABOUT, _add_arguments, with_archive(RestoreRequest), _run, has_engine=True)
