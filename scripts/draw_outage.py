"""Draws docs/images/outage.png: ``PYTHONPATH=.:layers/core python scripts/draw_outage.py``.

It runs ``dlq simulate --outage 1h --rate 10 --csv``, and draws the answer: the load on the consumer
with the circuit breaker and without it, and the replays in it. Each point is the mean of a minute.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from dlq_cli.__main__ import main as dlq

PICTURE = Path(__file__).parents[1] / "docs" / "images" / "outage.png"
COMMAND = ("simulate", "--outage", "1h", "--rate", "10", "--csv")
OUTAGE_MINUTES = 60
NORMAL_LOAD = 10
LINES = (("without the circuit breaker", "", "#c0392b"), ("with it", "_breaker", "#1f6fb2"))


def main() -> None:
    """Simulate the outage, and draw it."""
    answer = io.StringIO()
    with redirect_stdout(answer):
        dlq(list(COMMAND))
    rows = list(csv.DictReader(io.StringIO(answer.getvalue())))
    columns = {name: [float(row[name]) for row in rows] for name in rows[0]}
    columns["load"] = columns["load_full"]
    draw(columns)


def draw(columns: Mapping[str, Sequence[float]]) -> None:
    """Draw two charts with the same axis of time."""
    plt.rcParams.update({"font.size": 9, "font.family": "DejaVu Sans", "svg.fonttype": "none"})
    figure, (load, replays) = plt.subplots(
        2, 1, figsize=(9, 5.2), dpi=110, sharex=True, constrained_layout=True
    )
    _draw_lines(load, "Tries of the consumer, a second", "load", columns)
    _draw_lines(replays, "Replays, a second", "replays", columns)
    load.axhline(NORMAL_LOAD, color="#555555", linestyle=":", linewidth=1, label="normal load")
    load.legend(loc="upper right", fontsize=8)
    load.annotate("outage", (OUTAGE_MINUTES / 2, load.get_ylim()[1] * 0.92), ha="center")
    replays.set_xlabel("minutes since the outage began")
    figure.savefig(PICTURE)


def _draw_lines(
    axes: Axes, title: str, column: str, columns: Mapping[str, Sequence[float]]
) -> None:
    axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
    axes.axvspan(0, OUTAGE_MINUTES, color="#f2d7d5", alpha=0.5, linewidth=0)
    for label, suffix, colour in LINES:
        means = _means_by_minute(columns[f"{column}{suffix}"])
        axes.plot(np.arange(len(means)) + 0.5, means, label=label, color=colour, linewidth=1.6)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, axis="y", alpha=0.3)


def _means_by_minute(values: Sequence[float]) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    whole = np.array(values[: len(values) // 60 * 60])
    return np.asarray(whole.reshape(-1, 60).mean(axis=1))


if __name__ == "__main__":
    main()
