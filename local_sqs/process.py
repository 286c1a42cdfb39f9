"""A server in its own process, which ends with the process that started it."""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

_ROOT = Path(__file__).resolve().parent.parent
_CORE = _ROOT / "layers" / "core"
_STOP_SECONDS = 30


class ServerProcess:
    """Runs a Python module that prints its URL and serves until its standard input closes."""

    def __init__(
        self, arguments: Sequence[str] = (), *, module: str = "local_sqs", log: Path | None = None
    ) -> None:
        """Prepare the process; ``start`` runs it.

        Args:
            arguments: of the module's command line.
            module: what to run.
            log: file to append its standard error to; None: that of this process.
        """
        self._arguments = [sys.executable, "-m", module, *arguments]
        self._log = log
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the process; return at once."""
        log = self._log.open("a") if self._log else None
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own program
                self._arguments,
                cwd=_ROOT,
                env=os.environ | {"PYTHONPATH": os.pathsep.join([str(_ROOT), str(_CORE)])},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                # Ctrl-C must reach the process that started this one, and not the server.
                start_new_session=True,
            )
        finally:
            if log:
                log.close()

    def wait_for_url(self) -> str:
        """Return the server's URL; wait until it listens.

        Raises:
            RuntimeError: it did not start.
        """
        output: IO[str] | None = self._process.stdout if self._process else None
        url = output.readline().strip() if output else ""
        if not url:
            where = f"see {self._log}" if self._log else "its own error is above"
            raise RuntimeError(f"{' '.join(self._arguments[1:])} did not start: {where}")
        return url

    def stop(self) -> None:
        """End the process. Safe at any time, also before and during ``start``."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait(_STOP_SECONDS)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                with suppress(BrokenPipeError):
                    pipe.close()
