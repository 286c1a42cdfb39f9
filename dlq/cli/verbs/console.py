"""``console``: the web page on this machine."""

import argparse
import os
import socket
import sys
import tempfile
import threading
import webbrowser
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dlq.aws.actor import actor
from dlq.cli.arguments import add_shared, whole_number
from dlq.cli.running import ARCHIVE_VARIABLE, default_archive
from dlq.cli.suggested import place_words
from dlq.cli.terminal import print_line, while_it_is_read
from dlq.cli.verb import DONE, PLACE_WORDS, Verb, option
from dlq.errors import InputError
from dlq.stack.outputs import read_stack

if TYPE_CHECKING:
    from dlq.console.security import Session
    from dlq.console.site import Console

OFFERED_SECONDS = 60.0
"""Lifetime of the file with the address for the browser."""

VALUES = (
    "parked-queue-url",
    "fifo-parked-queue-url",
    "main-queue-url",
    "queue-tag",
    "dlq-url",
    "failure-table",
    "sweep-rule",
)
"""Options that a stack has values for, and that the console's own commands need."""

_ABOUT = """\
Opens a web page on this machine, where you see the groups of an archive, decide about them, edit
them and redrive them. Prints an address that works once; whoever opens it first has the console.
The page listens on 127.0.0.1 alone and loads nothing from elsewhere. Every action shows the dlq
command that does the same. What takes long is a job, a process of its own. Jobs run one after the
other. Ctrl-C stops the console, and no job that it started."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--archive",
        metavar="PLACE",
        help=f"the archive: s3://BUCKET/PREFIX, or a folder (default: {ARCHIVE_VARIABLE})",
    )
    add_shared(parser, "--parked-queue-url", "--main-queue-url", "--failure-table", "--mask")
    add("--dlq-url", metavar="URL", help="the DLQ, whose messages that wait are counted")
    add_shared(parser, "--queue-tag")
    add("--fifo-parked-queue-url", metavar="URL", help="the second parked queue of a fleet")
    add("--sweep-rule", metavar="NAME", help="the rule that starts a fleet's sweep")

    add(
        "--port",
        type=whole_number(0, 65_535),
        default=0,
        metavar="N",
        help="the port to listen on (default: a free one)",
    )
    add(
        "--no-browser",
        dest="opens_browser",
        action="store_false",
        help="print the address only; without a terminal that is always so",
    )
    add(
        "--unmasked",
        dest="is_unmasked",
        action="store_true",
        help="show bodies and attributes of messages as they are",
    )
    add(
        "--on-glue",
        action="store_true",
        help="run jobs on the stack's AWS Glue job instead of on this machine",
    )


def _run(options: argparse.Namespace) -> int:
    # Here, like what imports pyarrow: other verbs start without it.
    from dlq.archive.storage.files import is_begun
    from dlq.console.app import make_server
    from dlq.console.reports import read_ahead
    from dlq.console.security import Session

    console = console_of(options)
    root = console.archive.root
    listener = listen(options.port)
    session = Session(port=listener.getsockname()[1])

    print_line(f"the console of {console.stack or root}, until Ctrl-C:")
    if not (console.stack or is_begun(console.archive)):
        print_line(f"note: archive {root}: nothing is archived there; the first Collect begins it")
    print_line(f"  {session.address}")
    with while_it_is_read():
        sys.stdout.flush()

    threading.Thread(target=read_ahead, args=[console.archive], daemon=True).start()
    if options.opens_browser and sys.stdout.isatty():
        threading.Thread(target=open_in_browser, args=[session], daemon=True).start()

    # It handles Ctrl-C and SIGTERM itself, and then lets open requests end.
    make_server(console, session).run(sockets=[listener])
    return DONE


def open_in_browser(
    session: "Session",
    opens: Callable[[str], object] = webbrowser.open,
    wait: Callable[[float], bool] | None = None,
) -> None:
    """Hand the address of the console to the browser, in a file that only this user can read.

    Every user of the machine can read the words of a command, and so those of the browser's start.
    A browser from a snap, a flatpak or outside of WSL may not be able to read the file; the printed
    address works, too. The file is gone after ``OFFERED_SECONDS``, or once the console is opened.

    Args:
        session: of the console.
        opens: opens an address in a browser. It may return only when the browser ends.
        wait: waits until somebody opens the console, at most a number of seconds.
    """
    wait = wait or session.is_open.wait

    # A folder of mode 0700.
    with tempfile.TemporaryDirectory(prefix="dlq-console-") as folder:
        file = Path(folder, "open.html")
        file.touch(0o600, exist_ok=False)
        refresh = f'<meta http-equiv="refresh" content="0;url={session.address}">'
        file.write_text(f"<!doctype html>{refresh}\n")
        threading.Thread(target=opens, args=[file.as_uri()], daemon=True).start()
        wait(OFFERED_SECONDS)


def console_of(options: argparse.Namespace) -> "Console":
    """Return the console's archive and settings.

    Raises:
        InputError: neither a stack nor an archive is given, or the stack has none; or a mask is no
            regular expression; or other users may write where jobs are kept.
    """
    from dlq.archive.storage.files import open_archive, open_folder
    from dlq.console.jobs import Jobs
    from dlq.console.site import Console
    from dlq.explain.signature.mask import compile_masks

    archive = options.archive
    given = _values_of(options)
    values = given
    if options.stack:
        stack_values = read_stack(options.session, options.stack)
        values = _values_of(stack_values) | given
        if stack_values.archive is None:
            archive = archive or default_archive()
        if archive:
            given["archive"] = open_folder(archive).root
        archive = archive or stack_values.require_archive()

    archive = archive or default_archive()
    if archive is None:
        raise InputError("give --stack NAME, or --archive PLACE")
    if options.on_glue and not options.stack:
        raise InputError("--on-glue: give --stack NAME, whose AWS Glue job is to run the jobs")

    masks = compile_masks(options.masks)
    mask_words: list[str] = []
    for mask in options.masks:
        mask_words += option("--mask", mask)

    opened_archive = open_archive(archive)
    jobs = Jobs.of(opened_archive.root, os.environ)
    jobs.check_owner()

    return Console(
        archive=opened_archive,
        jobs=jobs,
        now=lambda: datetime.now(UTC),
        who=actor(),
        stack=options.stack,
        values=values,
        given=given,
        place=PLACE_WORDS.get() if options.stack else place_words(),
        mask_words=tuple(mask_words),
        masks=masks,
        is_unmasked=options.is_unmasked,
        on_glue=options.on_glue,
    )


def _values_of(source: object) -> dict[str, str]:
    """Return the ``VALUES`` that the options of a command, or a stack's outputs, have."""
    values = {}
    for name in VALUES:
        value = getattr(source, name.replace("-", "_"))
        if value:
            values[name] = value
    return values


def listen(port: int) -> socket.socket:
    """Listen on the loopback interface; 0 takes a free port.

    Raises:
        InputError: the port cannot be had.
    """
    try:
        # The address is printed before the server runs: whoever opens it at once must be heard.
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise InputError(f"--port {port}: {why}; give another one, or none") from error


VERB = Verb(
    about=_ABOUT,
    add_arguments=_add_arguments,
    make_options=argparse.Namespace,
    run=_run,
    has_json=False,
)
