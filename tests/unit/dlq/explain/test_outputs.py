"""Outputs of an analysis that programs read, and the comments in the plan."""

import io
import json
from dataclasses import fields

import pyarrow.parquet as pq
import pytest

from dlq.archive.storage.table_parts import parquet_bytes
from dlq.explain.findings import Difference, Findings, GroupFinding
from dlq.explain.outputs import (
    GROUPS_SCHEMA,
    groups_table,
    notice_json,
    plan_notes,
    read_findings,
    summary_json,
)
from tests.support.findings_builder import (
    a_difference,
    a_group,
    hostile_findings,
    many_findings,
    some_findings,
)
from tests.support.incident import incident_findings


def test_a_group_has_the_same_fields_everywhere() -> None:
    names = [field.name for field in fields(GroupFinding)]

    (group,) = json.loads(summary_json(some_findings(a_group())))["groups"]

    assert GROUPS_SCHEMA.names == names == list(group)
    assert list(group["differences"][0]) == [field.name for field in fields(Difference)]


def test_the_summary_says_everything_of_the_whole() -> None:
    summary = json.loads(summary_json(incident_findings()))

    names = {field.name for field in fields(Findings)}
    assert set(summary) == names | {"signature", "statuses"}
    assert summary["signature"] == "v1"
    assert summary["analyzed_at"] == "2025-11-20T10:30:00+00:00"


def test_a_notice_keeps_the_shares_of_a_long_difference() -> None:
    long = a_difference("body.note", "n" * 200, 0.9, 0.1)
    groups = [
        a_group(group_id="g-1", queue="orders", differences=(long, a_difference())),
        a_group(group_id="g-2", title="KeyError", differences=()),
    ]

    notice = json.loads(notice_json(some_findings(*groups), shows_values=True))

    predicate = f"body.note = {'n' * 87}…"
    assert notice == {
        "shows_values": True,
        "groups": {
            "g-1": {
                "title": "TimeoutError: no answer after <n> ms",
                "queue": "orders",
                "difference": f"{predicate}: 90% here, 10% of all others",
            },
            "g-2": {"title": "KeyError", "queue": "", "difference": ""},
        },
    }


def test_parquet_and_summary_hold_the_same_groups() -> None:
    findings = incident_findings()
    summary = json.loads(summary_json(findings))["groups"]

    table = pq.read_table(io.BytesIO(parquet_bytes(groups_table(findings))))

    assert table.schema.equals(GROUPS_SCHEMA)
    for row, group in zip(table.to_pylist(), summary, strict=True):
        names = ("group_id", "title", "count", "share", "arrivals", "trend", "differences")
        for name in (*names, "body_bytes", "age_seconds", "replay_counts"):
            assert row[name] == group[name]
        assert dict(row["reasons"]) == group["reasons"]
        assert dict(row["sources"]) == group["sources"]
        assert row["last_parked_at"].isoformat() == group["last_parked_at"]
        for row_sample, sample in zip(row["samples"], group["samples"], strict=True):
            assert dict(row_sample["attributes"]) == sample["attributes"]


def test_a_note_says_how_many_what_sets_them_apart_and_how_to_select_them() -> None:
    difference = a_difference(condition="get_json_object(body, '$.region') = 'eu'")
    group = a_group(
        count=30, trend="rising", differences=(difference, a_difference(field="second"))
    )

    notes = plan_notes(some_findings(group, a_group(group_id="g-2", count=10)))

    assert notes["g-0123456789"] == [
        "75% of 40 pending messages, rising",
        "difference: body.customer.region = eu-west-3: 97% here, 4.1% of all others",
        """--where 'get_json_object(body, '"'"'$.region'"'"') = '"'"'eu'"'"''""",
    ]


def test_without_a_trend_a_difference_or_a_condition_nothing_is_said_of_it() -> None:
    plain = a_group(trend="", differences=())
    masked = a_group(group_id="g-2", trend="", differences=(a_difference(condition=""),))

    notes = plan_notes(some_findings(plain, masked))

    assert notes["g-0123456789"] == ["50% of 20 pending messages"]
    assert [line.split(":")[0] for line in notes["g-2"]] == [
        "50% of 20 pending messages",
        "difference",
    ]


@pytest.mark.parametrize(
    "findings",
    [some_findings(), incident_findings(), many_findings(30), hostile_findings()],
    ids=["none", "incident", "many", "hostile"],
)
def test_a_summary_is_read_back_as_it_was_written(findings: Findings) -> None:
    assert read_findings(summary_json(findings).encode()) == findings


IRELAND = "arn:aws:sqs:eu-west-1:123456789012:"
VIRGINIA = "arn:aws:sqs:us-east-1:123456789012:"


@pytest.mark.parametrize(
    ("sources", "origin"),
    [
        ([{}], ""),
        ([{f"{IRELAND}orders": 3}], "orders"),
        ([{f"{IRELAND}orders": 3}, {f"{IRELAND}orders": 1}], "orders"),
        ([{f"{IRELAND}orders": 3, "orders": 2}], "orders"),
        ([{f"{IRELAND}orders": 1}, {f"{IRELAND}pay": 3}], "pay and 1 more queue"),
        (
            [{f"{IRELAND}orders": 1, f"{VIRGINIA}orders": 3}],
            "orders of us-east-1:123456789012 and 1 more queue",
        ),
    ],
)
def test_origin_names_the_queue_of_most_messages(
    sources: list[dict[str, int]], origin: str
) -> None:
    groups = [a_group(sources=of_group) for of_group in sources]

    assert some_findings(*groups).origin == origin
