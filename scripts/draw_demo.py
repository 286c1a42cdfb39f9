"""Draws docs/images/demo.svg: ``PYTHONPATH=.:layers/core python scripts/draw_demo.py``.

It runs the demo and shows a few lines of what it printed, in five scenes of four seconds. Of tables
and commands some columns and options are left out. Who has switched motion off sees the last scene.
"""

import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "demo.svg"

SCENE_SECONDS = 4
MOST_LINES = 11
COLUMNS = 66

_FONT_PIXELS = 18
_CHARACTER_WIDTH = 10.84
_LINE_HEIGHT = 27
_MARGIN = 20

_COLOURS = (
    (re.compile(r"\$ "), "#7fd7ff"),
    (re.compile(r".*(circuit breaker|exit code|are processed)"), "#ffd75f"),
    (
        re.compile(r".*(is processed|is back$|sent$|│ (processed|failed, then|parked, then))"),
        "#87d787",
    ),
    (re.compile(r".*(fails|halted|bad$|it is parked)"), "#ff8787"),
)
_PLAIN = "#c6c8d1"
_TITLE = "#ffffff"
_TITLE_INDENT = "   "
_DIM = "#8b8fa3"
_TEXT = "The demo: messages fail, are grouped, a ramp halts, the bug is fixed, all go through"

_EVENTS = (
    "message 1 arrives",
    "circuit breaker: the consumer deletes nothing",
    "the database is back",
    "message 1 is back, replay 2",
    "it is parked",
    "are processed",
)
"""Events of the first step, each shown once."""

_STEP = re.compile(r"[1-5]\. ")
_TIME = re.compile(r" *[\d.]+ s  ")
_GROUP = re.compile(r" +(?P<id>g-\w+) +(?P<count>\d+) .* leave +(?P<title>.*) ↳ (?P<difference>.*)")
_RAMP = re.compile(
    r" +(?P<id>g-\w+) +(?P<step>\d of \d) +(?P<sent>\d+) +(?P<failed>\d+) +\d+ +(?P<verdict>\w+)"
)
_RAMP_HEAD = "group          step    sent  failed again  verdict"
_REASON = re.compile(r"\$ dlq redrive .*(?P<reason>--reason '[^']*')")


def run_demo() -> list[str]:
    """Run the demo, and return what it printed; raises CalledProcessError where it failed."""
    with tempfile.TemporaryDirectory(prefix="picture-") as folder:
        command = (sys.executable, "-m", "demo", "--keep", f"{folder}/run")
        answer = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return answer.stdout.splitlines()


def scenes_of(lines: Sequence[str]) -> list[list[str]]:
    """Return the title of each step of the demo, and the lines that its scene shows."""
    steps: list[list[str]] = []
    for line in _whole_lines(lines):
        if _STEP.match(line):
            steps.append([])
        if steps:
            steps[-1].append(line)

    first, groups, halted, fixed, accounts = steps
    return [
        [first[0], *_events(first)],
        [groups[0], "$ dlq groups", *_groups(groups)],
        [halted[0], *_redrive(halted)],
        [fixed[0], *_redrive(fixed)],
        [accounts[0], *(line for line in accounts if line[:1] in "┏┃┡│├└")],
    ]


def _whole_lines(lines: Sequence[str]) -> Iterator[str]:
    """Join what the demo has wrapped: such a line begins deeper than the one before."""
    whole = ""
    for line in lines:
        goes_on = line.startswith("      ") and not _TIME.match(line)
        if goes_on and whole:
            whole = f"{whole.removesuffix(chr(92)).rstrip()} {line.strip()}"
            continue
        if whole:
            yield whole
        whole = line.rstrip()
    if whole:
        yield whole


def _events(step: Sequence[str]) -> Iterator[str]:
    missing = list(_EVENTS)
    for line in step:
        for event in missing:
            if event in line and _TIME.match(line):
                missing.remove(event)
                yield line
                break


