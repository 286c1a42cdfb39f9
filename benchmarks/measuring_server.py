"""The local SQS server, in a process of its own.

It adds a latency to every answer, counts requests, and says how much processor time it took
itself: a server that is busy would be what is measured.
"""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.request import Request, urlopen

from local_sqs.process import ServerProcess

REGION = "us-east-1"
LATENCY_MS = 5.0


@dataclass(slots=True)
class Watch:
    """What the server did while it was watched.

    Attributes:
        requests: by operation.
        processor_seconds: what it took of a core.
        seconds: how long it was watched.
    """

    requests: Mapping[str, int] = field(default_factory=dict)
    processor_seconds: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class MeasuringServer:
    """A running server.

    Attributes:
        url: where it is.
    """

    url: str

    @property
    def environment(self) -> dict[str, str]:
        """What points boto3 at it, in this process or in another."""
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "measured",
            "AWS_SECRET_ACCESS_KEY": "measured",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    @contextmanager
    def watched(self) -> Iterator[Watch]:
        """Count its requests and its processor time until the block ends."""
        watch = Watch()
        before, began = self._state(), time.perf_counter()
        yield watch
        watch.seconds, after = time.perf_counter() - began, self._state()
        watch.processor_seconds = after["cpu_seconds"] - before["cpu_seconds"]
        counts = after["counts"]
        watch.requests = {name: counts[name] - before["counts"].get(name, 0) for name in counts}

    def set_latency(self, milliseconds: float) -> None:
        """Change what is added to every answer; 0 for setting things up quickly."""
        body = json.dumps({"ms": milliseconds}).encode()
        with urlopen(Request(f"{self.url}/_control/latency", body, method="POST")):  # noqa: S310 - ours
            pass

    def _state(self) -> dict[str, Any]:
        with urlopen(f"{self.url}/_control") as answer:  # noqa: S310 - ours
            state: dict[str, Any] = json.load(answer)
            return state


@contextmanager
def measuring_server() -> Iterator[MeasuringServer]:
    """Run a server until the block ends.

    Raises:
        RuntimeError: it did not start.
    """
    process = ServerProcess(["--latency-ms", str(LATENCY_MS)])
    try:
        process.start()
        yield MeasuringServer(process.wait_for_url())
    finally:
        process.stop()
