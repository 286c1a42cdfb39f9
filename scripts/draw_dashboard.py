"""Draws docs/images/dashboard.png: ``PYTHONPATH=.:layers/core python scripts/draw_dashboard.py``.

The widgets are those of the dashboard's body. Their metrics are those that the product's own code
publishes in a simulated day: now and then a message that can never succeed, and at noon an outage
of the consumer for an hour. What SQS publishes is counted on the simulated queues; the durations of
Lambda are those of the documented costs.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import wrap
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from numpy.typing import NDArray

from dlq_replay.replaying.breaker_worker import BreakerWorker
from dlq_replay.replaying.measures import (
    MAIN_QUEUE_DIMENSION,
    SERVICE,
    SERVICE_DIMENSION,
    measure_batch,
    measure_dlq,
)
from dlq_replay.rules.breaker import BreakerRules
from dlq_replay.rules.failures import Failure
from dlq_replay.wire.message import Message, SendEntry
from scripts.generate_docs import EVENT_SECONDS, MESSAGE_SECONDS
from tests.contract.cloudformation import Stack as Template
from tests.contract.cloudformation import load_template
from tests.simulation.event_source import EventSource, run
from tests.simulation.stack import FOURTEEN_DAYS, Stack
from tests.support.breaker_tables import FakeBreaker

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "dashboard.png"
HOUR = 3600
HOURS = 24
OUTAGE = (12 * HOUR, 13 * HOUR)
POISON_EVERY_SECONDS = 1200
SAMPLE_EVERY_SECONDS = 60

Key = tuple[str, str, frozenset[tuple[str, str]]]
"""A metric: namespace, name, dimensions."""

Values = NDArray[Any]

Lines = Sequence[tuple[str, Values]]
"""Labels and values, one a period."""

Samples = Mapping[Key, Sequence[tuple[float, float]]]
"""Values by metric, each with its second of the day."""


def main() -> None:
    """Simulate the day, and draw the dashboard over it."""
    template = Template.of(load_template(ROOT / "template.yaml"), {"CreateSparkJob": "true"})
    [dashboard] = template.of_type("AWS::CloudWatch::Dashboard").values()
    draw(json.loads(dashboard["DashboardBody"])["widgets"], Day().live())


class Day:
    """A day of a consumer that needs a service which is away for an hour."""

    def __init__(self) -> None:
        self.stack = Stack(max_receive_count=5)
        self.failures: dict[str, Failure] = {}
        self.deleted: Counter[int] = Counter()
        self.begin_ms = self.stack.clock.now_ms()
        self.samples: defaultdict[Key, list[tuple[float, float]]] = defaultdict(list)

        clock = self.stack.clock.time
        breaker = BreakerWorker(FakeBreaker(), BreakerRules(), self._deletions, clock)
        self.stack.replayer = replace(
            self.stack.replayer,
            find_failures=lambda _: (self.failures, None),
            breakers={self.stack.replayer.policy.main_queue: breaker},
        )

    def live(self) -> Samples:
        """Let the day pass; return what was published in it."""
        sources = [
            EventSource(self.stack.main, self._consume),
            EventSource(self.stack.dlq, self._replay, 100),
        ]
        for second in range(HOURS * HOUR):
            if OUTAGE[0] <= second < OUTAGE[1]:
                self.stack.main.send([SendEntry(f"order {second}")])
            if second % POISON_EVERY_SECONDS == 0:
                self.stack.main.send([SendEntry(f"poison {second}")])
            run(self.stack.model, sources, until_ms=self.begin_ms + 1000 * second)
            if second % SAMPLE_EVERY_SECONDS == 0:
                self._sample_queues()
        return self.samples

    def _consume(self, batch: Sequence[Message]) -> set[str]:
        is_out = OUTAGE[0] <= self._second() < OUTAGE[1]
        error_type = "TimeoutError" if is_out else "KeyError"
        failed_ids = set()
        for message in batch:
            if is_out or message.body.startswith("poison"):
                self.failures[message.message_id] = Failure(message.message_id, error_type)
                failed_ids.add(message.message_id)

        self.deleted[self.stack.now_seconds() // 60] += len(batch) - len(failed_ids)
        return failed_ids

    def _deletions(self, start_seconds: int, end_seconds: int) -> Mapping[int, int]:
        begin = self.begin_ms // 60_000
        deletions = {}
        for minute in range(start_seconds // 60, end_seconds // 60):
            is_outage = OUTAGE[0] // 60 <= minute - begin < OUTAGE[1] // 60
            # Orders that the consumer takes at once are not simulated, one a second.
            healthy = 0 if is_outage else 60
            deletions[minute] = self.deleted[minute] + healthy
        return deletions

    def _replay(self, batch: Sequence[Message]) -> set[str]:
        left_ids = self.stack.replay(batch)
        outcome = self.stack.outcomes[-1]
        report = next(iter(outcome.breakers.values()), None)
        measured = measure_batch(outcome, report)
        now = self.stack.now_seconds()
        measured |= measure_dlq(outcome, [measured], now, FOURTEEN_DAYS)

        dimensions = {SERVICE_DIMENSION: SERVICE, MAIN_QUEUE_DIMENSION: "MainQueue"}
        for name, values in measured.items():
            self._publish("DlqReplay", name, dimensions, *values)

        function = {"FunctionName": "ReplayFunction"}
        self._publish("AWS/Lambda", "Invocations", function, 1)
        duration_ms = 1000 * (EVENT_SECONDS + MESSAGE_SECONDS * len(batch))
        self._publish("AWS/Lambda", "Duration", function, duration_ms)
        return left_ids

    def _sample_queues(self) -> None:
        queues = {
            "MainQueue": self.stack.main,
            "DeadLetterQueue": self.stack.dlq,
            "ParkedQueue": self.stack.parked,
        }
        attribute_of_metric = {
            "ApproximateNumberOfMessagesVisible": "ApproximateNumberOfMessages",
            "ApproximateNumberOfMessagesNotVisible": "ApproximateNumberOfMessagesNotVisible",
            "ApproximateNumberOfMessagesDelayed": "ApproximateNumberOfMessagesDelayed",
        }
        now = self.stack.now_seconds()
        for name, queue in queues.items():
            dimensions = {"QueueName": name}
            counts = queue.describe()
            for metric, attribute in attribute_of_metric.items():
                self._publish("AWS/SQS", metric, dimensions, int(counts[attribute]))

            ages = [now - message.sent_ms // 1000 for message in queue.queue.messages()]
            oldest = max(ages, default=0)
            self._publish("AWS/SQS", "ApproximateAgeOfOldestMessage", dimensions, oldest)

    def _publish(
        self, namespace: str, name: str, dimensions: Mapping[str, str], *values: float
    ) -> None:
        key = (namespace, name, frozenset(dimensions.items()))
        second = self._second()
        self.samples[key] += [(second, value) for value in values]

    def _second(self) -> float:
        return (self.stack.clock.now_ms() - self.begin_ms) / 1000


def draw(widgets: Sequence[Mapping[str, Any]], samples: Samples) -> None:
    """Draw the widgets where their body puts them."""
    rows = max(widget["y"] + widget["height"] for widget in widgets)
    plt.rcParams.update({"font.size": 8, "font.family": "DejaVu Sans"})
    figure = plt.figure(figsize=(13, 0.4 * rows), dpi=110)
    grid = figure.add_gridspec(rows, 24, left=0.04, right=0.985, top=0.99, bottom=0.02)
    for widget in widgets:
        top = widget["y"]
        # The last rows of a chart are for its axis and the title of the next.
        bottom = top + max(1, widget["height"] - 2)
        left = widget["x"]
        right = left + widget["width"]
        # Between two charts, a column is for the labels of an axis.
        begin = left + 1 if left else left
        axes = figure.add_subplot(grid[top:bottom, begin:right])
        _draw_widget(axes, widget["type"], widget["properties"], samples)

    figure.savefig(PICTURE)


def _draw_widget(axes: Axes, kind: str, properties: Mapping[str, Any], samples: Samples) -> None:
    if kind == "text":
        axes.axis("off")
        text = re.sub(r"\*\*|\[([^]]*)\]\([^)]*\)", r"\1", properties["markdown"])
        axes.text(0, 0.3, "\n".join(wrap(text, 150)), fontsize=9)
        return

    axes.set_title(properties["title"], loc="left", fontsize=9, fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
    lines = list(_lines(properties, samples))
    if properties["view"] == "bar":
        _draw_bars(axes, lines)
    else:
        _draw_lines(axes, properties, lines)


def _draw_bars(axes: Axes, lines: Lines) -> None:
    heights = {}
    for label, values in lines:
        if not np.isnan(values[0]):
            heights[label.removeprefix("replay ")] = values[0]
    axes.bar(list(heights), list(heights.values()))
    axes.set_ylim(0, 100)


def _draw_lines(axes: Axes, properties: Mapping[str, Any], lines: Lines) -> None:
    hours = np.arange(HOURS * HOUR // properties["period"]) * properties["period"] / HOUR
    if properties.get("stacked"):
        stacked = [np.nan_to_num(values) for _, values in lines]
        axes.stackplot(hours, *stacked, labels=[label for label, _ in lines])
    else:
        for label, values in lines:
            axes.plot(hours, values, label=label, linewidth=1.2)

    axes.set_xlim(0, HOURS)
    ticks = range(0, HOURS + 1, 3)
    axes.set_xticks(ticks, [f"{hour:02d}:00" for hour in ticks])
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, axis="y", alpha=0.3)
    axes.legend(loc="upper left", fontsize=7, framealpha=0.6)


def _lines(properties: Mapping[str, Any], samples: Samples) -> Iterator[tuple[str, Values]]:
    """Yield label and values of each visible line, one value a period, NaN where nothing is."""
    period = HOURS * HOUR if properties.get("setPeriodToTimeRange") else properties["period"]
    by_id: dict[str, Any] = {}
    for line in properties["metrics"]:
        options = line[-1]
        if "expression" in options:
            with np.errstate(divide="ignore", invalid="ignore"):
                values = eval(options["expression"], {"__builtins__": {}}, by_id)  # noqa: S307 - ours
        else:
            namespace, name, *dimensions, _ = line
            pairs = zip(dimensions[::2], dimensions[1::2], strict=True)
            published = samples.get((namespace, name, frozenset(pairs)), ())
            values = _statistic(options.get("stat", properties["stat"]), published, period)
        by_id[options.get("id", "")] = values
        if options.get("visible", True):
            yield options.get("label", line[1] if len(line) > 1 else ""), values


def _statistic(name: str, published: Sequence[tuple[float, float]], period: int) -> Values:
    """Return the statistic of each period; NaN for one in which nothing was published."""
    count = HOURS * HOUR // period
    by_period = defaultdict[int, list[float]](list)
    for second, value in published:
        by_period[min(count - 1, int(second) // period)].append(value)

    take = _taker(name)
    statistics = np.full(count, np.nan)
    for number, values in by_period.items():
        statistics[number] = take(values)
    return statistics


def _taker(name: str) -> Callable[[Sequence[float]], float]:
    if name.startswith("p"):
        return lambda values: float(np.percentile(values, float(name[1:])))
    if rank := re.fullmatch(r"PR\(([\d.]*):([\d.]*)\)", name):
        low = float(rank[1] or "-inf")
        high = float(rank[2] or "inf")
        # The share within, times how many there are, as the expressions divide one by another.
        return lambda values: sum(low < value <= high for value in values)
    takers: Mapping[str, Callable[[Sequence[float]], float]] = {
        "Sum": sum,
        "SampleCount": len,
        "Maximum": max,
        "Minimum": min,
    }
    return takers[name]


if __name__ == "__main__":
    main()
