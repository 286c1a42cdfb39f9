import pytest

from dlq_replay.backoff import Backoff, reproducible_draw


@pytest.mark.parametrize(
    ("number", "ceiling"), [(1, 4), (2, 8), (3, 16), (8, 512), (9, 900), (10_000, 900)]
)
def test_ceiling_doubles_from_twice_the_rate_up_to_the_cap(number: int, ceiling: int) -> None:
    assert ceiling == Backoff(rate_seconds=2, cap_seconds=900).ceiling_seconds(number)


def test_fractional_ceiling_is_cut_to_whole_seconds() -> None:
    assert [0, 0, 1, 3] == [Backoff(0.2, 900).ceiling_seconds(n) for n in (1, 2, 3, 4)]


def test_cap_of_zero_means_no_wait() -> None:
    assert Backoff(2, 0).ceiling_seconds(5) == 0


def test_reproducible_draw_reaches_both_ends() -> None:
    assert {reproducible_draw(f"m-{number}", 1)(3) for number in range(100)} == {0, 1, 2, 3}
