"""The script that AWS Glue runs: one verb, given as one argument of the job.

Glue passes arguments as ``--key value`` and adds its own (``--JOB_NAME``, ``--TempDir``, ...), so
the whole command line of this job is one argument::

    --command-line "run --archive s3://bucket/archive --parked-queue-url https://..."

It is split as a shell splits it. ``--stack`` is the name of the stack, for reports and the commands
that an answer suggests. Glue's other arguments are ignored.

How a person's command gets here, and its answer back: ``dlq.stack.glue_runs``. The result and
Glue's log have no word of a message and no condition: no erase removes them. ``run`` and
``redrive`` end by themselves before ``--timeout-minutes`` are over, Glue's own time-out, unless the
command has a time budget.
"""

import io
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from itertools import pairwise
from typing import TextIO

from dlq.archive.storage.files import open_folder
from dlq.aws.actor import JOB_RUN_ID
from dlq.cli.suggested import typed_values
from dlq.cli.verb import INTERRUPTED, PLACE_WORDS, STACK, TYPED
from dlq.errors import ArchiveError
from dlq.progress import repeating
from dlq.stack.glue_runs import (
    STORED,
    RunResult,
    command_of,
    is_stop_requested,
    take_command,
    write_result,
)

TIMEOUT = "--timeout-minutes"
"""The job's own time-out, from which Glue ends it by force."""

_BUDGET = "--time-budget-seconds"
_MARGIN_SHARE = 0.1
_LEAST_MARGIN_SECONDS = 120.0
"""Of the time-out: for the start of Spark, and to finish when the time budget is over."""

_CHECK_SECONDS = 5.0
"""The interval at which a run looks for a request to stop."""


def run(arguments: Sequence[str], main: Callable[[Sequence[str]], int]) -> None:
    """Run the verb with *main*; leave its answer and exit code in the archive for ``dlq``.

    A request to stop does what Ctrl-C does. After the verb has ended this process ignores SIGINT.

    Raises:
        SystemExit: the exit code is not 0; Glue shows the run as failed, with this text. Not raised
            on success: Glue takes any SystemExit for a failure.
    """
    command = command_of(arguments)
    given = dict(pairwise(arguments))
    STACK.set(given.get("--stack"))
    if command[:1] == [STORED]:
        stored = take_command(*command[1:3])
        command = list(stored.words)
        TYPED.set(stored.typed)
        PLACE_WORDS.set(stored.place)
    elif STACK.get():
        # The places of a schedule are those of its stack.
        _, others = typed_values(command[1:])
        TYPED.set((*command[:1], *others))

    if command[:1] == ["redrive"]:
        # The result and Glue's log would keep previews of edits, and no erase reaches them.
        command.append("--no-samples")

    if command[:1] in (["redrive"], ["run"]) and TIMEOUT in given:
        seconds = 60 * float(given[TIMEOUT])
        budget = seconds - max(_LEAST_MARGIN_SECONDS, seconds * _MARGIN_SHARE)
        # In front, so that the command's own holds.
        command[1:1] = [_BUDGET, f"{budget:g}"]

    job_run_id = given.get(f"--{JOB_RUN_ID}")
    archive = dict(pairwise(command)).get("--archive")
    if job_run_id is None or archive is None:
        exit_code = main(command)
    else:
        # The ledger records the id of the job run.
        os.environ[JOB_RUN_ID] = job_run_id
        exit_code = _followed(command, archive, job_run_id, main)

    if exit_code:
        raise SystemExit(
            f"{command[0]} ended with exit code {exit_code}; the log of this run says why, and "
            "dlq --help what the code means"
        )


def _followed(
    command: Sequence[str], place: str, job_run_id: str, main: Callable[[Sequence[str]], int]
) -> int:
    """Run the verb; act on requests to stop, and write the result for ``dlq``."""
    archive = open_folder(place)
    answer = _Copy(sys.stdout)
    errors = _Copy(sys.stderr)
    is_asked = threading.Event()

    def look() -> None:
        # An archive that cannot be read now may be readable next time.
        with suppress(ArchiveError):
            if not is_asked.is_set() and is_stop_requested(archive, job_run_id):
                is_asked.set()
                os.kill(os.getpid(), signal.SIGINT)

    exit_code = INTERRUPTED
    # Before the verb began it catches no interrupt.
    with suppress(KeyboardInterrupt), repeating(look, _CHECK_SECONDS, "stop-request"):
        with redirect_stdout(answer), redirect_stderr(errors):
            exit_code = main(command)
        # A request to stop comes too late now.
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    try:
        result = RunResult(exit_code, answer.getvalue(), errors.getvalue())
        write_result(archive, job_run_id, result)
    except ArchiveError as error:
        # What the verb did is in the ledger. Only a follower misses this file.
        sys.stderr.write(f"the result of this run was not written: {error}\n")
    return exit_code


class _Copy(io.StringIO):
    """Keeps the text that is written to a stream."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    def write(self, text: str) -> int:
        super().write(text)
        return self._stream.write(text)

    def flush(self) -> None:
        self._stream.flush()


if __name__ == "__main__":
    from dlq.cli.running import main as run_verb

    run(sys.argv[1:], run_verb)
