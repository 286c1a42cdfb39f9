"""Jobs of the console: ``dlq`` commands, each in a process of its own.

A job survives the console. Everything about it is in its folder, so that the next console finds
it: the command, progress, the answer, errors, the exit code.

A lock shows that a job runs, because process ids are reused: its process holds a lock on a file of
the folder until it ends, and the kernel releases the lock of a process that was killed.

The jobs of an archive run one after the other. Jobs are started one at a time, and each waits for
the locks of those that ran, or waited, when it was started. So no clock decides the order.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from dlq.archive.storage.files import NEW_ID, new_id
from dlq.archive.storage.local import LocalArchive
from dlq.aws.actor import actor
from dlq.cli import verb
from dlq.errors import ArchiveError, InputError

PROGRESS_FILE = "progress.jsonl"
COMMAND_FILE = "command.json"
END_FILE = "end.json"
LOCK_FILE = "lock"
ANSWER_FILE = "answer"
ERRORS_FILE = "errors"

_TAIL_BYTES = 64 * 1024
"""Bytes of errors and of progress that are read, from the end."""

MOST_STOPS = 2
"""The first request to stop waits for open calls, the second one ends at once."""

KEPT_AGE = timedelta(days=30)

_PROCESS = (sys.executable, "-m", "dlq.cli.job")

EXIT_WORDS: Mapping[int | None, str] = {
    None: "died",
    verb.DONE: "done",
    verb.CHECK_FAILED: "failed",
    verb.BAD_INPUT: "refused",
    verb.FAILED_AGAIN: "too much failed again",
    verb.NOT_ALL_SENT: "some messages were not sent",
    verb.INTERRUPTED: "stopped",
}
"""Meanings of exit codes, for people. A process without one was killed, or the machine stopped."""


@dataclass(frozen=True, slots=True)
class JobStep:
    """One step of a job: its name, its time so far, and its progress, which may be empty."""

    label: str
    seconds: float
    text: str


@dataclass(frozen=True, slots=True)
class Job:
    """One command and its state.

    Attributes:
        job_id: sorts by the time of the start.
        command: its words, without ``dlq``.
        who: the user who started it, as ``actor.actor`` returns it.
        is_running: whether its process exists; it may still wait for its turn.
        exit_code, ended_at: None while it runs, and if it died.
        stops: the number of requests to stop it, at most ``MOST_STOPS``.
        steps: in order; the last one may still be in progress. Of a long job, the newest.
    """

    job_id: str
    command: Sequence[str]
    who: str
    started_at: datetime
    folder: Path
    is_running: bool
    exit_code: int | None
    ended_at: datetime | None
    stops: int
    steps: Sequence[JobStep]

    @property
    def step(self) -> JobStep | None:
        """The current or last step; None before the first."""
        return self.steps[-1] if self.steps else None

    @property
    def verb(self) -> str:
        """The verb of its command."""
        return self.command[0]

    @property
    def name(self) -> str:
        """Its command without most of its options, for people."""
        is_execution = "--execute" in self.command
        return f"{verb.PROGRAM} {self.verb}{' --execute' if is_execution else ''}"

    @property
    def status(self) -> str:
        """Its state in a few words."""
        if self.is_running:
            return "stopping" if self.stops else "running"
        return EXIT_WORDS.get(self.exit_code, f"exit code {self.exit_code}")

    def answer(self) -> Mapping[str, Any] | None:
        """Return the command's ``--json`` answer; None if there is none, or only a part."""
        return _read(self.folder / ANSWER_FILE)

    def errors(self) -> str:
        """Return the end of the command's standard error."""
        return _tail(self.folder / ERRORS_FILE)


