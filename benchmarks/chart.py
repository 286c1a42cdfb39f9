"""Draws the chart of a run: each ratio and its target."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("svg")

import matplotlib.pyplot as plt

from benchmarks.findings import format_figure

_GREY = "#808080"
_MET = "#2a9d8f"
_MISSED = "#e76f51"
"""Legible on white and on black; the background is transparent."""

_BAR_INCHES = 0.5
_WIDTH_INCHES = 8
_TICKS = (1, 2, 5, 10, 20, 50)


def draw(results: Mapping[str, Any], path: Path) -> None:
    """Draw the ratios of *results* as bars with their range, and write an SVG."""
    compared = [one for one in results["findings"] if one["sides"]]
    figure, axes = plt.subplots(figsize=(_WIDTH_INCHES, 1 + _BAR_INCHES * len(compared)))
    for place, one in enumerate(reversed(compared)):
        _bar(axes, place, one)
    axes.set_yticks(range(len(compared)), [one["what"] for one in reversed(compared)])
    axes.set_xscale("log")
    axes.set_xticks(_TICKS, [str(tick) for tick in _TICKS])
    axes.minorticks_off()
    axes.axvline(1, color=_GREY, linewidth=1)
    axes.set_xlabel("times the baseline: median, lowest to highest turn (thin), target (upright)")
    _tint(axes)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, transparent=True, metadata={"Date": None})
    plt.close(figure)


def _bar(axes: Any, place: int, one: Mapping[str, Any]) -> None:  # noqa: ANN401 - untyped there
    median, values = one["median"], one["values"]
    axes.barh(place, median - 1, left=1, color=_MET if one["is_met"] else _MISSED, height=0.55)
    axes.plot([min(values), max(values)], [place, place], color=_GREY, linewidth=2)
    end, label = max(values), f"  {median:.3g}"
    if one["target"]:
        bound = float(str(one["target"]).split()[1])
        axes.plot([bound, bound], [place - 0.4, place + 0.4], color=_GREY, linewidth=2)
        end, label = max(end, bound), f"{label}, target {one['target']}"
    axes.text(end, place, label, va="center", color=_GREY)


def _tint(axes: Any) -> None:  # noqa: ANN401 - untyped there
    """Set colours of axes that are visible on light and dark pages."""
    axes.tick_params(colors=_GREY, which="both")
    axes.xaxis.label.set_color(_GREY)
    for side in axes.spines.values():
        side.set_visible(False)


def markdown(results: Mapping[str, Any]) -> Sequence[str]:
    """Return the lines of the Markdown table of *results*."""
    lines = ["| What | measured | target | product | baseline |", "|---|---|---|---|---|"]
    for one in results["findings"]:
        sides = [f"{format_figure(side['median'])} {side['what']}" for side in one["sides"]]
        measured = f"{format_figure(one['median'])} {one['unit']}"
        target = f"{one['target'] or ''}{'' if one['is_met'] else ', missed'}"
        lines.append(f"| {one['what']} | {measured} | {target} | {' | '.join(sides or ('', ''))} |")
    return lines
