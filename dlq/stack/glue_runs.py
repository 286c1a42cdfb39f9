"""Files that the ``dlq`` command and a run of the stack's AWS Glue job exchange in the archive.

Glue keeps the arguments of each run, and a condition that a user gives can name a person. So the
command is in a file of the archive, and the run's argument names it: ``stored ARCHIVE ID``. The run
removes the file before the verb begins. An erase removes files that no run has removed.

Below ``runs/<job run id>/`` in the archive the run writes ``result.json`` when it ends, and the
process that follows it writes ``stop`` to end it early.
"""

import json
import secrets
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import pairwise

from dlq.archive.storage.files import COMMANDS, Archive, open_folder
from dlq.archive.storage.records import read_record, record_bytes

OPTION = "--command-line"
STORED = "stored"
"""The verb of a command that lies in the archive."""


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


@dataclass(frozen=True, slots=True)
class StoredCommand:
    """A command for one run.

    Attributes:
        words: the verb and its arguments.
        typed: what a person typed, for the commands that the answer suggests; see ``verb.TYPED``.
        place: the options for Region and profile of that person, likewise.
    """

    words: tuple[str, ...]
    typed: tuple[str, ...] = ()
    place: tuple[str, ...] = ()


def store_command(archive: Archive, command: StoredCommand) -> str:
    """Write a command for one run durably; return its id, which nobody can guess or forge.

    The id is the digest of the file. So a user who may write files, but not start runs, cannot
    replace it.
    """
    content = json.dumps({**asdict(command), "mark": secrets.token_hex(16)}).encode()
    command_id = sha256(content).hexdigest()
    archive.create(_path_of(command_id), content)
    return command_id


def argument_of(archive: Archive, command_id: str) -> str:
    """Return the argument with which a run finds a command of ``store_command``."""
    return shlex.join([STORED, archive.root, command_id])


def remove_command(archive: Archive, command_id: str) -> None:
    """Remove a stored command with all its versions. Safe to repeat. Raises ArchiveError."""
    archive.remove(_path_of(command_id))


def take_command(root: str, command_id: str) -> StoredCommand:
    """Read a stored command, and remove it; exit if it is gone, or somebody changed it.

    Raises:
        ArchiveError: it cannot be read or removed. Nothing was done.
    """
    archive = open_folder(root)
    content = archive.read(_path_of(command_id)) or b""
    if sha256(content).hexdigest() != command_id:
        raise SystemExit(
            f"{root}: has no command {command_id}: an erase removed it, or whoever started this "
            "run; nothing was done, give the dlq command again"
        )
    remove_command(archive, command_id)
    fields = json.loads(content)
    return StoredCommand(tuple(fields["words"]), tuple(fields["typed"]), tuple(fields["place"]))


def _path_of(command_id: str) -> str:
    return f"{COMMANDS}/{command_id}.json"


@dataclass(frozen=True, slots=True)
class RunResult:
    """The end of a run; *answer* and *errors* are its texts on standard output and error."""

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


def is_stop_requested(archive: Archive, job_run_id: str) -> bool:
    """Return whether somebody asked a run to stop. Raises ArchiveError."""
    return archive.read(f"runs/{job_run_id}/stop") is not None
