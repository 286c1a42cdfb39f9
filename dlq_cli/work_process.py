"""Runs works of the console, one after the other: ``python -m dlq_cli.work_process``.

``console.work.Works`` starts it; its standard input is a socket. A work comes as the path of its
folder and three descriptors: of the folder's locked file, and of the files for the answer and the
errors. This process keeps the lock until the work ends, however that happens: whoever can take the
lock knows that it has.

After a work that ended well the process waits for the next one, so that Spark need not start again.
It ends after ten minutes without one, when the console has ended, and after any other work.
"""

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

from dlq_cli.__main__ import end_process, main
from dlq_cli.console.work import PROGRESS_FILE, forget_erased, read_words, stop_file, write_end
from spark_reprocess.clients import session_of
from spark_reprocess.command_line.terminal import print_error
from spark_reprocess.command_line.verb import CHECK_FAILED, DONE, INTERRUPTED, PROGRESS
from spark_reprocess.errors import ArchiveError
from spark_reprocess.progress import in_file

_LOOK_SECONDS = 0.2
_IDLE_SECONDS = 600.0
_MOST_PATH_BYTES = 4096
_END_OF_WORK = b"\0end of work\n"

Main = Callable[[Sequence[str]], int]
"""Runs a verb and returns its exit code, as ``dlq_cli.__main__.main`` does."""


def serve(run_verb: Main = main, idle_seconds: float = _IDLE_SECONDS) -> int:
    """Run works until one does not end well or none comes; return the last exit code."""
    # What this process starts must not get the socket.
    channel = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    errors, exit_code = _Errors(), DONE
    while exit_code == DONE:
        if not select.select([channel], [], [], idle_seconds)[0]:
            # From now on the console cannot send. What it sent until now is received.
            channel.shutdown(socket.SHUT_RD)
        path, descriptors, _, _ = socket.recv_fds(channel, _MOST_PATH_BYTES, 3)
        if not path:
            break
        lock, answer, errors_file = descriptors
        os.dup2(errors_file, errors.file)
        os.close(errors_file)
        # Credentials may have changed meanwhile.
        session_of.cache_clear()
        exit_code = run(Path(os.fsdecode(path)), answer, run_verb, errors.flush)
        os.close(lock)
        if exit_code == DONE:
            # What the JVM writes from now on belongs to no work.
            os.dup2(nothing, errors.file)
    return exit_code


class _Errors:
    """Standard error of this process, and of the JVM, which keeps the one that it was started with.

    Attributes:
        file: descriptor of the file to which all is copied. It stays the same: another file is
            put in its place.
    """

    def __init__(self) -> None:
        self.file = os.dup(2)
        self._is_flushed = threading.Event()
        reader, writer = os.pipe()
        for number in (1, 2):
            os.dup2(writer, number)
        os.close(writer)
        threading.Thread(target=self._copy, args=(reader,), name="errors", daemon=True).start()

    def flush(self) -> None:
        """Return when all that was written until now is in the file."""
        sys.stderr.flush()
        self._is_flushed.clear()
        os.write(2, _END_OF_WORK)
        self._is_flushed.wait()

    def _copy(self, reader: int) -> None:
        with os.fdopen(reader, "rb") as lines:
            for line in lines:
                with suppress(OSError):  # a full disk
                    os.write(self.file, line.removesuffix(_END_OF_WORK))
                if line.endswith(_END_OF_WORK):
                    self._is_flushed.set()


def run(folder: Path, answer: int, run_verb: Main, flush_errors: Callable[[], None]) -> int:
    """Run the verb of a work's folder; write its exit code there. Return the exit code.

    Args:
        folder: of the work.
        answer: descriptor of the file for standard output. It is closed.
        run_verb: runs the verb.
        flush_errors: returns when standard error is in the file of the work.
    """
    # A console that was started in the background of a shell ignores SIGINT, and so would this.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    is_over = threading.Event()

    def watch() -> None:
        """Do what Ctrl-C does, once for each request to stop; also for those before the start."""
        number = 1
        while not is_over.wait(_LOOK_SECONDS):
            if stop_file(folder, number).exists():
                number += 1
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    watcher = threading.Thread(target=watch, name="stop", daemon=True)
    watcher.start()
    exit_code, words = CHECK_FAILED, read_words(folder)
    token = PROGRESS.set(in_file(folder / PROGRESS_FILE))
    try:
        with os.fdopen(answer, "w", encoding="utf-8") as output, redirect_stdout(output):
            exit_code = run_verb(words)
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
                _end(folder, words, exit_code, flush_errors)
                break
    return exit_code


def _end(
    folder: Path, words: Sequence[str], exit_code: int, flush_errors: Callable[[], None]
) -> None:
    if words[0] == "erase" and "--execute" in words and exit_code == DONE:
        try:
            forget_erased(folder)
        except (ArchiveError, OSError) as error:
            print_error(f"{folder.parent}: remove it, it may quote erased messages: {error}")
    flush_errors()
    write_end(folder, exit_code, time.time())


if __name__ == "__main__":
    end_process(serve())
