"""The rows of a fleet's status: which queues are DLQs, order, sums; and figures that are kept."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dlq.aws.clients import DescribedQueue
from dlq.stack.fleet_rows import (
    EXPIRY,
    LIMIT,
    NEW_GROUPS,
    OLDEST,
    PENDING,
    FleetRow,
    figure_key,
    fleet_row,
    ordered,
    sources_by_dlq,
)
from dlq.stack.user_files import keep_figures, kept_figures
from dlq_replay.replaying.measures import Metric

NOW = 1_763_000_000
DAY = 86_400
REPLAYED = Metric.REPLAYED
FAILED = Metric.FAILED


def dlq_of(waiting: int = 0, delayed: int = 0, hidden: int = 0) -> DescribedQueue:
    counts = {
        "ApproximateNumberOfMessages": str(waiting),
        "ApproximateNumberOfMessagesDelayed": str(delayed),
        "ApproximateNumberOfMessagesNotVisible": str(hidden),
    }
    arn = "arn:aws:sqs:eu-west-1:123456789012:d"
    retention = {"MessageRetentionPeriod": str(14 * DAY)}
    return DescribedQueue("https://q/123456789012/d", {"QueueArn": arn, **retention, **counts})


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        pytest.param({}, {}, id="no member"),
        pytest.param({"a": "d", "b": "d", "d": ""}, {"d": ["a", "b"]}, id="two main queues"),
        pytest.param({"a": "d", "d": "parked"}, {"d": ["a"]}, id="a parked queue is no member"),
        pytest.param({"a": "d", "d": "e", "e": ""}, {"d": ["a"], "e": ["d"]}, id="a chain"),
        pytest.param({"d": "", "e": "parked"}, {"d": [], "e": []}, id="their sources lack the tag"),
        pytest.param({"a": "d"}, {"a": []}, id="its DLQ lacks the tag"),
        pytest.param({"a": "a"}, {"a": ["a"]}, id="its own DLQ"),
    ],
)
def test_a_member_is_a_dlq_by_the_redrive_policies_of_members(
    targets: dict[str, str], expected: Mapping[str, list[str]]
) -> None:
    assert sources_by_dlq(targets) == expected


def test_numbers_of_sources_are_added() -> None:
    figures = {
        figure_key(OLDEST, "d"): 90,
        figure_key(EXPIRY, "a"): 9 * DAY,
        figure_key(EXPIRY, "b"): 3 * DAY,
        figure_key(REPLAYED, "a"): 3,
        figure_key(REPLAYED, "b"): 4,
        figure_key(FAILED, "a"): 1,
        figure_key(FAILED, "b"): 0,
        figure_key(LIMIT, "a"): None,
        figure_key(LIMIT, "b"): 20,
        figure_key(PENDING, "a"): 5,
        figure_key(PENDING, "b"): 0,
        figure_key(PENDING, "d"): 2,
        figure_key(NEW_GROUPS, "a"): 1,
        figure_key(NEW_GROUPS, "b"): 1,
        figure_key(NEW_GROUPS, "d"): 0,
        figure_key(REPLAYED, "another"): 1000,
    }

    assert fleet_row(dlq_of(7, delayed=2, hidden=1), ["a", "b"], figures) == FleetRow(
        queue="d",
        sources=["a", "b"],
        waiting=7,
        held=3,
        limit=20,
        oldest_seconds=90,
        expires_seconds=3 * DAY,
        retention_seconds=14 * DAY,
        replayed=7,
        failed=1,
        new_groups=2,
        pending=7,
        need="expiry",
    )


def test_a_sum_is_not_known_if_a_part_is_not() -> None:
    figures = {figure_key(REPLAYED, "a"): 3, figure_key(FAILED, "a"): 0}

    row = fleet_row(dlq_of(), ["a", "b"], figures)

    assert (row.replayed, row.failed, row.new_groups, row.pending) == (None, None, None, None)
    assert (row.limit, row.oldest_seconds, row.need) == (None, None, "")


def test_an_empty_dlq_has_nothing_that_expires() -> None:
    """What the function saw in the last hour has left it since."""
    row = fleet_row(dlq_of(), ["a"], {figure_key(EXPIRY, "a"): 60})
    assert (row.expires_seconds, row.need) == (None, "")


QUIET = FleetRow("quiet", ["a"], 0, 0, None, None, None, 10 * DAY, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("changes", "need"),
    [
        ({"oldest_seconds": 5 * DAY, "failed": 9}, "expiry"),
        ({"oldest_seconds": 5 * DAY - 1}, ""),
        ({"sources": [], "held": 1, "failed": 9}, "tags"),
        ({"sources": []}, ""),
        ({"failed": 1, "limit": 1}, "failures"),
        ({"limit": 1, "new_groups": 1}, "limit"),
        ({"new_groups": 1, "pending": 9}, "new groups"),
        ({"pending": 1, "waiting": 9}, "pending"),
        ({"waiting": 1, "held": 1}, "waiting"),
        ({"held": 1, "replayed": 9}, ""),
    ],
)
def test_the_need_is_the_most_urgent_one(changes: dict[str, Any], need: str) -> None:
    names = {
        "limit": LIMIT,
        "oldest_seconds": OLDEST,
        "replayed": REPLAYED,
        "failed": FAILED,
        "new_groups": NEW_GROUPS,
        "pending": PENDING,
    }
    figures = {}
    for field, name in names.items():
        for queue in ("a", "d"):
            figures[figure_key(name, queue)] = changes.get(field, 0)
    figures[figure_key(PENDING, "d")] = 0
    figures[figure_key(NEW_GROUPS, "d")] = 0
    dlq = dlq_of(changes.get("waiting", 0), changes.get("held", 0))
    dlq = replace(dlq, attributes={**dlq.attributes, "MessageRetentionPeriod": str(10 * DAY)})

    assert fleet_row(dlq, changes.get("sources", ["a"]), figures).need == need


def test_rows_come_by_urgency_then_by_amount_then_by_name() -> None:
    rows = [
        replace(QUIET, queue="waits", waiting=500),
        replace(QUIET, queue="b"),
        replace(QUIET, queue="a"),
        replace(QUIET, queue="fails more", failed=9),
        replace(QUIET, queue="limited more", limit=1),
        replace(QUIET, queue="limited", limit=60),
        replace(QUIET, queue="fails", failed=1, waiting=1000),
        replace(QUIET, queue="expires", oldest_seconds=6 * DAY),
        replace(QUIET, queue="is new", new_groups=2),
    ]

    assert [row.queue for row in ordered(rows)] == [
        "expires",
        "fails more",
        "fails",
        "limited more",
        "limited",
        "is new",
        "waits",
        "a",
        "b",
    ]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path)}


def test_figures_are_kept_for_a_minute_and_for_one_fleet(environment: dict[str, str]) -> None:
    keep_figures(environment, "fleet", NOW, {"Replayed a": 3, "age d": None})

    stored = (NOW, {"Replayed a": 3, "age d": None})
    assert kept_figures(environment, "fleet", NOW) == stored
    assert kept_figures(environment, "fleet", NOW + 59) == stored
    assert kept_figures(environment, "fleet", NOW + 60) == (NOW + 60, {})
    assert kept_figures(environment, "other", NOW) == (NOW, {})


def test_figures_from_the_future_do_not_count(environment: dict[str, str]) -> None:
    keep_figures(environment, "fleet", NOW + 1, {"Replayed a": 3})

    assert kept_figures(environment, "fleet", NOW) == (NOW, {})


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"version": 2, "at": NOW, "figures": {}}',
        '{"version": 1, "at": "NOW", "figures": {}}',
        '{"version": 1, "at": NaN, "figures": {}}',
        '{"version": 1, "at": NOW, "figures": "all"}',
        '{"version": 1, "at": NOW, "figures": {"a": "many"}}',
        '{"version": 1, "at": NOW, "figures": {"a": 1e999}}',
        '{"version": 1, "at": NOW}',
    ],
)
def test_a_broken_file_of_figures_is_ignored_and_replaced(
    environment: dict[str, str], tmp_path: Path, content: str
) -> None:
    keep_figures(environment, "fleet", NOW, {"a": 1})
    [file] = (tmp_path / "dlq").glob("fleet-*.json")
    assert json.loads(file.read_text("utf-8"))["at"] == NOW
    file.write_text(content.replace("NOW", str(NOW)), "utf-8")

    assert kept_figures(environment, "fleet", NOW) == (NOW, {})

    keep_figures(environment, "fleet", NOW, {"a": 2})
    assert kept_figures(environment, "fleet", NOW) == (NOW, {"a": 2})


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path: Path) -> None:
    (tmp_path / "dlq").write_text("a file", "utf-8")
    environment = {"XDG_CACHE_HOME": str(tmp_path)}

    keep_figures(environment, "fleet", NOW, {"a": 1})

    assert kept_figures(environment, "fleet", NOW) == (NOW, {})
