"""What is written to the terminal: lines, and tables.

Tables are drawn with rich where somebody looks, and aligned plain lines in a pipe.
"""

import sys
from collections.abc import Sequence
from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

_DIFF_STYLES = {"-": "red", "+": "green", "@": "cyan"}


def say(text: str) -> None:
    """Write a line of the answer."""
    _write(text, sys.stdout)


def complain(text: str) -> None:
    """Write a line about what is wrong."""
    _write(f"spark_reprocess: {text}", sys.stderr)


def harmless(text: str) -> str:
    """Spell out what could make a terminal do something, or hide what stands there.

    Texts of strangers end up on the screen; line breaks and tabs stay.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else ascii(c)[1:-1] for c in text)


def print_heading(text: str) -> None:
    """Write the heading of a part of the answer."""
    if sys.stdout.isatty():
        Console(file=sys.stdout).print(Text(harmless(text), style="bold"), soft_wrap=True)
    else:
        say(text)


def print_fields(fields: Sequence[tuple[str, str]], indent: str = "  ") -> None:
    """Write names and what they stand for, aligned; what is empty is left out.

    Of a text of several lines the second and later ones stand below its name.
    """
    shown = [(name, harmless(value)) for name, value in fields if value]
    width = max((len(name) for name, _ in shown), default=0)
    console = Console(file=sys.stdout) if sys.stdout.isatty() else None
    for name, value in shown:
        head, text = f"{indent}{name.ljust(width)}  ", value.replace("\n", f"\n{indent * 2}")
        if console:
            console.print(Text(head, style="dim"), Text(text), sep="", soft_wrap=True)
        else:
            say(f"{head}{text}")


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], out: TextIO | None = None
) -> None:
    """Print rows under their headings; numbers to the right. Nothing in a cell is interpreted."""
    stream = sys.stdout if out is None else out
    cells = [[_spell(value) for value in row] for row in rows]
    numeric = [
        bool(rows) and all(isinstance(row[i], int) for row in rows) for i in range(len(columns))
    ]
    if stream.isatty():
        _draw(columns, cells, numeric, stream)
    else:
        _align(columns, cells, numeric, stream)


def print_diff(lines: Sequence[str], indent: int = 0) -> None:
    """Print the lines of a patch: what goes red, what comes green, where somebody looks."""
    if not sys.stdout.isatty():
        for line in lines:
            say(line)
        return
    console = Console(file=sys.stdout)
    for line in lines:
        console.print(
            Text(line, style=_DIFF_STYLES.get(line[indent : indent + 1], "")), soft_wrap=True
        )


def _spell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else harmless(str(value))


def _draw(
    columns: Sequence[str],
    cells: Sequence[Sequence[str]],
    numeric: Sequence[bool],
    stream: TextIO,
) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name, is_number in zip(columns, numeric, strict=True):
        table.add_column(
            name, justify="right" if is_number else "left", no_wrap=is_number, overflow="fold"
        )
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    Console(file=stream).print(table)


def _align(
    columns: Sequence[str],
    cells: Sequence[Sequence[str]],
    numeric: Sequence[bool],
    stream: TextIO,
) -> None:
    lines = [[" ".join(cell.splitlines()) for cell in line] for line in (columns, *cells)]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    for line in lines:
        parts = [
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(line, widths, numeric, strict=True)
        ]
        _write("  ".join(parts).rstrip(), stream)


def _write(line: str, stream: TextIO) -> None:
    print(harmless(line), file=stream)
