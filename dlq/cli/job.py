"""Runs jobs of the console, one after the other: ``python -m dlq.cli.job``.

``console.jobs.Jobs`` starts it; its standard input is a socket, its output and errors are the file
for errors of the first job. A job comes as the path of its folder and the descriptor of the
folder's locked file. This process keeps the lock until the job ends, however that happens: whoever
can take the lock knows that it has.

After a job that ended well the process waits for the next one, so that Spark need not start again.
It ends after ten minutes without one, when the console has ended, and after any other job.
"""

import json
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from shutil import copyfile

from dlq.archive.storage.local import LocalArchive
from dlq.cli.command import main
from dlq.cli.running import end_process
from dlq.cli.verb import CHECK_FAILED, DONE, INTERRUPTED, PROGRESS
from dlq.console import jobs
from dlq.progress import in_file

_LOOK_SECONDS = 0.2
_IDLE_SECONDS = 600.0


def serve(
    run_verb: Callable[[Sequence[str]], int] = main, idle_seconds: float = _IDLE_SECONDS
) -> int:
    """Run jobs until one does not end well or none comes; return the last exit code."""
    # What this process starts must not get the socket.
    channel = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    exit_code, before = DONE, None
    while exit_code == DONE:
        if not select.select([channel], [], [], idle_seconds)[0]:
            # From now on the console cannot send. What it sent until now is received.
            channel.shutdown(socket.SHUT_RD)
        path, descriptors, _, _ = socket.recv_fds(channel, 4096, 1)
        if not path:
            break
        folder = Path(os.fsdecode(path))
        if before:
            with suppress(OSError):  # somebody has removed the job before
                _move_errors(before / jobs.ERRORS_FILE, folder / jobs.ERRORS_FILE)
        exit_code, before = run(folder, run_verb), folder
        os.close(*descriptors)
    return exit_code


def _move_errors(old: Path, new: Path) -> None:
    """Move the file that is open for errors to the next job; leave a copy of what it holds.

    The JVM has it open, too, and cannot be told of another one.
    """
    copyfile(old, new)
    moving = new.with_suffix(".new")
    old.rename(moving)
    new.rename(old)
    os.truncate(moving, 0)
    moving.rename(new)


def run(folder: Path, run_verb: Callable[[Sequence[str]], int]) -> int:
    """Run the verb of a job's folder; write its exit code there. Return the exit code."""
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
    token = PROGRESS.set(in_file(folder / jobs.PROGRESS_FILE))
    try:
        with (
            (folder / jobs.ANSWER_FILE).open("w", encoding="utf-8") as answer,
            redirect_stdout(answer),
        ):
            command = json.loads((folder / jobs.COMMAND_FILE).read_bytes())
            exit_code = run_verb([*command["words"], "--json"])
    except KeyboardInterrupt:
        # Before the verb began, or a second one: the answer may be missing.
        exit_code = INTERRUPTED
    except BaseException:  # noqa: BLE001 - a bug: its traceback is kept, and the exit code says so
        traceback.print_exc()
    finally:
        is_over.set()
        PROGRESS.reset(token)
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


if __name__ == "__main__":
    end_process(serve())
