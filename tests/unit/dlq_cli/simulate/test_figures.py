import pytest

from dlq_cli.simulate.figures import (
    read_seconds,
    spell_count,
    spell_dollars,
    spell_seconds,
    spell_share,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("30s", 30), ("15m", 900), ("1h30m", 5400), ("2d", 172_800), ("1d2h3m4s", 93_784)],
)
def test_durations_are_read(text: str, seconds: int) -> None:
    assert seconds == read_seconds(text)


@pytest.mark.parametrize("text", ["", " ", "h", "1.5h", "-3", "5 minutes", "1m1h", "1w"])
def test_anything_else_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="must be a duration such as"):
        read_seconds(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (926, "15 min 26 s"),
        (3600, "1 h"),
        (14_426, "4 h"),
        (183_600, "2 d 3 h"),
    ],
)
def test_durations_are_spelt_with_two_units(seconds: int, text: str) -> None:
    assert text == spell_seconds(seconds)


def test_counts_shares_and_amounts_are_spelt() -> None:
    assert ["36,000", "12", "3", "3.4", "<0.1", "0"] == [
        spell_count(n) for n in (36_000.2, 12.3, 3.0, 3.41, 0.01, 0)
    ]
    assert ["84 %", "100 %", "0.03 %", "<0.0001 %", "0 %"] == [
        spell_share(n) for n in (0.8377, 1, 0.0003, 1e-7, 1e-19)
    ]
    assert ["$1,234.50", "$0.01", "<$0.01"] == [spell_dollars(n) for n in (1234.5, 0.01, 0.0099)]
