"""Prints lines, fields, tables and patches.

On a terminal with colours and frames (rich), in a pipe as aligned plain text.
"""

import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dlq.cli.verb import PROGRESS, READER_GONE
from dlq.figures import minute, visible
from dlq.progress import silent

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
    """Print why the command does not end with 0; with ``--json`` see ``errors_as_json``."""
    messages = _HELD_MESSAGES.get()
    if messages is None:
        print_note(f"dlq: {text}")
    else:
        messages.errors.append(text)


def print_notice(text: str) -> None:
    """Print what a user should know, and is no error; with ``--json`` see ``errors_as_json``."""
    messages = _HELD_MESSAGES.get()
    if messages is None:
        print_note(f"dlq: {text}")
    else:
        messages.notes.append(text)


AS_JSON: ContextVar[bool] = ContextVar("as_json", default=False)
"""True if the answer is printed as JSON (``--json``)."""

ERRORS_AS_LINES: ContextVar[bool] = ContextVar("errors_as_lines", default=False)
"""True where people read what a command with ``--json`` writes to standard error."""


@dataclass(slots=True)
class _Messages:
    """The command's own messages, until it ends."""

    errors: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def object(self, exit_code: int) -> dict[str, Any]:
        """Return the object of standard error; an empty one if there is nothing to say."""
        errors = self.errors
        notes = self.notes
        if not exit_code:
            notes = [*notes, *errors]
            errors = []
        if not (errors or notes):
            return {}

        fields: dict[str, Any] = {"version": 1}
        if errors:
            fields["error"] = "; ".join(errors)
        fields["exit_code"] = exit_code
        if notes:
            fields["notes"] = notes
        return fields


_HELD_MESSAGES: ContextVar[_Messages | None] = ContextVar("held_messages", default=None)
"""Messages that ``errors_as_json`` prints later; None where each is printed at once."""


@contextmanager
def errors_as_json(*, as_json: bool) -> Iterator[Callable[[int], None]]:
    """With *as_json*, let the messages of the block be one JSON object on standard error.

    There is no progress then but on a terminal, so that a program can read all of standard error.

    Yields:
        The function that prints the object; it takes the exit code.
    """
    is_held = as_json and not ERRORS_AS_LINES.get()
    messages = _Messages()

    def print_object(exit_code: int) -> None:
        if fields := messages.object(exit_code):
            print_note(json.dumps(fields))

    as_json_token = AS_JSON.set(as_json)
    held = _HELD_MESSAGES.set(messages if is_held else None)
    progress = PROGRESS.get()
    if is_held and progress is None and not sys.stderr.isatty():
        progress = silent
    progress_token = PROGRESS.set(progress)
    try:
        yield print_object
    finally:
        PROGRESS.reset(progress_token)
        _HELD_MESSAGES.reset(held)
        AS_JSON.reset(as_json_token)


def repeat_errors(lines: Iterable[str]) -> None:
    """Print the lines that the same command wrote to standard error on another machine."""
    for line in lines:
        fields = read_messages(line)
        if fields is None:
            print_note(line)
            continue
        for text in fields.get("notes", ()):
            print_notice(text)
        if "error" in fields:
            print_error(fields["error"])


def read_messages(line: str) -> dict[str, Any] | None:
    """Return the object that ``errors_as_json`` wrote as this line; None for another line."""
    try:
        fields = json.loads(line)
    except ValueError:
        return None
    is_ours = isinstance(fields, dict) and {"version", "exit_code"} <= fields.keys()
    return fields if is_ours else None


def print_answer(answer: Any, show: Callable[[], object]) -> None:  # noqa: ANN401 - a dataclass
    """Print a verb's answer: as one JSON object with ``--json``, else by *show*.

    The object's ``version`` is 1. It grows when a field goes or changes its meaning; new fields do
    not change it, so programs ignore those that they do not know. Times are in ISO 8601.
    """
    if not AS_JSON.get():
        show()
        return
    fields = answer if isinstance(answer, Mapping) else asdict(answer)
    held_answers = _HELD_ANSWERS.get()
    if held_answers is None:
        _print_json(fields)
    else:
        held_answers.append(fields)


