from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from spark_reprocess.canary.options import Share, allocate, recommended_size

sizes = st.dictionaries(st.text("abcdef", min_size=1), st.integers(0, 100_000), max_size=12)


@given(sizes, st.integers(1, 1_000_000))
def test_every_group_is_represented_and_none_overdrawn(groups: dict[str, int], total: int) -> None:
    taken = allocate(groups, total)

    filled = {one: size for one, size in groups.items() if size}
    assert taken.keys() == filled.keys()
    assert all(1 <= taken[one] <= size for one, size in filled.items())
    assert sum(taken.values()) == max(len(filled), min(total, sum(filled.values())))


@given(sizes, st.integers(1, 1_000_000))
@example({"a": 1, "aa": 2, "b": 2}, 4)
def test_larger_group_never_gets_fewer(groups: dict[str, int], total: int) -> None:
    taken = allocate(groups, total)

    # Groups of one size may differ by the one message that is left over.
    ordered = sorted(taken, key=lambda one: (groups[one], taken[one]))
    assert all(taken[a] <= taken[b] for a, b in pairwise(ordered))


@given(sizes, st.integers(1, 1_000_000))
def test_sample_is_proportional_but_for_the_one_that_each_gets(
    groups: dict[str, int], total: int
) -> None:
    taken = allocate(groups, total)

    spare = sum(size - 1 for size in groups.values() if size)
    rest = min(total, spare + len(taken)) - len(taken)
    for one, count in taken.items():
        exact = 1 + (rest * (groups[one] - 1) / spare if rest > 0 and spare else 0)
        assert abs(count - exact) <= 1


@pytest.mark.parametrize(
    ("groups", "size"),
    [
        ({}, None),
        ({"a": 1}, None),
        ({"a": 3}, 1),
        ({"a": 2, "b": 1}, None),
        ({"a": 500, "b": 1}, 5),
        ({"a": 100_000}, 100),
        ({f"g-{n}": 10 for n in range(150)}, 150),
    ],
)
def test_recommended_size_is_worth_its_wait(groups: dict[str, int], size: int | None) -> None:
    assert recommended_size(groups) == size


@pytest.mark.parametrize(
    ("text", "total", "least", "most"),
    [
        ("20", 1000, 20, 20),
        ("20", 7, 7, 7),
        ("0", 7, 0, 0),
        ("5%", 1000, 50, 50),
        ("5%", 7, 1, 0),
        ("0.1%", 1001, 2, 1),
        ("100%", 7, 7, 7),
        ("0%", 7, 0, 0),
        ("33.3%", 1000, 333, 333),
    ],
)
def test_share_is_rounded_as_asked(text: str, total: int, least: int, most: int) -> None:
    share = Share.of(text)

    assert (share.at_least(total), share.at_most(total)) == (least, most)
    assert str(share) == text


@pytest.mark.parametrize("text", ["", "-1", "1.5", "101%", "100.1%", "x", "5 %", "%", "٣", "1e3"])
def test_what_is_no_share_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a whole number, or a percentage"):
        Share.of(text)


@given(st.decimals(0, 100, places=2), st.integers(0, 10**9))
def test_rounding_goes_both_ways_by_less_than_one(percent: Decimal, total: int) -> None:
    share = Share.of(f"{percent}%")

    assert 0 <= share.at_least(total) - share.at_most(total) <= 1
