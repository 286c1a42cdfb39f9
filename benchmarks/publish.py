"""``python -m benchmarks.publish``: writes tables and chart of the last run to the pages."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import ROOT
from benchmarks.__main__ import RESULTS
from benchmarks.chart import draw, markdown

CHART = Path("docs") / "images" / "bench.svg"
_HEADING = "## Measured\n"

README_ROWS = (
    "cold start, to the first client",
    "replay, events of 100",
    "drain, 100,000 messages",
    "redrive, 100,000 messages",
    "analysis of 1,000,000 messages",
)
"""The rows in the README; benchmarks/README.md has all rows."""

README_NEXT = "## All pages\n"
PAGE_NEXT = "## How it is measured\n"
"""The heading after the section, on each page."""

_README_TEXT = """\
`make bench` compares this project with a simple boto3 script (*the loop*) and with the public app,
on one machine and a local SQS that takes 5 ms for each answer. The slower the processor, the
smaller the ratios: the alternatives mostly wait for answers.
[benchmarks/README.md](benchmarks/README.md) has all figures.

![Measured ratios and their targets](docs/images/bench.svg)
"""

_PAGE_TEXT = """\
Ratios are medians over turns. The slower the processor, the smaller they are: the alternatives
mostly wait for answers.

![Measured ratios and their targets](../docs/images/bench.svg)
"""


def main() -> int:
    """Write the chart and the sections; return 2 if there is no full run to publish."""
    if not RESULTS.exists():
        sys.stderr.write(f"{RESULTS} does not exist: run make bench first\n")
        return 2
    results = json.loads(RESULTS.read_text("utf-8"))
    if results["is_short"]:
        sys.stderr.write(
            f"{RESULTS} is of a short run, whose figures are not valid: run make bench\n"
        )
        return 2
    if results["broken"]:
        names = ", ".join(results["broken"])
        sys.stderr.write(
            f"{RESULTS} lacks benchmarks that failed ({names}): run make bench again\n"
        )
        return 2
    draw(results, ROOT / CHART)
    shown = [one for one in results["findings"] if one["what"] in README_ROWS]
    _replace(ROOT / "README.md", README_NEXT, _README_TEXT, results | {"findings": shown})
    _replace(ROOT / "benchmarks" / "README.md", PAGE_NEXT, _PAGE_TEXT, results)
    return 0


def _replace(path: Path, following: str, text: str, results: Mapping[str, Any]) -> None:
    body = [text, *markdown(results), "", _measured_on(results), ""]
    path.write_text(with_section(path.read_text("utf-8"), following, body), "utf-8")


def _measured_on(results: Mapping[str, Any]) -> str:
    machine = results["machine"]
    return (
        f"Measured {results['when'][:10]} on {machine['processors']} processors "
        f"({machine['processor']}), Python {machine['python']}."
    )


def with_section(page: str, following: str, lines: Sequence[str]) -> str:
    """Return a page with its section "Measured" replaced or added.

    Args:
        page: the text of the page.
        following: the heading after the section.
        lines: the text of the section.

    Raises:
        ValueError: the page does not have that heading.
    """
    if following not in page:
        raise ValueError(
            f"the page has no heading {following.strip()!r}, which must follow the section"
        )
    before, _, rest = page.partition(_HEADING if _HEADING in page else following)
    after = following + (rest.partition(following)[2] if _HEADING in page else rest)
    return before + "\n".join([_HEADING, *lines]) + "\n" + after


if __name__ == "__main__":
    sys.exit(main())
