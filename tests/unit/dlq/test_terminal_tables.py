"""Tables on terminals of several widths: ids can be copied, and texts can be read."""

import io
import re
import sys
from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from dlq.cli.terminal import column_widths, print_table
from tests.support.golden import assert_stored

GROUPS = ("group", "count", "pending", "sent", "failed again", "status", "action", "what failed")
SPARE = ("count", "status", "sent", "failed again")
TITLE = "RuntimeError: the order has no address for this customer\n↳ body.region = eu-west-3"
HALTED = "KeyError: 'vat'\nhalted: 1 of 1 message failed again, 0 allowed; decide again"
ALIKE = "ConnectionError\n+ g-a5eb490864, 1,200, leave: ConnectionError: reset by 10.0.0.1"
ROWS = [
    ("g-3aa3c85d54", 1300, 1200, 0, "-", "regressed", "leave", TITLE),
    ("g-53cb1ad25b", 18, 17, 1, 1, "halted", "redrive, edited", HALTED),
    ("g-0011223344", 1, 1, 0, "-", "new", "leave", ALIKE),
]
PLANS = ("plan", "sent", "discarded", "restored", "unconfirmed", "in progress", "failed again")
PLAN_ROWS = [("20261128T100000Z-4f2a000abc", 10, 2, 0, 1, 0, "-")]


class Terminal(io.StringIO):
    """Standard output as a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", [60, 80, 120])
def test_tables_at_several_widths(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("NO_COLOR", "1")

    print_table(GROUPS, ROWS, SPARE)
    print_table(PLANS, PLAN_ROWS, ("restored", "in progress", "discarded", "unconfirmed"))

    monkeypatch.undo()
    text = re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue())
    lines = [line.rstrip() for line in text.splitlines()]
    assert max(map(len, lines)) <= width
    assert_stored("terminal_tables", f"{width} columns", "\n".join(filter(None, lines)))


def test_what_is_printed_into_a_pipe_has_every_column(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(GROUPS, ROWS, SPARE)

    heading, first, *_ = capsys.readouterr().out.splitlines()
    assert heading.split()[:8] == [
        "group",
        "count",
        "pending",
        "sent",
        "failed",
        "again",
        "status",
        "action",
    ]
    assert first.endswith(TITLE.replace("\n", " "))


WORDS = st.text("abcé界-0123456789", max_size=40)
CELLS = st.one_of(WORDS, st.lists(WORDS, max_size=6).map(" ".join))


@given(
    rows=st.integers(1, 6).flatmap(
        lambda columns: st.lists(
            st.lists(CELLS, min_size=columns, max_size=columns), min_size=1, max_size=4
        )
    ),
    room=st.integers(1, 200),
    data=st.data(),
)
def test_no_word_is_folded_and_what_has_room_is_there(
    rows: list[list[str]], room: int, data: st.DataObject
) -> None:
    headings = [f"h{position}" for position in range(len(rows[0]))]
    spare = data.draw(st.lists(st.sampled_from(headings), unique=True))

    widths = column_widths(headings, rows, room, spare)

    left = {headings[position] for position in widths}
    assert set(headings) - left <= set(spare)
    for position, width in widths.items():
        cells = [row[position] for row in rows]
        if " " not in "".join(cells):
            assert width >= max(map(cell_len, cells))

    # Too wide only if nothing more can be left out.
    assert row_width(widths.values()) <= room or left.isdisjoint(spare)

    natural_widths = []
    for position, heading in enumerate(headings):
        cells = [row[position] for row in rows]
        natural_widths.append(max(map(cell_len, [heading, *cells])))
    if row_width(natural_widths) <= room:
        assert len(widths) == len(headings)


def row_width(widths: Collection[int]) -> int:
    """Return the width of a row, with 3 characters between columns and 2 at its ends."""
    return sum(widths) + 3 * (len(widths) - 1) + 2


@pytest.mark.parametrize("width", [60, 80])
@pytest.mark.parametrize(
    "id_", ["2298bdb1-c85f-0d46-9037-15c8fcaf4a5a", "20261129T153754Z-80ca72582e4"]
)
def test_an_id_within_a_text_is_never_wrapped(
    id_: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", str(width))
    note = f"TimeoutError\nnote: like {id_}, which Ann has mended by hand on Tuesday"

    print_table(GROUPS, [(*ROWS[0][:-1], note)], SPARE)

    monkeypatch.undo()
    assert id_ in terminal.getvalue()
