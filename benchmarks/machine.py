"""What the figures were measured on."""

import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class Machine:
    """Facts that explain a figure.

    Attributes:
        load: processes that wanted to run in the minute before; above ``processors``, others were
            at work.
    """

    processor: str
    processors: int
    memory_gb: float
    system: str
    python: str
    load: float

    @classmethod
    def of_this(cls) -> Self:
        """Ask this machine, now."""
        return cls(
            processor=_processor(),
            processors=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1,
            memory_gb=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
            system=f"{platform.system()} {platform.release()}",
            python=platform.python_version(),
            load=round(os.getloadavg()[0], 2),
        )

    def to_json(self) -> dict[str, Any]:
        """As it goes into the results."""
        return asdict(self)

    def __str__(self) -> str:
        """One line for people."""
        return (
            f"{self.processors} x {self.processor}, {self.memory_gb:g} GB, {self.system}, "
            f"Python {self.python}, load {self.load:g} before"
        )


def _processor() -> str:
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for line in facts.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
