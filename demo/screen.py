"""The output: events, the current counts, and a table at the end.

Everything else that is printed goes to files: metrics of the functions, warnings of the JVM.
"""

import io
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from textwrap import fill
from typing import Any, TextIO

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from demo.audit import PROCESSED, FinalState
from demo.messages import DemoMessage, Trait

FUNCTION_LOG = "functions.log"


@contextmanager
def terminal_only(work: Path) -> Iterator[TextIO]:
    """Redirect file descriptors 1 and 2, and Python's output, to logs; yield the real output."""
    sys.stdout.flush()
    sys.stderr.flush()
    descriptors = [os.dup(1), os.dup(2)]
    streams = sys.stdout, sys.stderr
    out = os.fdopen(
        os.dup(1), "w", buffering=1, encoding=sys.stdout.encoding or "utf-8", errors="replace"
    )

    log = (work / FUNCTION_LOG).open("a", buffering=1, encoding="utf-8", errors="replace")
    with (work / "spark.log").open("a") as raw:
        os.dup2(raw.fileno(), 1)
        os.dup2(raw.fileno(), 2)
    sys.stdout = sys.stderr = log

    try:
        yield out
    finally:
        sys.stdout, sys.stderr = streams
        for number, descriptor in enumerate(descriptors, start=1):
            os.dup2(descriptor, number)
        # The reader may have closed the pipe.
        with suppress(BrokenPipeError):
            out.close()


class _OfThisThread(io.TextIOBase):
    """A stream that collects the text of the thread that made it, and passes on all other text."""

    def __init__(self, others: TextIO) -> None:
        self.text = ""
        self._thread = threading.get_ident()
        self._others = others

    def write(self, text: str) -> int:
        """Write *text*."""
        if threading.get_ident() == self._thread:
            self.text += text
        else:
            self._others.write(text)
        return len(text)


def lines_of(call: Callable[[], int]) -> tuple[int, list[str]]:
    """Return the result of *call*, and what it printed on both streams in this thread."""
    streams = sys.stdout, sys.stderr
    sys.stdout = sys.stderr = mine = _OfThisThread(sys.stdout)
    try:
        return call(), mine.text.splitlines()
    finally:
        sys.stdout, sys.stderr = streams
        sys.stdout.write(mine.text)


class Screen:
    """Prints events to *out*; on a terminal the current counts stay below them."""

    def __init__(self, out: TextIO) -> None:
        self._phase = ""
        pipe: Any = {} if out.isatty() else {"width": 100, "soft_wrap": True}
        self.console = Console(file=out, highlight=False, **pipe)
        self._started = time.monotonic()
        self._notified: set[str] = set()
        self._closing = threading.Event()

    @property
    def elapsed_seconds(self) -> float:
        """The seconds since the run started."""
        return time.monotonic() - self._started

    @contextmanager
    def watching(self, read_line: Callable[[], str]) -> Iterator[None]:
        """Show the phase and the result of *read_line* below the events, on a terminal."""
        with self.console.status("") as status:
            ticker = threading.Thread(target=self._tick, args=(read_line, status), daemon=True)
            ticker.start()
            try:
                yield
            finally:
                self._closing.set()
                ticker.join(timeout=5)

    def _tick(self, read_line: Callable[[], str], status: Status) -> None:
        while not self._closing.wait(0.4):
            status.update(Text(f"{self._phase}\n  {read_line()}"))

    def title(self, text: str) -> None:
        """Print the title of a step."""
        self._phase = text
        self.console.print()
        self.console.print(Text(text, style="bold"))

    def note(self, text: str) -> None:
        """Print an explanation."""
        self.console.print(Text(text, style="dim"))

    def say(self, text: str, style: str = "") -> None:
        """Print an event with its time."""
        elapsed = f"{self.elapsed_seconds:5.1f} s  "
        rest = self._wrapped(elapsed + text, len(elapsed)).removeprefix(elapsed)
        self.console.print(Text(elapsed, style="dim") + Text(rest, style=style))

    def notify_once(self, text: str) -> None:
        """Print an event the first time it happens, in a colour that fits its text."""
        if text not in self._notified and not self._closing.is_set():
            self._notified.add(text)
            self.say(text, _style_of(text))

    def command(self, text: str) -> None:
        """Print a command line before it runs; a long one over several lines, as a shell has it."""
        self._phase = " ".join(text.split()[:2])
        lines = self._wrapped(f"$ {text}").replace("\n", " \\\n")
        self.console.print(Text(lines, style="bold cyan"))

    def quote(self, text: str) -> None:
        """Print a line of a command's output; a long one over several lines."""
        self.console.print(Text(self._wrapped(f"    {text}"), style="cyan"))

    def _wrapped(self, text: str, indent: int = 6) -> str:
        # Commands and paths stay whole, so that they can be copied.
        options: Any = {"break_long_words": False, "break_on_hyphens": False}
        return fill(text, self.console.width - 2, subsequent_indent=" " * indent, **options)


def _style_of(event: str) -> str:
    if event.endswith(("is processed", "is back")):
        return "green"
    return "red" if "fail" in event else ""


def account_table(states: Mapping[str, FinalState], sent: Mapping[str, DemoMessage]) -> Table:
    """Return a table: a row per state and the sum. Unexpected states only if they occur."""
    table = Table(title="Every message that was sent", title_justify="left", min_width=60)
    table.add_column("final state")
    for trait in Trait:
        table.add_column(trait.value, justify="right")
    table.add_column("all", justify="right", style="bold")

    for state in FinalState:
        traits = Counter(sent[identity].trait for identity in states if states[identity] is state)
        if state in PROCESSED:
            style = "green"
        elif traits:
            style = "bold red"
        elif state is FinalState.LOST:
            style = "dim"
        else:
            continue
        table.add_row(Text(state.value, style=style), *_cells(traits))

    table.add_section()
    table.add_row("all", *_cells(Counter(message.trait for message in sent.values())))
    return table


def _cells(traits: Counter[Trait]) -> list[str]:
    counts = [*(traits[trait] for trait in Trait), traits.total()]
    return [str(count or "-") for count in counts]