_HELD_ANSWERS: ContextVar[list[Mapping[str, Any]] | None] = ContextVar("held", default=None)
"""Answers that ``errors_in_answer`` prints later; None where it holds none back."""


@contextmanager
def errors_in_answer() -> Iterator[None]:
    """Print one JSON object alone with ``--json``, also where standard error is joined with it.

    ``spark-submit`` joins the two. There is no progress then, and what the block writes to standard
    error becomes the object's field ``errors``, a list of lines. Without an answer it is written in
    the end.
    """
    are_joined = "PYSPARK_GATEWAY_PORT" in os.environ and sys.stderr is sys.__stderr__
    if not (AS_JSON.get() and are_joined):
        yield
        return

    answers: list[Mapping[str, Any]] = []
    errors = io.StringIO()
    no_progress = PROGRESS.set(silent)
    held = _HELD_ANSWERS.set(answers)
    printed_at_once = _HELD_MESSAGES.set(None)
    try:
        with redirect_stderr(errors):
            yield
    finally:
        PROGRESS.reset(no_progress)
        _HELD_ANSWERS.reset(held)
        _HELD_MESSAGES.reset(printed_at_once)
        lines = errors.getvalue().splitlines()
        for answer in answers:
            _print_json({**answer, "errors": lines})
        if not answers:
            for line in lines:
                print_notice(line.removeprefix("dlq: "))


def _print_json(fields: Mapping[str, Any]) -> None:
    print_line(json.dumps({"version": 1, **fields}, indent=1, default=_json_value))


def _json_value(value: object) -> object:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def print_parts(*parts: tuple[str, str]) -> None:
    """Print texts in one line, each in its rich style on a terminal."""
    if not sys.stdout.isatty():
        print_line("".join(text for text, _ in parts))
        return

    line = Text()
    for text, style in parts:
        line.append(visible(text), style)
    Console(file=sys.stdout).print(line, soft_wrap=True)


def print_fields(fields: Sequence[tuple[str, str]], indent: str = "  ") -> None:
    """Print names and values in two columns. A field with an empty value is left out.

    The second and later lines of a value are indented below its name.
    """
    shown = [(name, value) for name, value in fields if value]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        text = value.replace("\n", f"\n{indent * 2}")
        print_parts((f"{indent}{name.ljust(width)}  ", "dim"), (text, ""))


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[object]], spare: Sequence[str] = ()
) -> None:
    """Print rows below headings, numbers aligned right. Markup in a cell is printed as it is.

    In a pipe each row is one line. On a terminal a text is wrapped; ids and other words never are,
    so that they can be copied. Where there is no room for all columns, those of *spare* are left
    out, the first one first.
    """
    if sys.stdout.isatty():
        _print_on_terminal(columns, rows, spare)
    else:
        _print_in_pipe(columns, rows)


def _print_on_terminal(
    columns: Sequence[str], rows: Sequence[Sequence[object]], spare: Sequence[str]
) -> None:
    cells = _cells(rows, keeps_lines=True)
    console = Console(file=sys.stdout)
    widths = column_widths(columns, cells, console.width, spare)
    # Lines that are too long all the same are the terminal's to wrap.
    console = Console(file=sys.stdout, width=max(console.width, _row_width(widths)))

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for position, width in widths.items():
        table.add_column(
            columns[position],
            justify=_justification(rows, position),
            width=width,
            overflow="fold",
        )
    for row in cells:
        table.add_row(*(Text(row[position]) for position in widths))
    console.print(table)

    left_out = []
    for position, name in enumerate(columns):
        if position not in widths and not _is_blank(cells, position):
            left_out.append(name)
    if left_out:
        print_parts((f"no room for: {', '.join(left_out)}", "dim"))


