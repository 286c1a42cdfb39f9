import pytest

from dlq_cli.verbs.simulate import read_seconds


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
