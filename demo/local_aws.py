"""The AWS services of a run, as two processes on this machine.

SQS is ``local_sqs``. DynamoDB, where consumers record failures and Powertools keeps its idempotency
records, and STS, which names the caller in the ledger, are moto's: this module is its program.
"""

import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from demo import DemoError
from local_sqs.process import ServerProcess


class LocalAws:
    """Both servers; ``stop`` is safe at any time, before and during ``start`` too."""

    def __init__(self, log: Path) -> None:
        self._sqs = ServerProcess(log=log)
        self._others = ServerProcess(module="demo.local_aws", log=log)

    def start(self) -> Mapping[str, str]:
        """Start both on free ports; return the variables that point boto3 at them.

        Raises:
            DemoError: one did not start.
        """
        self._sqs.start()
        self._others.start()
        try:
            return {
                "AWS_ENDPOINT_URL": self._others.wait_for_url(),
                "AWS_ENDPOINT_URL_SQS": self._sqs.wait_for_url(),
            }
        except RuntimeError as error:
            raise DemoError(str(error)) from error

    def stop(self) -> None:
        """End both; what they hold is gone."""
        self._sqs.stop()
        self._others.stop()


def serve() -> None:
    """Serve every service of moto until standard input closes."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 - only this process needs it

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    sys.stdout.write(f"http://{host}:{port}\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()
    os._exit(0)  # requests in flight have nobody to answer


if __name__ == "__main__":
    serve()
