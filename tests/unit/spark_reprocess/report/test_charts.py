from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.groups.findings import Findings
from spark_reprocess.report.views import (
    COLOURS,
    SPARK_HEIGHT,
    arrivals_table,
    chart_data,
    outline,
)
from tests.support.findings_builder import ANALYZED_AT, a_group, some_findings


def three_buckets(*arrivals: tuple[int, ...]) -> Findings:
    groups = [a_group(group_id=f"g-{n}", arrivals=one) for n, one in enumerate(arrivals)]
    starts = tuple(ANALYZED_AT + timedelta(hours=n) for n in range(3))
    return some_findings(*groups, bucket_starts=starts, bucket_seconds=3_600.0)


@pytest.mark.parametrize(
    ("arrivals", "path"),
    [
        ((), ""),
        ((0, 0), ""),
        ((4,), "M0 24V0H1V24z"),
        ((0, 2, 2, 4, 0), "M0 24H1V12H3V0H4V24H5V24z"),
        ((1, 1_000_000), "M0 24V22H1V0H2V24z"),
    ],
)
def test_an_outline_steps_over_the_counts(arrivals: tuple[int, ...], path: str) -> None:
    assert outline(arrivals) == path


@given(st.lists(st.integers(0, 10**9), max_size=80))
def test_an_outline_stays_in_its_box(arrivals: list[int]) -> None:
    path = outline(arrivals).removeprefix("M0 24").removesuffix("z")

    for step in path.replace("H", " H").replace("V", " V").split():
        limit = len(arrivals) if step[0] == "H" else SPARK_HEIGHT
        assert 0 <= int(step[1:]) <= limit


def test_the_table_has_the_coloured_groups_and_the_others_and_no_empty_bucket() -> None:
    others = ((1, 0, 2), (1, 0, 3))
    coloured = ((7, 0, 0),) * COLOURS

    first, last = arrivals_table(three_buckets(*coloured, *others))

    assert (first["counts"], first["others"], first["total"]) == ([7] * 6, 2, 44)
    assert last == {"start": "2025-11-20 12:30", "counts": [0] * 6, "others": 5, "total": 5}


def test_groups_without_times_have_no_bar() -> None:
    assert chart_data(three_buckets((1, 2, 3), ()))["arrivals"] == [[1, 2, 3], [0, 0, 0]]


@given(st.sampled_from([1.0, 5.0, 30.0, 60.0, 3_600.0]))
def test_no_two_buckets_have_the_same_name(seconds: float) -> None:
    starts = tuple(ANALYZED_AT + timedelta(seconds=seconds * n) for n in range(60))
    group = a_group(arrivals=(1,) * 60)

    rows = arrivals_table(some_findings(group, bucket_starts=starts, bucket_seconds=seconds))

    assert len({row["start"] for row in rows}) == 60
