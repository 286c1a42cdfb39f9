"""Draws docs/images/demo.svg: ``PYTHONPATH=.:layers/core python scripts/draw_demo.py``.

It runs the demo and shows what it printed, in five scenes of four seconds. Who has switched motion
off sees the last one.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "demo.svg"

SCENE_SECONDS = 4
MOST_LINES = 17
_COLUMNS = 100
_CHARACTER_WIDTH = 8.43
_LINE_HEIGHT = 19
_MARGIN = 18
_TITLE = re.compile(r"[1-5]\. ")

_COLOURS = (
    (_TITLE, "#ffffff"),
    (re.compile(r"\$ "), "#7fd7ff"),
    (re.compile(r".*(circuit breaker|exit code|are processed)"), "#ffd75f"),
    (re.compile(r".*(is processed|is back$|the database is back)"), "#87d787"),
    (re.compile(r".*(fails|fail again|came back|halted|bad )"), "#ff8787"),
    (re.compile(r"│ (processed|failed, then|parked, then)"), "#87d787"),
)
_PLAIN = "#c6c8d1"
_TEXT = "The demo: messages fail, are grouped, a ramp halts, the bug is fixed, all go through"

_FIRST = (
    "the database is down",
    "message 1 arrives",
    "message 1 is back, replay 1",
    "the consumer deletes nothing",
    "the database is back",
    "the consumer works again",
    "and is processed",
    "it is parked",
    "are processed",
)
"""Events of the first step, each shown once."""

_SHOWN = {
    2: r"\$ dlq groups| +group +count| +g-| {6}\S",
    3: r"\$ | {6}.*--reason| +ramp of group| +g-\w+ +\d of| *[\d.]+ s  ",
    4: r"\$ | {6}.*--reason| +ramp of group| +g-\w+ +\d of| *[\d.]+ s  ",
    5: r"[┏┃┡│├└]|Failed again",
}
"""The beginnings of the lines that are shown of a step, from its last such command on."""


_LAST_COMMANDS = {2: "groups", 3: "redrive", 4: "redrive"}


def run_demo() -> list[str]:
    """Run the demo, and return what it printed; raises CalledProcessError where it failed."""
    with tempfile.TemporaryDirectory(prefix="picture-") as folder:
        command = (sys.executable, "-m", "demo", "--keep", f"{folder}/run")
        answer = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    return answer.stdout.splitlines()


def scenes_of(lines: Sequence[str]) -> list[list[str]]:
    """Return the lines of each step of the demo that its scene shows."""
    steps: list[list[str]] = []
    for line in lines:
        if _TITLE.match(line):
            steps.append([])
        if steps:
            steps[-1].append(line.rstrip())

    scenes = [_events(steps[0])]
    for number, step in enumerate(steps[1:], start=2):
        wanted = re.compile(_SHOWN[number])
        end = _from_last(step, _LAST_COMMANDS.get(number))
        scenes.append([step[0], *filter(wanted.match, end)][:MOST_LINES])
    return scenes


def _from_last(step: Sequence[str], command: str | None) -> list[str]:
    """Return the last of these commands with its output; all but the title for None."""
    if command is None:
        return list(step[1:])
    places = [place for place, line in enumerate(step) if line.startswith("$ ")]
    begin = [place for place in places if step[place].startswith(f"$ dlq {command}")][-1]
    ends = [place for place in places if place > begin]
    return list(step[begin : ends[0] if ends else len(step)])


def _events(step: Sequence[str]) -> list[str]:
    """Return the title, and the first event of each kind with the lines that it goes on in."""
    shown = [step[0]]
    missing = list(_FIRST)
    is_shown = False
    for line in step[1:]:
        if line.startswith(" " * 9):
            if is_shown:
                shown.append(line)
            continue
        kinds = [kind for kind in missing if kind in line]
        is_shown = bool(kinds)
        if is_shown:
            missing.remove(kinds[0])
            shown.append(line)
    return shown


def svg_of(scenes: Sequence[Sequence[str]]) -> str:
    """Return the picture."""
    width = round(_COLUMNS * _CHARACTER_WIDTH) + 2 * _MARGIN
    height = (MOST_LINES + 1) * _LINE_HEIGHT + 2 * _MARGIN
    seconds = SCENE_SECONDS * len(scenes)
    share = 100 / len(scenes)

    drawn: list[str] = []
    for number, scene in enumerate(scenes):
        texts: list[str] = []
        for place, line in enumerate(scene):
            y = _MARGIN + (place + 1) * _LINE_HEIGHT
            place_and_colour = f'x="{_MARGIN}" y="{y}" fill="{_colour(line)}"'
            texts.append(f"<text {place_and_colour}>{escape(line[:_COLUMNS])}</text>")
        last = " last" if number == len(scenes) - 1 else ""
        delay = f"animation-delay:{number * SCENE_SECONDS}s"
        drawn.append(f'<g class="scene{last}" style="{delay}">{"".join(texts)}</g>')

    style = (
        "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
        "white-space:pre}"
        f".scene{{opacity:0;animation:show {seconds}s infinite}}"
        f"@keyframes show{{0%,{share - 2:.0f}%{{opacity:1}}{share:.0f}%,100%{{opacity:0}}}}"
        "@media (prefers-reduced-motion:reduce){.scene{animation:none}.last{opacity:1}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
        f"<title>{_TEXT}</title><style>{style}</style>"
        f'<rect width="{width}" height="{height}" rx="8" fill="#1c1e26"/>{"".join(drawn)}</svg>\n'
    )


def _colour(line: str) -> str:
    for pattern, colour in _COLOURS:
        if pattern.match(line):
            return colour
    return _PLAIN


if __name__ == "__main__":
    PICTURE.write_text(svg_of(scenes_of(run_demo())), "utf-8")
