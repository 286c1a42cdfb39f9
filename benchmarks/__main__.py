"""``python -m benchmarks``: measures, prints the table, exits with 1 if a target is missed."""

import argparse
import json
import os
import platform
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path

from benchmarks import ROOT
from benchmarks.findings import Finding, markdown
from benchmarks.rig import running_rig

BENCHMARKS = ("cold_start", "replay", "small", "transfers", "analysis", "ids", "growth", "fleet")
RESULTS = Path(".bench") / "latest.json"
PAGE = ROOT / "benchmarks" / "README.md"

_ABOUT = """\
Compares the product with the alternatives, alternately, on this machine, with an in-memory SQS
that takes 5 ms for every answer. Prints a table. Exits with 1 if a target is missed or a benchmark
failed; a failed benchmark does not stop the others. Needs nothing outside the repository."""


def main() -> int:
    """Run the selected benchmarks; return 0 if every target is met, else 1."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=_ABOUT)
    parser.add_argument(
        "--only",
        action="append",
        choices=BENCHMARKS,
        help="may be repeated",
    )
    parser.add_argument(
        "--short",
        action="store_true",
        help="fewer turns and smaller sizes, as a test",
    )
    parser.add_argument(
        "--publish",
        action="store_true",
        help="write the table into README.md; needs a whole run",
    )
    options = parser.parse_args()
    if options.publish and (options.short or options.only):
        parser.error("--publish needs a whole run, without --short and --only")

    machine = f"{os.cpu_count()} processors ({_processor()}), Python {platform.python_version()}"
    sys.stderr.write(f"{machine}; load {os.getloadavg()[0]:.1f} before\n")

    began = time.monotonic()
    findings: list[Finding] = []
    broken = []
    for name in options.only or BENCHMARKS:
        try:
            # Each has its own server, so that messages of one do not slow down the next.
            with running_rig(is_short=options.short) as rig:
                findings += import_module(f"benchmarks.{name}").measure(rig)
        except Exception:  # noqa: BLE001 - the findings of the others must not be lost
            traceback.print_exc()
            broken.append(name)

    table = markdown(findings)
    print(table)  # noqa: T201
    _write_results(findings)
    if options.publish and not broken:
        _publish(f"{table}\n\nMeasured {time.strftime('%Y-%m-%d')} on {machine}.")

    minutes = (time.monotonic() - began) / 60
    sys.stderr.write(f"{minutes:.1f} min; every value is in {RESULTS}\n")
    for name in broken:
        sys.stderr.write(f"{name} failed: its error is printed above\n")

    are_met = all(finding.is_met for finding in findings)
    return 0 if are_met and not broken else 1


def _write_results(findings: Sequence[Finding]) -> None:
    results = []
    for finding in findings:
        result = asdict(finding)
        result["median"] = finding.figure
        result["is_met"] = finding.is_met
        results.append(result)

    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=2) + "\n", "utf-8")


def _publish(measured: str) -> None:
    """Write a text between the marks of the page."""
    before, _, rest = PAGE.read_text("utf-8").partition("<!-- measured -->\n")
    _, end, after = rest.partition("\n<!-- /measured -->")
    PAGE.write_text(f"{before}<!-- measured -->\n{measured}{end}{after}", "utf-8")


def _processor() -> str:
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        for line in facts.read_text("utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


if __name__ == "__main__":
    sys.exit(main())
