"""An SQS server on this machine, as a process of its own.

It ends when its standard input closes, so that nothing survives the demo, however that ends. As a
program it prints its port and serves; ``EmbeddedSqs`` starts and stops that program.
"""

import logging
import os
import subprocess
import sys
from pathlib import Path

from demo import ROOT
from demo.errors import DemoError


class EmbeddedSqs:
    """The server's process; ``stop`` is safe at any moment, before and during ``start`` too."""

    def __init__(self, log_path: Path, host: str = "127.0.0.1") -> None:
        """Take the address to listen at; nobody else can reach the default."""
        self._log_path = log_path
        self._host = host
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> str:
        """Start it on a port that is free; return its URL.

        Raises:
            DemoError: it did not start.
        """
        with self._log_path.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "demo.embedded_sqs", self._host],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                # Ctrl-C is the demo's to hear: the queues must outlive the pollers.
                start_new_session=True,
            )
        port = self._process.stdout.readline().strip() if self._process.stdout else ""
        if not port:
            raise DemoError(f"The embedded SQS server did not start; see {self._log_path}.")
        return f"http://{self._host}:{port}"

    def stop(self) -> None:
        """End it; what its queues hold is gone."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()


def serve(host: str) -> None:
    """Serve at *host* until standard input closes."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 - only this process needs it

    from demo import queue_server  # noqa: PLC0415 - as above

    queue_server.install()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(host, port=0, verbose=False)
    server.start()
    _, port = server.get_host_and_port()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()
    os._exit(0)  # requests in flight have nobody to answer


if __name__ == "__main__":
    serve(sys.argv[1])
