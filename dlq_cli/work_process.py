"""Runs one work of the console in a process: ``python -m dlq_cli.work_process FOLDER LOCK``.

``console.work.Works`` starts it. LOCK is a descriptor of the folder's locked file. This process
keeps it open until it ends, however that happens: whoever can take the lock knows that it has.
"""

import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from dlq_cli.__main__ import end_process, main
from dlq_cli.console.work import PROGRESS_FILE, forget_erased, read_words, stop_file, write_end
from spark_reprocess.command_line.terminal import print_error
from spark_reprocess.command_line.verb import CHECK_FAILED, DONE, INTERRUPTED, PROGRESS
from spark_reprocess.errors import ArchiveError
from spark_reprocess.progress import in_file

_LOOK_SECONDS = 0.2

Main = Callable[[Sequence[str]], int]
"""Runs a verb and returns its exit code, as ``dlq_cli.__main__.main`` does."""


def run(folder: Path, lock: int, run_verb: Main = main) -> int:
    """Run the verb of a work's folder; write its exit code there. Return the exit code."""
    # What this process starts must not keep the lock.
    os.set_inheritable(lock, False)  # noqa: FBT003 - positional only
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

    threading.Thread(target=watch, name="stop", daemon=True).start()
    exit_code, words = CHECK_FAILED, read_words(folder)
    token = PROGRESS.set(in_file(folder / PROGRESS_FILE))
    try:
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
                _end(folder, words, exit_code)
                break
    return exit_code


def _end(folder: Path, words: Sequence[str], exit_code: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if words[0] == "erase" and "--execute" in words and exit_code == DONE:
        try:
            forget_erased(folder)
        except (ArchiveError, OSError) as error:
            print_error(f"{folder.parent}: remove it, it may quote erased messages: {error}")
    sys.stdout.flush()
    sys.stderr.flush()
    write_end(folder, exit_code, time.time())


if __name__ == "__main__":
    end_process(run(Path(sys.argv[1]), int(sys.argv[2])))
