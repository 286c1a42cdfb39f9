import pytest

from dlq_replay.backoff import Backoff, reproducible_draw


@pytest.mark.parametrize(
    ("rate_seconds", "cap_seconds", "number", "ceiling"),
    [
        *((2, 900, *row) for row in ((1, 4), (2, 8), (3, 16), (8, 512), (9, 900), (10_000, 900))),
        # It is cut to whole seconds, and a cap of zero means no wait.
        *((0.2, 900, *row) for row in ((1, 0), (2, 0), (3, 1), (4, 3))),
        (2, 0, 5, 0),
    ],
)
def test_ceiling_doubles_from_twice_the_rate_up_to_the_cap(
    rate_seconds: float, cap_seconds: int, number: int, ceiling: int
) -> None:
    assert ceiling == Backoff(rate_seconds, cap_seconds).ceiling_seconds(number)


def test_reproducible_draw_reaches_both_ends() -> None:
    assert {reproducible_draw(f"m-{number}", 1)(3) for number in range(100)} == {0, 1, 2, 3}