def _print_in_pipe(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    table = Table(box=None, pad_edge=False)
    for position, name in enumerate(columns):
        table.add_column(name, justify=_justification(rows, position), overflow="fold")
    for row in _cells(rows, keeps_lines=False):
        table.add_row(*map(Text, row))

    console = Console(width=_LONGEST_LINE)
    with console.capture() as text:
        console.print(table, soft_wrap=True)
    lines = map(str.rstrip, text.get().splitlines())
    print_line("\n".join(lines))


def _cells(rows: Sequence[Sequence[object]], *, keeps_lines: bool) -> list[list[str]]:
    cell = partial(_cell, keeps_lines=keeps_lines)
    return [list(map(cell, row)) for row in rows]


def _cell(value: object, *, keeps_lines: bool) -> str:
    text = f"{value:,}" if isinstance(value, int) else str(value)
    return visible(text if keeps_lines else " ".join(text.splitlines()))


def _justification(rows: Sequence[Sequence[object]], position: int) -> Literal["left", "right"]:
    is_number = bool(rows) and all(isinstance(row[position], int) for row in rows)
    return "right" if is_number else "left"


_GAP = 3
"""Characters between two columns on a terminal."""

_EDGES = 2
"""Characters at both ends of a row on a terminal, together."""

_SHORT_TEXT = 12
"""A text up to this width is not wrapped."""

_LEAST_TEXT = 22
"""The width of a long text, if columns must be left out for it."""

_GOOD_TEXT = 48
"""The width of a long text, if headings must be wrapped for it."""

_ID_IN_TEXT = re.compile(r"\b(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{8}T\d{6}Z-\w+)\b")
"""The id of a message, a run or a plan within a text: it stays in one line, to be copied."""

_BLANK = {"", "0", "-"}


def column_widths(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    room: int,
    spare: Sequence[str] = (),
) -> dict[int, int]:
    """Return the widths of the columns that a table of *room* characters has, by their position.

    A column without spaces is as wide as its longest cell; a text may be wrapped. If there is no
    room, headings are wrapped, and then columns of *spare* left out: those that are blank, and then
    the others, in their order. What remains may be wider than *room*.
    """
    widths: dict[int, int] = {}
    good: dict[int, int] = {}
    full: dict[int, int] = {}
    for position, heading in enumerate(headings):
        cells = [row[position] for row in rows]
        widest, least = _cell_widths(cells)
        widths[position] = max(least, _longest_word([heading]))
        good[position] = max(widths[position], min(widest, _GOOD_TEXT))
        full[position] = max(widest, cell_len(heading))

    order = [headings.index(name) for name in spare if name in headings]
    order.sort(key=lambda position: not _is_blank(rows, position))
    while order and _row_width(widths) > room:
        del widths[order.pop(0)]

    longest_first = sorted(widths, key=lambda position: -full[position])
    for wanted in (good, full):
        for position in longest_first:
            rest = max(0, room - _row_width(widths))
            widths[position] = min(wanted[position], widths[position] + rest)
    return widths


def _cell_widths(cells: Sequence[str]) -> tuple[int, int]:
    """Return the width of the widest line of these cells, and that to which it may be wrapped."""
    lines = "\n".join(cells).splitlines()
    widest = max(map(cell_len, lines), default=0)
    is_text = any(" " in line for line in lines)
    if not is_text or widest <= _SHORT_TEXT:
        return widest, widest
    if widest > _LEAST_TEXT:
        longest_id = max(map(len, _ID_IN_TEXT.findall("\n".join(lines))), default=0)
        return widest, max(_LEAST_TEXT, longest_id)
    return widest, _longest_word(lines)


def _longest_word(lines: Sequence[str]) -> int:
    words = " ".join(lines).split()
    return max(map(cell_len, words), default=0)


def _row_width(widths: Mapping[int, int]) -> int:
    return sum(widths.values()) + _GAP * (len(widths) - 1) + _EDGES


def _is_blank(rows: Sequence[Sequence[str]], position: int) -> bool:
    return all(row[position] in _BLANK for row in rows)


def failed_again(sent: int | None, returned: int | None) -> int | str:
    """Return the cell of a table: how many of *sent* messages failed again."""
    if not sent:
        return "-"
    return "?" if returned is None else returned


def print_count_times(times: Iterable[datetime | None]) -> None:
    """Print since when counts of what failed again may be old; nothing where all are as of now."""
    earliest = min((time for time in times if time is not None), default=None)
    if earliest is not None:
        print_line(f"failed again: as ramps counted it, the oldest {minute(earliest)} UTC; not now")


def print_diff(lines: Sequence[str], indent: int = 0) -> None:
    """Print the lines of a patch; on a terminal removed lines are red and added ones green."""
    for line in lines:
        print_parts((line, _DIFF_STYLES.get(line[indent : indent + 1], "")))
