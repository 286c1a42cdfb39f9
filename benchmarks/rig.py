"""What a benchmark is given: the local SQS server, and how thoroughly to measure by turns."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.request import Request, urlopen

from benchmarks.findings import Finding, at_most
from local_sqs.process import ServerProcess

Product = TypeVar("Product")
Baseline = TypeVar("Baseline")

REGION = "us-east-1"
LATENCY_MS = 5.0
SERVER_SHARE = 0.5
"""Of a core that the measuring server may take; above it, it would be what is measured."""

SHORT_TURNS = 3


def by_turns(
    product: Callable[[], Product], baseline: Callable[[], Baseline], turns: int
) -> tuple[list[Product], list[Baseline]]:
    """Run both *turns* times; who goes first changes from turn to turn.

    Neither is warmed up here: run each once before, where the first run is unlike the others.
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


@dataclass(frozen=True, slots=True)
class Rig:
    """Where and how thoroughly to measure.

    Attributes:
        server: the measuring server.
        is_short: fewer turns and smaller numbers: to see that it runs, not to publish.
    """

    server: MeasuringServer
    is_short: bool = False

    def turns(self, full: int) -> int:
        """How many turns to take where *full* make a good median."""
        return min(full, SHORT_TURNS) if self.is_short else full

    def sized(self, full: int) -> int:
        """How many messages to take where *full* are wanted: a tenth of them in a short run."""
        return max(1, full // 10) if self.is_short else full

    def say(self, text: str) -> None:
        """Tell the one who waits what is being done."""
        sys.stderr.write(f"  {text}\n")
        sys.stderr.flush()

    def server_finding(self, during: str, watch: Watch, busy_seconds: float) -> Finding:
        """The server's share of a core *during* something that asked it for so long."""
        share = watch.processor_seconds / busy_seconds
        return Finding(f"server, {during}", [share], "of a core", at_most(SERVER_SHARE))
