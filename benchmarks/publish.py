"""``python -m benchmarks.publish``: put the last full run into the README, as table and chart."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from benchmarks.__main__ import RESULTS
from benchmarks.chart import draw, markdown

CHART = Path("docs") / "images" / "bench.svg"
_HEADING = "## Measured\n"
_NEXT = "## What has not been tested\n"


def main() -> int:
    """Write the chart and the README's section. Return 2 where there is no full run to publish."""
    if not RESULTS.exists():
        sys.stderr.write(f"{RESULTS} is not there: run make bench first\n")
        return 2
    results = json.loads(RESULTS.read_text("utf-8"))
    if results["is_short"]:
        sys.stderr.write(f"{RESULTS} is of a short run, which proves nothing: run make bench\n")
        return 2
    if results["broken"]:
        names = ", ".join(results["broken"])
        sys.stderr.write(f"{RESULTS} lacks what broke off ({names}): run make bench again\n")
        return 2
    draw(results, ROOT / CHART)
    readme = ROOT / "README.md"
    readme.write_text(with_section(readme.read_text("utf-8"), results), "utf-8")
    return 0


def with_section(readme: str, results: Mapping[str, Any]) -> str:
    """The README's text with its section about these *results*, replaced or added.

    Raises:
        ValueError: the README has lost the heading before which the section stands.
    """
    if _NEXT not in readme:
        raise ValueError(
            f"README.md has no heading {_NEXT.strip()!r}: the section stands before it"
        )
    before, _, rest = readme.partition(_HEADING if _HEADING in readme else _NEXT)
    after = _NEXT + rest.partition(_NEXT)[2] if _HEADING in readme else _NEXT + rest
    machine = results["machine"]
    text = (
        f"{_HEADING}\n"
        "`make bench` measures the product against what one would use instead: by turns, on one\n"
        "machine, on an in-memory SQS that takes 5 ms for every answer. Ratios are medians over\n"
        "turns; [benchmarks/README.md](benchmarks/README.md) says how to read them.\n\n"
        f"![Ratios and their targets]({CHART.as_posix()})\n\n"
        + "\n".join(markdown(results))
        + f"\n\nMeasured {results['when'][:10]} on {machine['processors']} processors "
        f"({machine['processor']}), Python {machine['python']}. Chart and table are of one\n"
        "run: `make bench && .venv/bin/python -m benchmarks.publish`.\n\n"
    )
    return before + text + after


if __name__ == "__main__":
    sys.exit(main())
