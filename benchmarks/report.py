"""Prints the table of findings; writes findings and machine as JSON."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.findings import Finding, Side, format_figure

_HEADINGS = ("", "median", "lowest to highest", "target", "", "product", "baseline")


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine of a run.

    Attributes:
        load: load average of the minute before. Above ``processors``, other processes were busy.
    """

    processor: str
    processors: int
    memory_gb: float
    system: str
    python: str
    load: float

    @classmethod
    def of_this(cls) -> Self:
        """Describe this machine now."""
        return cls(
            processor=_processor(),
            processors=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1,
            memory_gb=round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
            system=f"{platform.system()} {platform.release()}",
            python=platform.python_version(),
            load=round(os.getloadavg()[0], 2),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the form for the results."""
        return asdict(self)

    def __str__(self) -> str:
        """Return one line for people."""
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


def write_table(findings: Sequence[Finding], out: TextIO) -> None:
    """Print the table: with lines in a terminal, as aligned plain text in a pipe."""
    is_screen = out.isatty()
    table = Table(box=box.SIMPLE_HEAD if is_screen else None, pad_edge=False)
    for index, heading in enumerate(_HEADINGS):
        table.add_column(heading, justify="left" if index in {0, 4} else "right", no_wrap=True)
    for finding in findings:
        table.add_row(*(Text(cell, style=_style(finding)) for cell in row(finding)))
    Console(file=out, width=None if is_screen else 200).print(table)


def row(finding: Finding) -> tuple[str, ...]:
    """Return the cells of one finding."""
    target = "" if finding.target is None else str(finding.target)
    verdict = "" if finding.target is None else ("met" if finding.is_met else "MISSED")
    product, baseline = map(_side, finding.sides) if finding.sides else ("", "")
    spread = f"{format_figure(min(finding.values))} to {format_figure(max(finding.values))}"
    return (
        finding.what,
        f"{format_figure(finding.figure)} {finding.unit}",
        spread if len(finding.values) > 1 else "",
        target,
        verdict,
        product,
        baseline,
    )


def to_json(
    findings: Sequence[Finding],
    machine: Machine,
    broken: Sequence[str] = (),
    *,
    is_short: bool,
    seconds: float,
) -> dict[str, Any]:
    """Return all results: the values of every turn, and the names of failed benchmarks."""
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine.to_json(),
        "is_short": is_short,
        "broken": list(broken),
        "seconds": round(seconds),
        "findings": [_finding(one) for one in findings],
    }


def write_json(path: Path, results: dict[str, Any]) -> None:
    """Write *results*; create the folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results, indent=2) + "\n", "utf-8")


def _finding(one: Finding) -> dict[str, Any]:
    return {
        "what": one.what,
        "median": one.figure,
        "unit": one.unit,
        "values": list(one.values),
        "target": None if one.target is None else str(one.target),
        "is_met": one.is_met,
        "sides": [
            {"what": side.what, "median": side.median, "values": list(side.values)}
            for side in one.sides or ()
        ],
    }


def _side(side: Side) -> str:
    return f"{format_figure(side.median)} {side.what}"


def _style(finding: Finding) -> str:
    if finding.target is None:
        return "dim"
    return "" if finding.is_met else "bold red"
