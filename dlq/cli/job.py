"""Runs one job of the console: ``python -m dlq.cli.job FOLDER``.

``console.jobs.Jobs`` starts it with the locked file of the job's folder open. This process keeps
the lock until it ends, however that happens: whoever can take the lock knows that it has. Its
output and errors are the folder's file for errors.
"""

import fcntl
import json
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path

from dlq.archive.storage.local import LocalArchive
from dlq.cli.command import main
from dlq.cli.running import end_process
from dlq.cli.terminal import ERRORS_AS_LINES, print_error
from dlq.cli.verb import CHECK_FAILED, INTERRUPTED, PROGRESS
from dlq.console import jobs
from dlq.console.jobs import Job, Jobs
from dlq.figures import minute
from dlq.progress import Progress, in_file

_LOOK_SECONDS = 0.2


def run(folder: Path, run_verb: Callable[[Sequence[str]], int] = main) -> int:
    """Run the command of a job's folder when it is its turn; write its exit code there.

    A request to stop has the effect of Ctrl-C, also while the job waits. Returns the exit code.
    """
    # A console that was started in the background of a shell ignores SIGINT, and so would this.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    is_over = threading.Event()

    def watch() -> None:
        """Do what Ctrl-C does, once for each request to stop; also for those before the start."""
        number = 1
        while not is_over.wait(_LOOK_SECONDS):
            if jobs.stop_file(folder, number).exists():
                number += 1
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    watcher = threading.Thread(target=watch, name="stop", daemon=True)
    watcher.start()

    exit_code = CHECK_FAILED
    try:
        progress = in_file(folder / jobs.PROGRESS_FILE)
        PROGRESS.set(progress)
        # The console shows them while the job runs.
        ERRORS_AS_LINES.set(True)

        record = json.loads((folder / jobs.COMMAND_FILE).read_bytes())
        _wait(Jobs(folder.parent), record["after"], progress)

        with (
            (folder / jobs.ANSWER_FILE).open("w", encoding="utf-8") as answer,
            redirect_stdout(answer),
        ):
            exit_code = run_verb([*record["command"], "--json"])

    except KeyboardInterrupt:
        # Before the verb began, or a second one: the answer may be missing.
        exit_code = INTERRUPTED

    except BaseException:  # noqa: BLE001 - a bug: its traceback is kept, and the exit code says so
        traceback.print_exc()

    finally:
        is_over.set()
        # What a stop that came too late interrupts is done again.
        for _ in range(3):
            with suppress(KeyboardInterrupt):
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                watcher.join()
                sys.stderr.flush()
                end = {"exit_code": exit_code, "ended_at": time.time()}
                LocalArchive(str(folder)).write(jobs.END_FILE, json.dumps(end).encode())
                break
    return exit_code


def _wait(all_jobs: Jobs, job_ids: Sequence[str], progress: Progress) -> None:
    """Wait until these jobs have ended, and show for which one."""
    try:
        for job_id in job_ids:
            job = all_jobs.get(job_id)
            if job and job.is_running:
                with progress(f"waiting for {job.name}", _who_and_when(job)):
                    _wait_for(job)
    except KeyboardInterrupt:
        print_error("stopped while it waited for another job; nothing was done")
        raise


def _who_and_when(job: Job) -> Callable[[], str]:
    return lambda: f"started by {job.who} at {minute(job.started_at)}"


def _wait_for(job: Job) -> None:
    # A job that has ended may have been removed.
    with suppress(FileNotFoundError), (job.folder / jobs.LOCK_FILE).open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)


if __name__ == "__main__":
    end_process(run(Path(sys.argv[1])))
