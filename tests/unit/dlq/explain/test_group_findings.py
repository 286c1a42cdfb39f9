"""A group put together from what was counted and read."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq.explain.findings import Difference, GroupFinding, Sample, Spread, Synonym
from dlq.explain.group_findings import (
    MOST_BUCKETS,
    buckets_between,
    group_findings,
    trend_of,
)
from dlq.explain.triage import GroupMemory, GroupState, SeenGroup, Status
from tests.support.findings_builder import a_difference

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
EARLY = NOW - timedelta(hours=3)
LATE = NOW - timedelta(hours=1)
BUCKETS = range(0, 180, 60)
MEMORY = GroupMemory(
    {"g-1": SeenGroup("g-1", EARLY, NOW, "r-1", 30, LATE, Status.RESOLVED)},
    {"g-1": GroupState(action="redrive", resolved_at=LATE)},
)

ROW: dict[str, Any] = {
    "group_id": "g-1",
    "count": 30,
    "first_parked_at": EARLY,
    "last_parked_at": LATE,
    "body_bytes": [10.0, 12.0, 50.0, 700.0, 900.0],
    "failed_at": [EARLY.timestamp() + 60 * minutes for minutes in (0, 10, 60, 119, 120)],
    "shown": ["m-3", "m-1", "m-gone"],
    "note": "why",
    "queue": "orders",
}
TALLIES = [
    ("reason", "too_old", 10),
    ("reason", "attempts_exhausted", 20),
    ("source", "arn:b", 15),
    ("source", "arn:a", 15),
    ("source", None, 0),
    ("replay_count", "12", 4),
    ("replay_count", "2", 20),
    ("replay_count", None, 6),
    ("bucket", "0", 5),
    ("bucket", "2", 20),
    ("bucket", "7", 1),
    ("bucket", None, 4),
]


def sample_row(message_id: str, **changes: Any) -> dict[str, Any]:
    row = {
        "group_id": "g-1",
        "title": "TimeoutError",
        "message_id": message_id,
        "sent_at": EARLY,
        "body": f"body of {message_id}",
        "attributes": [("tenant", "acme")],
        "logged": None,
    }
    return {**row, **changes}


def finding_of(
    *differences: Difference, samples: tuple[dict[str, Any], ...] = (), **changes: Any
) -> GroupFinding:
    tallies = [{"group_id": "g-2", "column": "reason", "value": "x", "count": 99}]
    for column, value, count in TALLIES:
        tallies.append({"group_id": "g-1", "column": column, "value": value, "count": count})

    (finding,) = group_findings(
        [{**ROW, **changes}],
        tallies,
        samples,
        {"g-1": differences} if differences else {},
        buckets=BUCKETS,
        now=NOW,
        memory=MEMORY,
    )
    return finding


def test_a_group_has_its_own_counts_sorted_and_what_is_remembered_of_it() -> None:
    group = finding_of()

    assert (group.count, group.share) == (30, 1.0)
    assert (group.first_parked_at, group.last_parked_at) == (EARLY, LATE)
    assert list(group.reasons.items()) == [("attempts_exhausted", 20), ("too_old", 10)]
    assert list(group.sources.items()) == [("arn:a", 15), ("arn:b", 15)]
    counts = [(tally.replay_count, tally.messages) for tally in group.replay_counts]
    assert counts == [(None, 6), (2, 20), (12, 4)]
    assert (group.status, group.first_seen_at, group.note) == ("resolved", EARLY, "why")
    assert group.queue == "orders"
    assert (group.resolved_at, group.last_action) == (LATE, "redrive")
    assert group.arrivals == (5, 0, 20), "of the buckets that there are"
    assert group.title == "g-1", "as nothing of it is shown"
    hour = 3600.0
    assert group.body_bytes == Spread(10.0, 50.0, 700.0, 900.0)
    assert group.age_seconds == Spread(hour, 2 * hour, 3 * hour - 600, 3 * hour)


def test_an_age_is_never_negative_and_unknown_where_no_time_is_known() -> None:
    ahead = (NOW + timedelta(minutes=5)).timestamp()

    assert finding_of(failed_at=[ahead] * 5).age_seconds.least == 0
    assert finding_of(failed_at=None).age_seconds == Spread(None, None, None, None)


def test_samples_come_in_the_order_in_which_they_were_chosen() -> None:
    group = finding_of(
        samples=(sample_row("m-1"), sample_row("m-3", sent_at=None, attributes=None, logged="here"))
    )

    assert group.title == "TimeoutError"
    assert group.samples == (
        Sample("m-3", None, "body of m-3", logged="here"),
        Sample("m-1", EARLY, "body of m-1", {"tenant": "acme"}),
    )


def test_a_message_whose_body_must_not_be_shown_gives_the_title_only() -> None:
    group = finding_of(samples=(sample_row("m-1", body=None),))

    assert (group.title, group.samples) == ("TimeoutError", ())


def test_differences_stay_in_their_order_with_what_holds_for_the_same_messages() -> None:
    first = a_difference("body.n", "1", synonyms=(Synonym("body.account.id", "17"),))
    second = a_difference("body.n", "(missing)", compared_with="others like these")

    assert finding_of(first, second).differences == (first, second)


MOMENTS = st.integers(86_400, 4_000_000_000).map(
    lambda seconds: datetime.fromtimestamp(seconds, UTC)
)


@given(MOMENTS, st.timedeltas(timedelta(), timedelta(days=36_000)))
def test_buckets_cover_all_of_the_time_and_are_few(first: datetime, length: timedelta) -> None:
    last = first + length

    buckets = buckets_between(first, last)

    assert 1 <= len(buckets) <= MOST_BUCKETS
    assert buckets[0] <= first.timestamp()
    assert last.timestamp() < buckets[-1] + buckets.step
    assert all(start % buckets.step == 0 for start in buckets)


@pytest.mark.parametrize(
    ("length", "width_seconds"),
    [
        (timedelta(seconds=30), 1),
        (timedelta(minutes=40), 60),
        (timedelta(hours=20), 1800),
        (timedelta(days=14), 6 * 3600),
    ],
)
def test_buckets_are_as_wide_as_people_think(length: timedelta, width_seconds: int) -> None:
    first = datetime(2026, 11, 21, 3, 7, 12, tzinfo=UTC)

    assert buckets_between(first, first + length).step == width_seconds


def test_no_time_has_no_buckets() -> None:
    assert len(buckets_between(None, None)) == 0


@pytest.mark.parametrize(
    ("arrivals", "trend"),
    [
        ((), ""),
        ((9, 0, 0, 0), ""),
        ((5, 5, 5), ""),
        ((20, 20, 0, 0, 0, 0, 0, 0), "ended"),
        ((1, 2, 20, 40), "rising"),
        ((40, 20, 2, 1), "falling"),
        ((10, 10, 10, 10), "steady"),
        ((4, 4, 6, 6), "steady"),
        ((100, 100, 140, 140), "steady"),
        ((6, 6, 4, 4), "steady"),
        ((140, 140, 100, 100), "steady"),
    ],
)
def test_a_trend_is_a_word_where_enough_is_known(arrivals: tuple[int, ...], trend: str) -> None:
    assert trend_of(arrivals) == trend
