"""``python -m benchmarks``: measure, print the table, exit 1 where a target is missed."""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from benchmarks.findings import Finding
from benchmarks.machine import Machine
from benchmarks.measuring_server import measuring_server
from benchmarks.report import to_json, write_json, write_table
from benchmarks.rig import Rig

BENCHMARKS = ("cold_start", "replay", "requests", "drain", "redrive", "analysis")
RESULTS = Path(".bench") / "latest.json"

_ABOUT = """\
Measures the product against what one would use instead, by turns, on this machine, on an in-memory
SQS that takes 5 ms for every answer. Prints a table; exits 1 where a target is missed."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run what *argv* asks for. Return 0 where every target is met, else 1."""
    arguments = _parser().parse_args(argv)
    machine, began = Machine.of_this(), time.monotonic()
    sys.stderr.write(f"{machine}\n")
    findings = _measure(arguments.only or BENCHMARKS, is_short=arguments.short)
    seconds = time.monotonic() - began
    write_table(findings, sys.stdout)
    results = to_json(findings, machine, is_short=arguments.short, seconds=seconds)
    write_json(arguments.json, results)
    sys.stderr.write(f"{seconds / 60:.1f} min; every value is in {arguments.json}\n")
    return 0 if all(finding.is_met for finding in findings) else 1


def _measure(names: Sequence[str], *, is_short: bool) -> list[Finding]:
    findings: list[Finding] = []
    for name in names:
        # Each has a server of its own: what one leaves behind must not slow the next.
        with measuring_server() as server:
            os.environ.update(server.environment)
            measure = import_module(f"benchmarks.{name}").measure
            findings += measure(Rig(server, is_short))
    return findings


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=_ABOUT, allow_abbrev=False
    )
    parser.add_argument(
        "--only", action="append", choices=BENCHMARKS, help="one of them; may be repeated"
    )
    parser.add_argument(
        "--short", action="store_true", help="fewer turns, smaller numbers: to see that it runs"
    )
    parser.add_argument(
        "--json",
        type=Path,
        default=RESULTS,
        metavar="PATH",
        help="where every value goes (default: %(default)s)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
