"""Runs the AWS services of a run as two processes on this machine.

SQS is ``local_sqs``. DynamoDB (failures, and the records of Powertools Idempotency) and STS (the
caller's name in the ledger) are from moto, which this module runs as a program.
"""

import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from demo import DemoError
from local_sqs.process import ServerProcess


class LocalAws:
    """Both servers. ``stop`` is safe at any time, also before and during ``start``."""

    def __init__(self, log: Path) -> None:
        self._sqs = ServerProcess(log=log)
        self._others = ServerProcess(module="demo.local_aws", log=log)

    def start(self) -> Mapping[str, str]:
        """Start both on free ports; return the environment variables for boto3.

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
        """End both. Their data is lost."""
        self._sqs.stop()
        self._others.stop()


def serve() -> None:
    """Serve moto until standard input closes."""
    from moto.server import ThreadedMotoServer  # noqa: PLC0415 - only this process needs it

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    sys.stdout.write(f"http://{host}:{port}\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()
    os._exit(0)  # does not wait for requests in progress


if __name__ == "__main__":
    serve()
