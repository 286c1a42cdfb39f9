"""Where a message may go, by what the archive says of where it came from."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from dlq.archive.messages.dead_letter_schema import ARROW_SCHEMA
from dlq.ids.columns import (
    BLOCKER,
    BLOCKER_DETAIL,
    DESTINATION,
    PARKED_QUEUE,
    SOURCE,
)
from dlq.ids.origins import (
    ORIGIN_COLUMNS,
    Origin,
    Queues,
    parked_queue_of,
    with_origins,
)
from tests.support.builders import queue_arn, queue_url

NOW = datetime(2026, 11, 22, tzinfo=UTC)
EVERY_ROW = list(
    product(
        (queue_url("parked"), queue_url("other-parked"), None),
        (None, "main", "invoices"),
        (None, queue_arn("dlq"), queue_arn("main"), queue_arn("invoices")),
        (None, "foreign_source", "attempts_exhausted"),
        (None, NOW),
        (None, "p-1"),
    )
)
"""Every combination of what an archive can say of a message's origin."""

NAMES = ("queue_url", "source_queue", "source_arn", "parked_reason", "first_seen_at", "plan_id")


def routes(queues: Queues) -> list[dict[str, Any]]:
    columns = dict(zip(NAMES, zip(*EVERY_ROW, strict=True), strict=True))
    types = {name: ARROW_SCHEMA.field(name).type for name in ORIGIN_COLUMNS}
    rows = pa.table({name: pa.array(columns[name], types[name]) for name in ORIGIN_COLUMNS})
    rows = rows.append_column("message_group_id", pa.nulls(rows.num_rows, pa.string()))
    return with_origins(rows, queues).to_pylist()


def destination_of(queues: Queues, row: tuple[Any, ...]) -> str | None:
    """The rule of docs/redrive.md, in plain Python; None where the message must not be sent."""
    url, source, arn, reason, first_seen, plan_id = row
    if url != queue_url("parked"):
        return None
    has_record = (reason, first_seen, plan_id) != (None, None, None)
    if source is None and not has_record and arn not in (None, queue_arn("dlq")):
        source = arn.rpartition(":")[2]
    if source is not None:
        return queue_url("main") if source == "main" else queues.sources.get(source)
    is_ours = reason != "foreign_source" if has_record else not queues.is_shared
    return queue_url("main") if is_ours else None


@pytest.mark.parametrize("sources", [{}, {"invoices": queue_url("invoices")}])
@pytest.mark.parametrize("is_shared", [True, False])
def test_no_message_goes_where_it_did_not_come_from(
    sources: dict[str, str], *, is_shared: bool
) -> None:
    queues = Queues(
        queue_url("main"),
        (queue_url("parked"),),
        is_named=False,
        sources=sources,
        dead_letter_queues={"main": "dlq"},
        is_shared=is_shared,
    )

    for row, route in zip(EVERY_ROW, routes(queues), strict=True):
        blocker = route[BLOCKER]
        assert route[DESTINATION] == destination_of(queues, row), row
        assert (blocker is None) == (route[DESTINATION] is not None)
        is_named = blocker in ("other_parked_queue", "foreign_source")
        assert (route[BLOCKER_DETAIL] is not None) == is_named


FLEET = Queues(
    destination="",
    parked=(queue_url("parked"), queue_url("other-parked")),
    is_named=False,
    sources={"main": queue_url("main")},
    dead_letter_queues={"main": "dlq"},
    is_shared=True,
)


def test_a_message_of_a_fleet_goes_to_its_source_if_nothing_speaks_against_it() -> None:
    for row, route in zip(EVERY_ROW, routes(FLEET), strict=True):
        url, source, arn, reason, first_seen, plan_id = row
        has_record = (reason, first_seen, plan_id) != (None, None, None)
        if source is None and not has_record and arn != queue_arn("dlq"):
            source = arn and arn.rpartition(":")[2]
        goes = url is not None and source == "main" and arn in (None, *OF_MAIN)
        assert route[DESTINATION] == (queue_url("main") if goes else None), row
        assert (route[BLOCKER] is None) == goes
        if route[BLOCKER] == "unknown_source":
            assert source is None
        # What stays of an unknown source may be of each.
        assert route[SOURCE] == source


OF_MAIN = (queue_arn("main"), queue_arn("dlq"))


def test_a_message_of_a_fleet_never_goes_to_a_queue_of_the_other_kind() -> None:
    queues = replace(FLEET, sources={"main": queue_url("main"), "x.fifo": queue_url("x.fifo")})
    origin = Origin("123456789012/parked", "x.fifo", None, has_context=True, was_foreign=False)

    assert queues.route_of(origin).blocker == "foreign_source"


def test_of_one_source_alone_everything_else_is_not_selected() -> None:
    queues = replace(FLEET, only_source="main")

    for before, after in zip(routes(FLEET), routes(queues), strict=True):
        is_of_main = before[SOURCE] == "main" or before[BLOCKER] == "other_parked_queue"
        assert after[BLOCKER] == (before[BLOCKER] if is_of_main else "not_selected")


def test_a_named_destination_takes_all_but_what_was_or_may_have_been_foreign() -> None:
    named = Queues(
        queue_url("main"),
        (queue_url("parked"),),
        dead_letter_queues={"main": "dlq"},
        is_shared=True,
    )

    for row, route in zip(EVERY_ROW, routes(named), strict=True):
        url, source, _, reason, _, _ = row
        if url == queue_url("parked"):
            was_foreign = reason == "foreign_source" and source != "main"
            assert (route[BLOCKER] == "foreign_source") == was_foreign, row


def test_foreign_messages_go_where_the_operator_says_so() -> None:
    queues = Queues(queue_url("main"), (queue_url("parked"),), includes_foreign=True)

    for row, route in zip(EVERY_ROW, routes(queues), strict=True):
        is_ours = row[0] == queue_url("parked")
        assert route[DESTINATION] == (queue_url("main") if is_ours else None)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        (queue_url("parked"), "123456789012/parked"),
        (queue_url("parked") + "/", "123456789012/parked"),
        ("http://localhost:4566/queue/us-east-1/000000000000/parked", "000000000000/parked"),
        (None, None),
    ],
)
def test_a_parked_queue_is_named_by_account_and_name(url: str | None, name: str | None) -> None:
    assert parked_queue_of(url) == name
    fields = {name: pa.array([None], ARROW_SCHEMA.field(name).type) for name in ORIGIN_COLUMNS}
    of_group = pa.array(["g"], pa.string())
    urls = pa.array([url], pa.string())
    rows = pa.table({**fields, "queue_url": urls, "message_group_id": of_group})
    assert with_origins(rows, Queues(queue_url("main")))[PARKED_QUEUE].to_pylist() == [name]
