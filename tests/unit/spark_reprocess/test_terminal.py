import io

import pytest

from spark_reprocess.command_line.terminal import complain, print_table


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_pipe_gets_aligned_plain_lines() -> None:
    out = io.StringIO()

    print_table(("group", "count", "failure"), [("g-1", 1200, "x"), ("g-22", 7, "long")], out)

    assert out.getvalue().splitlines() == [
        "group  count  failure",
        "g-1    1,200  x",
        "g-22       7  long",
    ]


def test_terminal_gets_a_drawn_table() -> None:
    out = Terminal()

    print_table(("group", "count"), [("g-1", 1200)], out)

    assert "1,200" in out.getvalue()
    assert "──" in out.getvalue()


def test_markup_in_a_cell_is_only_text() -> None:
    out = Terminal()

    print_table(("failure",), [("[red]x[/red] [link=y]",)], out)

    assert "[red]x[/red] [link=y]" in out.getvalue()


def test_table_without_rows_has_its_headings() -> None:
    out = io.StringIO()

    print_table(("group", "count"), [], out)

    assert out.getvalue() == "group  count\n"


def test_complaint_names_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    complain("no")

    assert capsys.readouterr().err == "spark_reprocess: no\n"
