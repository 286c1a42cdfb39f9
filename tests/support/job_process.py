"""The process of a job, but no verb of ours: ``python -m tests.support.job_process FOLDER``.

The first word of the command says what it does. Its process id is in the file ``pid``.
"""

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from dlq.cli.job import run
from dlq.cli.running import end_process
from dlq.cli.verb import PROGRESS


def pretend(words: Sequence[str]) -> int:
    what, *more = words

    if what == "exit":
        return int(more[0])
    if what == "print":
        print(more[0])  # noqa: T201
        print("dlq: a fault", file=sys.stderr)  # noqa: T201
        os.write(2, b"as a child does")
        return 0

    if what == "alone":
        return _be_alone(Path(more[0]))
    if what == "break":
        raise ValueError("a bug")
    if what == "die":
        os.kill(os.getpid(), signal.SIGKILL)

    progress = PROGRESS.get()
    assert progress
    with progress("sleeping", lambda: "1 of 4 messages, 1/s"):
        if what == "stubborn":
            _sleep_despite_one_interrupt()
        while True:
            time.sleep(0.05)
    return 0


def _be_alone(marker: Path) -> int:
    """Return 0, or 1 if another process does this at the same time."""
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return 1
    time.sleep(0.1)
    marker.unlink()
    return 0


def _sleep_despite_one_interrupt() -> None:
    try:
        while True:
            time.sleep(0.05)
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.joinpath("pid").write_text(str(os.getpid()))
    end_process(run(folder, pretend))
