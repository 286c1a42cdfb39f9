"""The script that AWS Glue runs: one verb, given as one argument of the job.

Glue passes arguments as ``--key value`` and adds its own (``--JOB_NAME``, ``--TempDir``, ...), so
the whole command line of this job is one argument::

    --command-line "run --archive s3://bucket/archive --parked-queue-url https://..."

It is split as a shell splits it. ``--stack`` is the name of the stack, for reports and the commands
that an answer suggests. Glue's other arguments are ignored.

Glue keeps the arguments of each run, and the conditions of people can name a person. So their
command is in a file of the archive, and the argument says which: ``stored ARCHIVE ID``. The run
removes the file before the verb begins. A file that no run removed, an erase does.

Below ``runs/<job run id>/`` in the archive the run writes ``result.json`` when it ends, and whoever
follows it writes ``stop`` to end it early. The result and Glue's log have no word of a message and
no condition: no erase removes them. ``run`` and ``redrive`` end by themselves before
``--timeout-minutes`` are over, Glue's own time-out, unless the command has a time budget.
"""

import io
import json
import os
import secrets
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import TextIO

from spark_reprocess.archive.storage.files import COMMANDS, Archive, open_folder
from spark_reprocess.archive.storage.records import read_record, record_bytes
from spark_reprocess.aws.actor import JOB_RUN_ID
from spark_reprocess.command_line.verb import INTERRUPTED, STACK
from spark_reprocess.errors import ArchiveError
from spark_reprocess.progress import repeating

OPTION = "--command-line"
TIMEOUT = "--timeout-minutes"
"""The job's own time-out, from which Glue ends it by force."""

_BUDGET = "--time-budget-seconds"
_MARGIN_SHARE, _LEAST_MARGIN_SECONDS = 0.1, 120.0
"""Of the time-out: for the start of Spark, and to finish when the time budget is over."""

_STORED = "stored"
_CHECK_SECONDS = 5.0
"""How often a run looks for a request to stop."""


def command_of(arguments: Sequence[str]) -> list[str]:
    """Return the verb and its arguments from Glue's *arguments*.

    Raises:
        SystemExit: there is no command line, or its quotes do not close.
    """
    # Not with argparse: it takes a value such as "--help" for an option. The last one wins.
    text = dict(pairwise(arguments)).get(OPTION)
    if text is None:
        raise SystemExit(f"{OPTION} is missing: give a verb and its arguments, e.g. {OPTION} run")
    try:
        return shlex.split(text)
    except ValueError as error:
        raise SystemExit(f"{OPTION} {text}: {error}") from error


def store_command(archive: Archive, words: Sequence[str]) -> str:
    """Write a command for one run durably; return its id, which nobody can guess or forge.

    The id is the digest of the file. So who may write files, and start no runs, cannot replace it.
    """
    content = json.dumps({"words": list(words), "mark": secrets.token_hex(16)}).encode()
    command_id = sha256(content).hexdigest()
    archive.create(_path_of(command_id), content)
    return command_id


def argument_of(archive: Archive, command_id: str) -> str:
    """Return the argument with which a run finds a command of ``store_command``."""
    return shlex.join([_STORED, archive.root, command_id])


def remove_command(archive: Archive, command_id: str) -> None:
    """Remove a stored command with all its versions. Safe to repeat. Raises ArchiveError."""
    archive.remove(_path_of(command_id))


def _take_command(place: str, command_id: str) -> list[str]:
    """Read a stored command, and remove it; exit if it is gone, or somebody changed it.

    Raises:
        ArchiveError: it cannot be read or removed. Nothing was done.
    """
    archive = open_folder(place)
    content = archive.read(_path_of(command_id)) or b""
    if sha256(content).hexdigest() != command_id:
        raise SystemExit(
            f"{place}: has no command {command_id}: an erase removed it, or whoever started this "
            "run; nothing was done, give the dlq command again"
        )
    remove_command(archive, command_id)
    return [str(word) for word in json.loads(content)["words"]]


def _path_of(command_id: str) -> str:
    return f"{COMMANDS}/{command_id}.json"


def run(arguments: Sequence[str], main: Callable[[Sequence[str]], int]) -> None:
    """Run the verb with *main*; leave its answer and exit code in the archive for ``dlq``.

    A request to stop does what Ctrl-C does. After the verb has ended this process ignores SIGINT.

    Raises:
        SystemExit: the exit code is not 0; Glue shows the run as failed, with this text. Not raised
            on success: Glue takes any SystemExit for a failure.
    """
    command = command_of(arguments)
    if command[:1] == [_STORED]:
        command = _take_command(*command[1:3])
    if command[:1] == ["redrive"]:
        # The result and Glue's log would keep previews of edits, and no erase reaches them.
        command.append("--no-samples")
    given = dict(pairwise(arguments))
    STACK.set(given.get("--stack"))
    if command[:1] in (["redrive"], ["run"]) and TIMEOUT in given:
        seconds = 60 * float(given[TIMEOUT])
        budget = seconds - max(_LEAST_MARGIN_SECONDS, seconds * _MARGIN_SHARE)
        # In front, so that the command's own holds.
        command[1:1] = [_BUDGET, f"{budget:g}"]
    job_run_id = given.get(f"--{JOB_RUN_ID}")
    place = dict(pairwise(command)).get("--archive")
    if job_run_id is None or place is None:
        exit_code = main(command)
    else:
        # The ledger records the id of the job run.
        os.environ[JOB_RUN_ID] = job_run_id
        exit_code = _followed(command, place, job_run_id, main)
    if exit_code:
        raise SystemExit(
            f"{command[0]} ended with exit code {exit_code}; the log of this run says why, and "
            "dlq --help what the code means"
        )


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended; *answer* and *errors* are what it printed to its two outputs."""

    exit_code: int
    answer: str
    errors: str


def write_result(archive: Archive, job_run_id: str, result: RunResult) -> None:
    """Write the result of a run durably. Raises ArchiveError."""
    archive.write(f"runs/{job_run_id}/result.json", record_bytes(result))


def read_result(archive: Archive, job_run_id: str) -> RunResult | None:
    """Return the result of a run, None where it left none."""
    return read_record(archive, f"runs/{job_run_id}/result.json", RunResult)


def request_stop(archive: Archive, job_run_id: str) -> None:
    """Ask a run to stop after its open calls, as Ctrl-C does. Raises ArchiveError."""
    archive.write(f"runs/{job_run_id}/stop", b"")


def _followed(
    command: Sequence[str], place: str, job_run_id: str, main: Callable[[Sequence[str]], int]
) -> int:
    archive = open_folder(place)
    answer, errors = _Copy(sys.stdout), _Copy(sys.stderr)
    is_asked = threading.Event()

    def look() -> None:
        # An archive that cannot be read now may be readable next time.
        with suppress(ArchiveError):
            if not is_asked.is_set() and archive.read(f"runs/{job_run_id}/stop") is not None:
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
    from spark_reprocess.command_line.cli import main as run_verb

    run(sys.argv[1:], run_verb)
