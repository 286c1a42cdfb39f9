"""The input of a benchmark: the local SQS server, and the number of turns and messages."""

import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from unittest.mock import patch
from urllib.request import Request, urlopen

from benchmarks.findings import Finding
from local_sqs.process import server_process

Result = TypeVar("Result")

REGION = "us-east-1"
LATENCY_MS = 5.0
SERVER_SHARE = 0.5
"""The most that the server may use of a core. Above it, the server itself would be measured."""

SHORT_TURNS = 3


@dataclass(slots=True)
class Watch:
    """The work of the server during a block: requests by operation, CPU time."""

    requests: Mapping[str, int] = field(default_factory=dict)
    processor_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Rig:
    """The local SQS server of a run, and the run's size.

    Attributes:
        url: the server's address.
        is_short: whether to use fewer turns and messages, as a test.
    """

    url: str
    is_short: bool = False

    def by_turns(
        self, programs: Mapping[str, Callable[[], Result]], turns: int
    ) -> dict[str, list[Result]]:
        """Run each program *turns* times, in a short run less often; the order alternates.

        There is no warm-up: if the first run differs from later ones, run each once before.
        """
        results: dict[str, list[Result]] = {name: [] for name in programs}
        if self.is_short:
            turns = min(turns, SHORT_TURNS)

        names = list(programs)
        for _ in range(turns):
            names.reverse()
            for name in names:
                results[name].append(programs[name]())
        return results

    def compare(
        self, what: str, programs: Mapping[str, Callable[[], float]], turns: int, **target: float
    ) -> Finding:
        """Run product and baseline by turns; divide what they return."""
        return Finding.of_ratio(what, self.by_turns(programs, turns), **target)

    def sized(self, full: int) -> int:
        """Return the number of messages: *full*, or a tenth in a short run."""
        return max(1, full // 10) if self.is_short else full

    def notify(self, text: str) -> None:
        """Print progress to standard error."""
        sys.stderr.write(f"  {text}\n")
        sys.stderr.flush()

    @contextmanager
    def watched(self) -> Iterator[Watch]:
        """Count the server's requests and its processor time until the block ends."""
        watch = Watch()
        before = self._state()
        yield watch
        after = self._state()

        watch.processor_seconds = after["cpu_seconds"] - before["cpu_seconds"]
        requests = Counter[str](after["counts"])
        requests.subtract(before["counts"])
        watch.requests = requests

    def _state(self) -> dict[str, Any]:
        with urlopen(f"{self.url}/_control") as answer:  # noqa: S310 - ours
            state: dict[str, Any] = json.load(answer)
            return state

    def set_latency(self, milliseconds: float) -> None:
        """Set the latency of every answer; 0 for a fast setup."""
        body = json.dumps({"ms": milliseconds}).encode()
        with urlopen(Request(f"{self.url}/_control/latency", body, method="POST")):  # noqa: S310 - ours
            pass

    def server_finding(self, during: str, watch: Watch, busy_seconds: float) -> Finding:
        """Return the server's share of a core during *busy_seconds*."""
        share = watch.processor_seconds / busy_seconds
        return Finding(f"server, {during}", [share], "of a core", at_most=SERVER_SHARE)


@contextmanager
def running_rig(*, is_short: bool = False) -> Iterator[Rig]:
    """Run a server until the block ends; boto3 uses it, in child processes too.

    Raises:
        RuntimeError: it did not start.
    """
    with server_process() as wait_for_url:
        url = wait_for_url()
        environment = {
            "AWS_ENDPOINT_URL": url,
            "AWS_REGION": REGION,
            "AWS_DEFAULT_REGION": REGION,
            "AWS_ACCESS_KEY_ID": "measured",
            "AWS_SECRET_ACCESS_KEY": "measured",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        with patch.dict(os.environ, environment):
            rig = Rig(url, is_short)
            rig.set_latency(LATENCY_MS)
            yield rig
