"""Prints lines, fields, tables and patches.

On a terminal with colours and frames (rich), in a pipe as aligned plain text.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict
from datetime import datetime
from typing import Any, Literal

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from spark_reprocess.command_line.verb import READER_GONE
from spark_reprocess.figures import visible

_LONGEST_LINE = 100_000
"""Characters: of a row of a table in a pipe."""

_DIFF_STYLES = {"-": "red", "+": "green", "@": "cyan"}


@contextmanager
def while_it_is_read() -> Iterator[None]:
    """End the program without a word if the reader of standard output, such as head, has ended.

    Raises:
        SystemExit: with ``READER_GONE``.
    """
    try:
        yield
    except BrokenPipeError:
        raise SystemExit(READER_GONE) from None


def print_line(text: str) -> None:
    """Print a line of the answer to standard output.

    Texts of messages are printed, and a terminal would act on control characters in them.

    Raises:
        SystemExit: nobody reads it any more, see ``while_it_is_read``.
    """
    with while_it_is_read():
        sys.stdout.write(f"{visible(text)}\n")


def print_note(text: str) -> None:
    """Print a line to standard error. A run goes on where nobody reads that."""
    with suppress(BrokenPipeError):
        sys.stderr.write(f"{visible(text)}\n")


def print_error(text: str) -> None:
    """Print a line of the command's own to standard error."""
    print_note(f"dlq: {text}")


AS_JSON: ContextVar[bool] = ContextVar("as_json", default=False)
"""Whether the answer is printed as JSON (``--json``)."""


def print_answer(answer: Any, show: Callable[[], object]) -> None:  # noqa: ANN401 - a dataclass
    """Print a verb's answer: as one JSON object with ``--json``, else by *show*.

    The object's ``version`` is 1. It grows when a field goes or changes its meaning; new fields do
    not change it, so programs ignore those that they do not know. Times are in ISO 8601.
    """
    if not AS_JSON.get():
        show()
        return
    fields = answer if isinstance(answer, Mapping) else asdict(answer)
    print_line(json.dumps({"version": 1, **fields}, indent=1, default=_json_value))


def _json_value(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def print_parts(*parts: tuple[str, str]) -> None:
    """Print texts in one line, each in its rich style on a terminal."""
    if sys.stdout.isatty():
        line = Text.assemble(*((visible(text), style) for text, style in parts))
        Console(file=sys.stdout).print(line, soft_wrap=True)
    else:
        print_line("".join(text for text, _ in parts))


def print_fields(fields: Sequence[tuple[str, str]], indent: str = "  ") -> None:
    """Print names and values in two columns. A field with an empty value is left out.

    The second and later lines of a value are indented below its name.
    """
    shown = [(name, value.replace("\n", f"\n{indent * 2}")) for name, value in fields if value]
    width = max((len(name) for name, _ in shown), default=0)
    for name, text in shown:
        print_parts((f"{indent}{name.ljust(width)}  ", "dim"), (text, ""))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print rows below headings, numbers aligned right. Markup in a cell is printed as it is.

    In a pipe each row is one line.
    """
    is_terminal = sys.stdout.isatty()
    table = Table(box=box.SIMPLE_HEAD if is_terminal else None, pad_edge=False)
    for index, name in enumerate(columns):
        is_number = bool(rows) and all(isinstance(row[index], int) for row in rows)
        justify: Literal["left", "right"] = "right" if is_number else "left"
        table.add_column(name, justify=justify, no_wrap=is_number, overflow="fold")
    for row in rows:
        cells = [f"{one:,}" if isinstance(one, int) else str(one) for one in row]
        if not is_terminal:
            cells = [" ".join(cell.splitlines()) for cell in cells]
        table.add_row(*(Text(visible(cell)) for cell in cells))
    if is_terminal:
        Console(file=sys.stdout).print(table)
        return
    console = Console(width=_LONGEST_LINE)
    with console.capture() as text:
        console.print(table, soft_wrap=True)
    print_line("\n".join(line.rstrip() for line in text.get().splitlines()))


def came_back(sent: int | None, returned: int | None) -> int | str:
    """Return the cell of a table: how many of *sent* messages came back."""
    if not sent:
        return "-"
    return "?" if returned is None else returned


def print_diff(lines: Sequence[str], indent: int = 0) -> None:
    """Print the lines of a patch; on a terminal removed lines are red and added ones green."""
    for line in lines:
        print_parts((line, _DIFF_STYLES.get(line[indent : indent + 1], "")))
