"""``python -m benchmarks``: measures, prints the table, exits with 1 if a target is missed."""

import argparse
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

from benchmarks.findings import Finding
from benchmarks.report import Machine, to_json, write_json, write_table
from benchmarks.rig import Rig, measuring_server

BENCHMARKS = ("cold_start", "replay", "requests", "drain", "redrive", "analysis", "console")
RESULTS = Path(".bench") / "latest.json"

_ABOUT = """\
Compares the product with the alternatives, alternately, on this machine, with an in-memory SQS
that takes 5 ms for every answer. Prints a table. Exits with 1 if a target is missed or a benchmark
failed; a failed benchmark does not stop the others."""

Measure = Callable[[Rig], list[Finding]]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the selected benchmarks; return 0 if every target is met, else 1."""
    arguments = _parser().parse_args(argv)
    machine, began = Machine.of_this(), time.monotonic()
    sys.stderr.write(f"{machine}\n")
    names = arguments.only or BENCHMARKS
    findings, broken = measure_each(
        {name: _benchmark(name) for name in names}, is_short=arguments.short
    )
    seconds = time.monotonic() - began
    write_table(findings, sys.stdout)
    results = to_json(findings, machine, broken, is_short=arguments.short, seconds=seconds)
    write_json(arguments.json, results)
    sys.stderr.write(f"{seconds / 60:.1f} min; every value is in {arguments.json}\n")
    for name in broken:
        sys.stderr.write(f"{name} failed: its error is printed above\n")
    return 1 if broken or not all(finding.is_met for finding in findings) else 0


def measure_each(
    benchmarks: Mapping[str, Measure], *, is_short: bool
) -> tuple[list[Finding], list[str]]:
    """Run one benchmark after the other; return the findings, and the names of those that failed.

    The exception of a failed benchmark is printed.
    """
    findings: list[Finding] = []
    broken: list[str] = []
    for name, measure in benchmarks.items():
        try:
            # Each has its own server, so that messages of one do not slow down the next.
            with measuring_server() as server, environment(server.environment):
                findings += measure(Rig(server, is_short))
        except Exception:  # noqa: BLE001 - the findings of the others must not be lost
            traceback.print_exc()
            broken.append(name)
    return findings, broken


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables; at the end restore the complete environment."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def _benchmark(name: str) -> Measure:
    measure: Measure = import_module(f"benchmarks.{name}").measure
    return measure


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=_ABOUT, allow_abbrev=False
    )
    parser.add_argument(
        "--only",
        action="append",
        choices=BENCHMARKS,
        help="run only this benchmark; may be repeated",
    )
    parser.add_argument(
        "--short", action="store_true", help="fewer turns and smaller sizes, as a test"
    )
    parser.add_argument(
        "--json",
        type=Path,
        default=RESULTS,
        metavar="PATH",
        help="file for all values (default: %(default)s)",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
