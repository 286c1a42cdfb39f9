"""A process that runs jobs, but no verb of ours.

``python -m tests.support.job_process [IDLE_SECONDS]``. The first word of a command says what it
does.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Sequence

from dlq.cli.job import serve
from dlq.cli.verb import PROGRESS


def pretend(words: Sequence[str]) -> int:
    what, *more = words
    if what == "exit":
        return int(more[0])
    if what == "print":
        print(more[0])  # noqa: T201
        print("dlq: a fault", file=sys.stderr)  # noqa: T201
        return 0
    if what == "pid":
        print(json.dumps({"pid": os.getpid()}))  # noqa: T201
        os.write(2, b"dlq: as a child does")
        return 0
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


def _sleep_despite_one_interrupt() -> None:
    try:
        while True:
            time.sleep(0.05)
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    sys.exit(serve(pretend, *map(float, sys.argv[1:])))
