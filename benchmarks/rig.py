"""The input of a benchmark: the local SQS server, and the number of turns and messages."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.request import Request, urlopen

from benchmarks.findings import Finding
from local_sqs.process import ServerProcess

Product = TypeVar("Product")
Baseline = TypeVar("Baseline")

REGION = "us-east-1"
LATENCY_MS = 5.0
SERVER_SHARE = 0.5
"""The most that the server may use of a core. Above it, the server itself would be measured."""

SHORT_TURNS = 3


def by_turns(
    product: Callable[[], Product], baseline: Callable[[], Baseline], turns: int
) -> tuple[list[Product], list[Baseline]]:
    """Run both *turns* times; the order alternates.

    There is no warm-up: if the first run differs from later ones, run each once before.
    """
    of_product: list[Product] = []
    of_baseline: list[Baseline] = []
    for turn in range(turns):
        if turn % 2:
            of_product.append(product())
            of_baseline.append(baseline())
        else:
            of_baseline.append(baseline())
            of_product.append(product())
    return of_product, of_baseline


@dataclass(slots=True)
class Watch:
    """The work of the server during a block of *seconds*: requests by operation, CPU time."""

    requests: Mapping[str, int] = field(default_factory=dict)
    processor_seconds: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class MeasuringServer:
    """A running server, and its address."""

    url: str

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that make boto3 use this server."""
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
        """Set the latency of every answer; 0 for a fast setup."""
        body = json.dumps({"ms": milliseconds}).encode()
        with urlopen(Request(f"{self.url}/_control/latency", body, method="POST")):  # noqa: S310 - ours
            pass

    def _state(self) -> dict[str, Any]:
        with urlopen(f"{self.url}/_control") as answer:  # noqa: S310 - ours
            state: dict[str, Any] = json.load(answer)
            return state


@contextmanager
def measuring_server() -> Iterator[MeasuringServer]:
    """Run a server until the block ends; boto3 uses it, in child processes too.

    Raises:
        RuntimeError: it did not start.
    """
    before = dict(os.environ)
    process = ServerProcess(["--latency-ms", str(LATENCY_MS)])
    try:
        process.start()
        server = MeasuringServer(process.wait_for_url())
        os.environ.update(server.environment)
        yield server
    finally:
        process.stop()
        os.environ.clear()
        os.environ.update(before)


@dataclass(frozen=True, slots=True)
class Rig:
    """The server of a run, and its size.

    Attributes:
        server: the local SQS server.
        is_short: whether to use fewer turns and messages, as a test.
    """

    server: MeasuringServer
    is_short: bool = False

    def turns(self, full: int) -> int:
        """Return the number of turns: *full*, or fewer in a short run."""
        return min(full, SHORT_TURNS) if self.is_short else full

    def sized(self, full: int) -> int:
        """Return the number of messages: *full*, or a tenth in a short run."""
        return max(1, full // 10) if self.is_short else full

    def notify(self, text: str) -> None:
        """Print progress to standard error."""
        sys.stderr.write(f"  {text}\n")
        sys.stderr.flush()

    def server_finding(self, during: str, watch: Watch, busy_seconds: float) -> Finding:
        """Return the server's share of a core during *busy_seconds*."""
        share = watch.processor_seconds / busy_seconds
        return Finding(f"server, {during}", [share], "of a core", at_most=SERVER_SHARE)
