from hypothesis import given
from hypothesis import strategies as st

from dlq_cli.simulate.report import filled_curve, highest_in_columns


def test_a_curve_is_filled_from_below() -> None:
    assert ["⢀⣾", "⣿⣿"] == filled_curve([4, 5, 7, 8], top=8, width=2, height=2)


def test_full_and_empty_columns() -> None:
    assert ["⣿⠀", "⣿⠀"] == filled_curve([8, 8, 0, 0], top=8, width=2, height=2)


def test_what_is_above_zero_has_a_dot() -> None:
    assert ["⠀", "⢀"] == filled_curve([0, 0.001], top=1000, width=1, height=2)


def test_nothing_at_all_is_drawn_empty() -> None:
    assert ["⠀⠀"] == filled_curve([0, 0], top=0, width=2, height=1)


def test_columns_keep_every_peak() -> None:
    assert [9, 2] == highest_in_columns([1, 9, 1, 2, 2, 2], 2)
    assert [1, 1, 5, 5] == highest_in_columns([1, 5], 4)


loads = st.lists(st.floats(0, 1e9), min_size=1, max_size=300)


@given(loads, st.integers(1, 120), st.integers(1, 8))
def test_the_drawing_has_the_size_that_was_asked_for(
    load: list[float], width: int, height: int
) -> None:
    lines = filled_curve(load, max(load), width, height)

    assert [width] * height == [len(line) for line in lines]
    assert all(0x2800 <= ord(cell) <= 0x28FF for line in lines for cell in line)
