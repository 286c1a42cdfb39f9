"""Draws docs/images/dry-run.png: ``PYTHONPATH=.:layers/core python scripts/draw_dry_run.py``.

What ``dlq redrive`` prints on a terminal, of invented numbers, in the machine's Chromium. Long
lines are broken between words.
"""

import html
import os
import shlex
import sys
import textwrap
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from dlq.archive.ledger.disposition import Disposition
from dlq.cli.verb import STACK, TYPED
from dlq.cli.verbs.redrive import execution_words, print_execution, print_redrive
from dlq.plan.plan import Action
from dlq.redrive.ramping.step_records import Forecast, step_sizes
from dlq.redrive.request import RedriveRequest
from dlq.redrive.summary import GroupResult, RedriveSummary
from tests.e2e.watched_browser import launched

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "dry-run.png"
COLUMNS = 114

_STACK = "orders-replay"
_GROUP = "g-53cb1ad25b"
_MESSAGES = 340
_QUEUE = "https://sqs.eu-west-1.amazonaws.com/123456789012/orders"
_STEP_SECONDS = 270
"""The shortest time until a step is judged, on AWS."""

_PAGE = """\
<style>
  body {{ margin: 0; background: #16181f; color: #d7d9e0; display: inline-block; }}
  pre {{ margin: 0; padding: 20px 24px; font: 15px/1.5 "DejaVu Sans Mono", monospace; }}
  b {{ color: #7fd7ff; }}
</style>
<pre><b>$ {command}</b>

{answer}</pre>
"""


class _Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def main() -> None:
    """Print the dry run, and photograph it."""
    words = ["redrive", "--stack", _STACK, "--group", _GROUP]
    page = _PAGE.format(
        command=html.escape(shlex.join(["dlq", *words])), answer=html.escape(_dry_run())
    )
    with launched() as browser, browser.new_context(device_scale_factor=1.5) as profile:
        tab = profile.new_page()
        tab.set_viewport_size({"width": 1200, "height": 400})
        tab.set_content(page)
        tab.locator("body").screenshot(path=PICTURE)
    sys.stdout.write(f"{PICTURE}\n")


def _dry_run() -> str:
    """Return what a dry run of the group prints."""
    sizes = step_sizes(_MESSAGES)
    title = "LookupError: no VAT rate for HR"
    group = GroupResult(_GROUP, title, Action.REDRIVE, {Disposition.SEND: _MESSAGES})
    summary = RedriveSummary(
        plan_id="20261128T100000Z-4f2a31",
        run_id="",
        destinations={_QUEUE: _MESSAGES},
        groups=(group,),
        problems=(),
        forecast=Forecast(tuple(sizes), _STEP_SECONDS * (len(sizes) - 1)),
    )
    request = RedriveRequest(main_queue_url=_QUEUE, failure_table="failures", group=_GROUP)

    STACK.set(_STACK)
    TYPED.set(("redrive", "--group", _GROUP))
    os.environ |= {"COLUMNS": str(COLUMNS), "NO_COLOR": "1", "TERM": "dumb"}
    with redirect_stdout(_Terminal()) as terminal:
        print_redrive(summary)
        print_execution(summary, request.reason, *execution_words(summary, request))

    lines: list[str] = []
    for line in terminal.getvalue().splitlines():
        wrapped = textwrap.wrap(line, COLUMNS, drop_whitespace=False, break_on_hyphens=False)
        lines += [part.rstrip() for part in wrapped or [""]]
    return "\n".join(lines).strip("\n")


if __name__ == "__main__":
    main()
