"""What a benchmark is given."""

import sys
from dataclasses import dataclass

from benchmarks.findings import Finding, at_most
from benchmarks.measuring_server import MeasuringServer, Watch

SERVER_SHARE = 0.5
"""Of a core that the measuring server may take; above it, it would be what is measured."""

SHORT_TURNS = 3


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
