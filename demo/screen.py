"""The output: a live view on a terminal, plain lines in a pipe, a table at the end.

Events are printed above the live view and stay when it ends.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from demo.audit import PROCESSED, Account, FinalState
from demo.workload import DemoMessage, Trait
from spark_reprocess.clients import QueueCounts

_PLAIN_WIDTH = 100
_PLAIN_EVERY_SECONDS = 2.0
_CHECK_SECONDS = 0.4
_MAX_WIDTH = 100
_ALWAYS_SHOWN = (FinalState.AT_ONCE, FinalState.REPLAYED, FinalState.REDRIVEN, FinalState.LOST)


@dataclass(frozen=True, slots=True)
class Progress:
    """The counts at one time.

    Attributes:
        phase: the current step, in a few words.
        replayed: messages that a replay returned to the main queue.
        archived: messages that Spark moved from the parked queue to the archive.
        redriven: archived messages that came back to the main queue.
    """

    phase: str = ""
    elapsed_seconds: float = 0.0
    total: int = 0
    sent: int = 0
    processed: int = 0
    replayed: int = 0
    archived: int = 0
    redriven: int = 0
    main: QueueCounts = field(default_factory=QueueCounts)
    dlq: QueueCounts = field(default_factory=QueueCounts)
    parked: QueueCounts = field(default_factory=QueueCounts)

    @property
    def backing_off(self) -> int:
        """Messages that wait for their replay: delayed in main, or hidden in a FIFO DLQ."""
        return self.main.delayed + self.dlq.delayed

    @property
    def is_settled(self) -> bool:
        """Whether main queue and DLQ are empty."""
        return self.main.total == 0 and self.dlq.total == 0

    def to_line(self) -> str:
        """Return one plain line, for a pipe."""
        return (
            f"main {self.main.total:>4}  backing off {self.backing_off:>4}"
            f"  DLQ {self.dlq.total:>4}  parked {self.parked.total:>4}  replayed {self.replayed:>4}"
            f"  processed {self.processed}/{self.total}"
        )


class Screen:
    """Prints events; inside ``watching`` also the current counts.

    Args:
        out: the user's terminal, or a pipe.
        elapsed_seconds: returns the seconds since the run started.
    """

    def __init__(self, out: TextIO, elapsed_seconds: Callable[[], float]) -> None:
        width = None if out.isatty() else _PLAIN_WIDTH
        self._is_live = out.isatty()
        self._console = Console(file=out, width=width, highlight=False, soft_wrap=not out.isatty())
        self.elapsed_seconds = elapsed_seconds
        self._progress = Progress()
        self._notified: set[str] = set()
        self._live: Live | None = None
        self._closing = threading.Event()

    @contextmanager
    def watching(self, read_progress: Callable[[], Progress]) -> Iterator[None]:
        """Show the result of *read_progress* repeatedly, in the live view or as lines."""
        if self._is_live:
            self._live = Live(
                get_renderable=lambda: _live_view(self._progress, self._console.width),
                console=self._console,
                refresh_per_second=4,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        ticker = threading.Thread(
            target=self._tick, args=(read_progress,), name="screen", daemon=True
        )
        ticker.start()
        try:
            yield
        finally:
            self.close()
            ticker.join(timeout=5)

    def close(self) -> None:
        """End the live view. Printed events stay."""
        self._closing.set()
        if self._live:
            self._live.stop()
            self._live = None

    def title(self, text: str) -> None:
        """Print the title of a step."""
        self._console.print()
        self._console.print(Text(text, style="bold"))

    def say(self, text: str, style: str = "") -> None:
        """Print an event with its time."""
        elapsed = Text(f"{self.elapsed_seconds():5.1f} s  ", style="dim")
        self._console.print(elapsed + Text(text, style=style))

    def notify_once(self, text: str) -> None:
        """Print an event the first time it happens, in a colour that fits its text."""
        if text in self._notified:
            return
        self._notified.add(text)
        is_good = text.endswith(("is processed", "is back"))
        self.say(text, "green" if is_good else "red" if "fail" in text else "")

    def note(self, text: str) -> None:
        """Print an explanation."""
        self._console.print(Text(text, style="dim"))

    def command(self, text: str) -> None:
        """Print a command line before it runs."""
        self._console.print(Text(f"$ {text}", style="bold cyan"))

    def quote(self, text: str) -> None:
        """Print a line of a command's output, wrapped on a terminal."""
        if self._is_live:
            self._console.print(Padding(Text(text, style="cyan"), (0, 0, 0, 4)))
        else:
            self._console.print(Text(f"    {text}"), soft_wrap=True)

    def quote_start(self, text: str) -> None:
        """Print a line of a command's output, cut at the width of a terminal."""
        if self._is_live:
            line = Text(f"    {text}", style="cyan")
            self._console.print(line, no_wrap=True, overflow="ellipsis")
        else:
            self.quote(text)

    def show(self, renderable: RenderableType) -> None:
        """Print a table or a text."""
        self._console.print(renderable)

    def _tick(self, read_progress: Callable[[], Progress]) -> None:
        next_line_seconds, last_line = _PLAIN_EVERY_SECONDS, ""
        while not self._closing.wait(_CHECK_SECONDS):
            self._progress = read_progress()
            line = self._progress.to_line()
            is_due = self.elapsed_seconds() >= next_line_seconds and line != last_line
            if is_due and not self._is_live:
                self.say(line)
                next_line_seconds, last_line = self.elapsed_seconds() + _PLAIN_EVERY_SECONDS, line


