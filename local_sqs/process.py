"""A server in its own process, which ends with the process that started it."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

_ROOT = Path(__file__).resolve().parent.parent
_CORE = _ROOT / "layers" / "core"


@contextmanager
def server_process(
    *arguments: str, module: str = "local_sqs", log: TextIO | None = None
) -> Iterator[Callable[[], str]]:
    """Run a Python module that prints its URL and serves until its standard input closes.

    The process starts at once and ends with the block.

    Args:
        arguments: of the module's command line.
        module: what to run.
        log: file for its standard error; None: that of this process.

    Yields:
        A function that waits until the server listens and returns its URL. It raises RuntimeError
        if the server did not start.
    """
    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-m", module, *arguments],
        cwd=_ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(_ROOT), str(_CORE)])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
        # Ctrl-C must reach the process that started this one, and not the server.
        start_new_session=True,
    ) as process:

        def wait_for_url() -> str:
            url = process.stdout.readline().strip() if process.stdout else ""
            if not url:
                where = f"see {log.name}" if log else "its own error is above"
                raise RuntimeError(f"{module} did not start: {where}")
            return url

        try:
            yield wait_for_url
        finally:
            process.kill()
