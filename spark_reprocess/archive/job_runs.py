"""What a run on AWS Glue and whoever follows it tell each other: ``runs/<job run id>/``.

The run writes ``result.json`` when it ends. The follower writes ``stop`` to end it early.
"""

import json
from dataclasses import asdict, dataclass

from spark_reprocess.archive.files import Archive

_VERSION = 1


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended.

    Attributes:
        verb: what it ran.
        exit_code: as the verb's on a command line.
        answer: what it printed to standard output, up to ``MOST_CHARACTERS``.
        errors: the same of standard error.
    """

    verb: str
    exit_code: int
    answer: str
    errors: str


MOST_CHARACTERS = 1_000_000
"""Of a text that is kept. The log of the run has all of it."""


def write_result(archive: Archive, job_run_id: str, result: RunResult) -> None:
    """Write the result of a run durably. Raises ArchiveError."""
    content = json.dumps({"version": _VERSION, **asdict(result)}, indent=1)
    archive.write(f"runs/{job_run_id}/result.json", content.encode())


def read_result(archive: Archive, job_run_id: str) -> RunResult | None:
    """Return the result of a run, None where it left none that can be understood.

    Raises:
        ArchiveError: the archive cannot be read.
    """
    content = archive.read(f"runs/{job_run_id}/result.json")
    try:
        value = json.loads(content or b"")
        return RunResult(
            str(value["verb"]), int(value["exit_code"]), str(value["answer"]), str(value["errors"])
        )
    except (ValueError, KeyError, TypeError):
        return None


def request_stop(archive: Archive, job_run_id: str) -> None:
    """Ask a run to stop after its open calls, as Ctrl-C does. Raises ArchiveError."""
    archive.write(_stop(job_run_id), b"")


def is_stop_requested(archive: Archive, job_run_id: str) -> bool:
    """Whether somebody asked a run to stop. Raises ArchiveError."""
    return archive.read(_stop(job_run_id)) is not None


def _stop(job_run_id: str) -> str:
    return f"runs/{job_run_id}/stop"
