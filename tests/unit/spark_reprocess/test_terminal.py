import io
from contextlib import redirect_stdout

import pytest

from spark_reprocess.command_line.terminal import (
    print_error,
    print_fields,
    print_parts,
    print_table,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_pipe_gets_aligned_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("group", "count", "failure"), [("g-1", 1200, "x"), ("g-22", 7, "long")])

    assert capsys.readouterr().out.splitlines() == [
        "group  count  failure",
        "g-1    1,200  x",
        "g-22       7  long",
    ]


def test_terminal_gets_a_drawn_table() -> None:
    with redirect_stdout(Terminal()) as out:
        print_table(("group", "count"), [("g-1", 1200)])

    assert "1,200" in out.getvalue()
    assert "──" in out.getvalue()


def test_markup_in_a_cell_is_only_text() -> None:
    with redirect_stdout(Terminal()) as out:
        print_table(("failure",), [("[red]x[/red] [link=y]",)])

    assert "[red]x[/red] [link=y]" in out.getvalue()


def test_table_without_rows_has_its_headings(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("group", "count"), [])

    assert capsys.readouterr().out == "group  count\n"


def test_nothing_on_the_screen_can_drive_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x1b]0;title\x07\x1b[2J\rover\u202ewritten"

    print_error(hostile)
    with redirect_stdout(Terminal()) as out:
        print_table(("failure",), [(hostile,)])

    shown = capsys.readouterr().err
    assert shown == "dlq: [U+001B]]0;title[U+0007][U+001B][2J[U+000D]over[U+202E]written\n"
    assert "[U+001B]]0;title" in out.getvalue()
    assert "\x07" not in out.getvalue()


def test_fields_are_aligned_and_empty_ones_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    print_fields([("by", "me"), ("why", ""), ("body", "2 lines\none\ntwo")])

    assert capsys.readouterr().out.splitlines() == [
        "  by    me",
        "  body  2 lines",
        "    one",
        "    two",
    ]


def test_terminal_gets_the_same_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    out = Terminal()
    monkeypatch.setattr("sys.stdout", out)

    print_parts(("m-1: sent", "bold"))
    print_fields([("by", "[red]me[/red]")])

    assert "m-1: sent" in out.getvalue()
    assert "by  " in out.getvalue()
    assert "[red]me[/red]" in out.getvalue()