@dataclass(frozen=True)
class Jobs:
    """The jobs of one archive.

    Attributes:
        folder: holds a folder for each job. It is created at the first start.
        now_seconds: epoch seconds.
        process: the command of a job's process, without the job's folder; see ``cli.job``.
    """

    folder: Path
    now_seconds: Callable[[], float] = time.time
    process: Sequence[str] = _PROCESS

    @classmethod
    def of(cls, archive_root: str, environment: Mapping[str, str]) -> "Jobs":
        """Return the jobs of an archive, in the ``XDG_STATE_HOME`` of *environment*."""
        chosen = environment.get("XDG_STATE_HOME", "")
        # The XDG specification: a relative path is invalid and must be ignored.
        state = Path(chosen) if chosen.startswith("/") else Path.home() / ".local" / "state"
        key = hashlib.sha256(archive_root.encode(errors="surrogatepass")).hexdigest()[:16]
        return cls(state / "dlq" / "jobs" / key)

    def make_id(self) -> str:
        """Make the id of a job that is about to be started."""
        return new_id(self.now_seconds())

    def start(self, job_id: str, command: Sequence[str]) -> Job:
        """Start a command, unless this id of ``make_id`` was started before; return the job.

        So a form that is sent twice starts one job.

        Raises:
            InputError: this is no id of a job; or see ``check_owner``.
            ArchiveError: the folder cannot be written, or no process can be started.
        """
        if not NEW_ID.fullmatch(job_id):
            raise InputError(f"{job_id!r}: is no id of a job")

        folder = self.folder / job_id
        try:
            with self._starting():
                if self.get(job_id) is None:
                    self._start(folder, command)
                self._remove_old()
        except OSError as error:
            raise ArchiveError(f"{folder}: cannot start the command: {error}") from error

        job = self.get(job_id)
        if job is None:
            raise ArchiveError(f"{folder}: is gone; start the command again")
        return job

    def get(self, job_id: str) -> Job | None:
        """Return a job; None if there is none of this id."""
        folder = self.folder / job_id
        record = _read(folder / COMMAND_FILE) if NEW_ID.fullmatch(job_id) else None
        if record is None:
            return None

        # In this order: a process writes the exit code before it releases the lock.
        is_locked = _is_locked(folder / LOCK_FILE)
        end = _read(folder / END_FILE)
        stop_files = [stop_file(folder, number) for number in range(1, MOST_STOPS + 1)]
        return Job(
            job_id=job_id,
            command=record["command"],
            who=record["who"],
            started_at=datetime.fromtimestamp(record["started_at"], UTC),
            folder=folder,
            is_running=is_locked and not end,
            exit_code=end["exit_code"] if end else None,
            ended_at=datetime.fromtimestamp(end["ended_at"], UTC) if end else None,
            stops=sum(map(Path.exists, stop_files)),
            steps=_steps(folder / PROGRESS_FILE),
        )

    def all(self) -> list[Job]:
        """Return all jobs, the latest first."""
        jobs: list[Job] = []
        for folder in self.folder.glob("*"):
            job = self.get(folder.name)
            if job is not None:
                jobs.append(job)
        return sorted(jobs, key=lambda job: (job.started_at, job.job_id), reverse=True)

    def stop(self, job_id: str, number: int) -> None:
        """Ask a job to stop, as Ctrl-C does or, with *number* 2, as a second Ctrl-C does.

        Safe to repeat; does nothing if it has ended. Raises ArchiveError.
        """
        job = self.get(job_id)
        if job is None or not job.is_running:
            return
        for stop_number in range(1, min(number, MOST_STOPS) + 1):
            LocalArchive(str(job.folder)).create(stop_file(job.folder, stop_number).name, b"")

    def check_owner(self) -> None:
        """Check that no other user can read the commands here, or write some that **Go on** runs.

        Raises:
            InputError: the folder of all jobs is not this user's alone.
        """
        with suppress(FileNotFoundError):
            status = self._private.stat()
            if status.st_uid != os.geteuid() or status.st_mode & 0o077:
                fault = "others can use it; the console needs a folder of your own, of mode 700"
                raise InputError(f"{self._private}: {fault}")

    @property
    def _private(self) -> Path:
        return self.folder.parents[1]

    @contextmanager
    def _starting(self) -> Iterator[None]:
        """Hold the lock under which a job is started, among all consoles and their threads."""
        # Commands, reasons and conditions may name persons: nobody else may read them.
        self._private.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.check_owner()
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / LOCK_FILE).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _start(self, folder: Path, command: Sequence[str]) -> None:
        """Start the process of a job. Its lock is held before its record exists."""
        earlier_ids = [job.job_id for job in reversed(self.all()) if job.is_running]
        record = {
            "command": [*command],
            "who": actor(),
            "started_at": self.now_seconds(),
            "after": earlier_ids,
        }

        folder.mkdir()
        try:
            with (
                (folder / LOCK_FILE).open("wb") as lock,
                (folder / ERRORS_FILE).open("ab") as errors,
            ):
                fcntl.flock(lock, fcntl.LOCK_EX)
                # The record comes last: a folder without it is no job.
                LocalArchive(str(folder)).write(COMMAND_FILE, json.dumps(record).encode())

                process = subprocess.Popen(  # noqa: S603 - a program of ours
                    [*self.process, str(folder)],
                    stdin=subprocess.DEVNULL,
                    stdout=errors,
                    stderr=errors,
                    # The process shares the lock, and holds it alone from the end of this block on.
                    pass_fds=[lock.fileno()],
                    # The process ignores Ctrl-C and the end of the console's terminal.
                    start_new_session=True,
                )
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            raise

        # Otherwise a process that has ended stays in the table of processes.
        threading.Thread(target=process.wait, name=f"job-{folder.name}", daemon=True).start()

    def _remove_old(self) -> None:
        oldest = datetime.fromtimestamp(self.now_seconds(), UTC) - KEPT_AGE
        for job in self.all():
            if job.started_at < oldest and not job.is_running:
                shutil.rmtree(job.folder, ignore_errors=True)


def stop_file(folder: Path, number: int) -> Path:
    """Return the file whose existence asks a job to stop, for the first or second time."""
    return folder / f"stop-{number}"


def _is_locked(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            # Shared: two readers at the same time do not take each other for the process.
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    return False


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _steps(path: Path) -> list[JobStep]:
    """Return the last line of each step in the end of a file of progress."""
    steps: list[JobStep] = []
    for line in _tail(path).splitlines():
        # The first one may be cut, and the last one be half written.
        with suppress(ValueError):
            step = JobStep(**json.loads(line))
            if steps and step.label == steps[-1].label and step.seconds >= steps[-1].seconds:
                steps.pop()
            steps.append(step)
    return steps


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