def _groups(step: Sequence[str]) -> Iterator[str]:
    """Yield two lines for each group of the last list."""
    groups: dict[str, re.Match[str]] = {}
    for line in step:
        if line.startswith("$ dlq groups"):
            groups = {}
        if match := _GROUP.match(line):
            groups[match["id"]] = match

    for group in groups.values():
        yield f"{group['count']:>3}  {group['id']}  {group['title']}"
        if not group["difference"].startswith("too few"):
            yield f"     ↳ {group['difference']}"


def _redrive(step: Sequence[str]) -> Iterator[str]:
    """Yield the command that sends, what its ramp did, and the event that sums it up."""
    for line in step:
        command = _REASON.match(line)
        ramp = _RAMP.match(line)
        if command:
            yield f"$ dlq redrive … {command['reason']} --execute"
        elif line.lstrip().startswith("ramp of group"):
            yield _RAMP_HEAD
        elif ramp:
            numbers = f"{ramp['step']}  {ramp['sent']:>6}  {ramp['failed']:>12}"
            yield f"{ramp['id']}   {numbers}  {ramp['verdict']}"
        elif _TIME.match(line) and ("exit code" in line or "takes orders" in line):
            yield line


def svg_of(scenes: Sequence[Sequence[str]]) -> str:
    """Return the picture."""
    width = round(COLUMNS * _CHARACTER_WIDTH) + 2 * _MARGIN
    height = MOST_LINES * _LINE_HEIGHT + 2 * _MARGIN
    seconds = SCENE_SECONDS * len(scenes)
    share = 100 / len(scenes)

    drawn: list[str] = []
    for number, (title, *lines) in enumerate(scenes):
        head, _, rest = title.partition(": ")
        head, *more = textwrap.wrap(head, COLUMNS - len(_TITLE_INDENT))
        texts = [_text(0, head, _TITLE, "title")]
        for part in filter(None, [*more, rest]):
            texts.append(_text(len(texts), _TITLE_INDENT + part, _DIM))
        shown = [row for line in lines for row in _rows(line)]
        for place, (row, colour) in enumerate(shown[: MOST_LINES - len(texts)], start=len(texts)):
            texts.append(_text(place, row, colour))

        last = " last" if number == len(scenes) - 1 else ""
        delay = f"animation-delay:{number * SCENE_SECONDS}s"
        drawn.append(f'<g class="scene{last}" style="{delay}">{"".join(texts)}</g>')

    style = (
        f"text{{font:{_FONT_PIXELS}px ui-monospace,SFMono-Regular,Menlo,Consolas,"
        "'DejaVu Sans Mono',monospace;white-space:pre}.title{font-weight:bold}"
        f".scene{{opacity:0;animation:show {seconds}s infinite}}"
        f"@keyframes show{{0%,{share - 1:.0f}%{{opacity:1}}{share:.0f}%,100%{{opacity:0}}}}"
        "@media (prefers-reduced-motion:reduce){.scene{animation:none}.last{opacity:1}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
        f"<title>{_TEXT}</title><style>{style}</style>"
        f'<rect width="{width}" height="{height}" rx="8" fill="#1c1e26"/>{"".join(drawn)}</svg>\n'
    )


def _rows(line: str) -> list[tuple[str, str]]:
    """Return the rows that a line takes in the picture, each with its colour."""
    indent = " " * 9 if _TIME.match(line) else " " * 5
    rows = textwrap.wrap(line, COLUMNS, subsequent_indent=indent, break_on_hyphens=False)
    return [(row, _colour(line)) for row in rows]


def _text(place: int, row: str, colour: str, kind: str = "row") -> str:
    """Return a row of a scene; *place* counts from 0."""
    y = _MARGIN + (place + 1) * _LINE_HEIGHT - 8
    return f'<text class="{kind}" x="{_MARGIN}" y="{y}" fill="{colour}">{escape(row)}</text>'


def _colour(line: str) -> str:
    for pattern, colour in _COLOURS:
        if pattern.match(line):
            return colour
    return _PLAIN


if __name__ == "__main__":
    PICTURE.write_text(svg_of(scenes_of(run_demo())), "utf-8")