def _live_view(progress: Progress, width: int) -> RenderableType:
    queues = Table(box=None, expand=True, padding=(0, 1))
    for heading in ("queue", "waiting", "in flight", "backing off"):
        queues.add_column(heading, justify="left" if heading == "queue" else "right", style="bold")
    for name, depth in (
        ("main", progress.main),
        ("dead letters", progress.dlq),
        ("parked", progress.parked),
    ):
        queues.add_row(name, *(_number(n) for n in (depth.visible, depth.in_flight, depth.delayed)))
    return Panel(
        Group(queues, Text(), _numbers(progress), _bar(progress)),
        title=Text(progress.phase, style="bold yellow"),
        subtitle=Text(f"{progress.elapsed_seconds:.0f} s", style="dim"),
        width=min(width, _MAX_WIDTH),
    )


def _numbers(progress: Progress) -> Text:
    return Text("  ").join(
        Text(f"{label} ") + _number(value)
        for label, value in (
            ("sent", progress.sent),
            ("replayed", progress.replayed),
            ("archived", progress.archived),
            ("redriven", progress.redriven),
        )
    )


def _bar(progress: Progress) -> Table:
    done = Table.grid(expand=True, padding=(0, 1))
    done.add_column(ratio=1)
    done.add_column(justify="right")
    done.add_row(
        ProgressBar(total=max(1, progress.total), completed=progress.processed),
        Text(f"{progress.processed}/{progress.total} processed", style="bold green"),
    )
    return done


def _number(value: int) -> Text:
    return Text(str(value), style="dim" if value == 0 else "bold cyan")


def account_table(account: Account, sent: Mapping[str, DemoMessage]) -> Table:
    """Return a table: a row per state and the sum. Unexpected states only if they occur."""
    table = Table(title="Every message that was sent", title_justify="left", min_width=60)
    table.add_column("final state")
    for trait in Trait:
        table.add_column(trait.value, justify="right")
    table.add_column("all", justify="right", style="bold")
    for state in FinalState:
        identities = account.in_state(state)
        if identities or state in _ALWAYS_SHOWN:
            counts = [sum(sent[i].trait is trait for i in identities) for trait in Trait]
            style = _style(state, len(identities))
            table.add_row(Text(state.value, style=style), *map(_cell, [*counts, len(identities)]))
    table.add_section()
    totals = [sum(m.trait is trait for m in sent.values()) for trait in Trait]
    table.add_row("all", *map(_cell, [*totals, len(sent)]))
    return table


def names(account: Account, sent: Mapping[str, DemoMessage], state: FinalState) -> str:
    """Return the names of the first twenty messages in *state*."""
    identities = account.in_state(state)
    named = [f"message {sent[i].number} ({i[:12]})" for i in identities[:20]]
    more = len(identities) - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")


def _style(state: FinalState, count: int) -> str:
    if state in PROCESSED:
        return "green"
    return "bold red" if count else "dim"


def _cell(count: int) -> str:
    return str(count) if count else "-"
