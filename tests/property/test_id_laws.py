"""Laws of the rules about ids, over random archives and plans."""

from collections import Counter, defaultdict
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from dlq.archive.ledger.disposition import WORK, Disposition
from dlq.ids.columns import (
    DESTINATION,
    DETAIL,
    DISPOSITION,
    PARKED_QUEUE,
    SOURCE,
    texts_of,
    with_column,
)
from dlq.ids.dispositions import with_dispositions, with_states
from dlq.ids.limit import limited
from dlq.ids.order import keep_groups_whole, with_chunks, with_waiting
from dlq.ids.origins import Queues, with_origins
from dlq.ids.room import with_room
from dlq.ids.steps import drawn_step
from tests.support.builders import queue_url
from tests.support.id_rows import dispositions_in
from tests.support.random_plans import RandomPlans, random_plans

QUEUES = Queues(
    queue_url("main.fifo"),
    (queue_url("parked"),),
    is_named=False,
    dead_letter_queues={"main.fifo": "dlq"},
)
SEEDS = st.integers(0, 2**32)
NOBODY = pa.array([], pa.string())


def resolved(plans: RandomPlans, *, keeps_order: bool = True, queues: Queues = QUEUES) -> pa.Table:
    rows = with_room(with_origins(plans.rows, queues), 2800)
    rows = with_dispositions(
        with_states(rows, plans.states),
        plans.actions,
        unconfirmed="leave",
        requires_room=True,
        halted=plans.halted,
    )
    if not keeps_order:
        return rows
    return with_waiting(keep_groups_whole(rows), with_origins(plans.elsewhere, queues))


def order_of(row: dict[str, Any]) -> tuple[Any, ...]:
    number = row["sequence_number"]
    digits = -1 if number is None else len(number)
    return digits, number or "", row["sent_at"], row["message_id"]


def lanes(*tables: pa.Table) -> list[list[dict[str, Any]]]:
    """The messages of each message group of each parked queue, as SQS received them."""
    by_lane = defaultdict[Any, list[dict[str, Any]]](list)
    for table in tables:
        for row in table.to_pylist():
            if row["message_group_id"] is not None:
                by_lane[row[PARKED_QUEUE], row["message_group_id"]].append(row)
    return [sorted(lane, key=order_of) for lane in by_lane.values()]


@given(SEEDS)
def test_no_message_passes_one_of_its_message_group_that_stays(seed: int) -> None:
    plans = random_plans(seed, 5)
    elsewhere = with_origins(plans.elsewhere, QUEUES)

    for lane in lanes(resolved(plans), elsewhere):
        first_that_stays = None
        for row in lane:
            disposition = row.get(DISPOSITION)
            if first_that_stays is not None:
                assert disposition != "send"
                if disposition == "waits":
                    assert row[DETAIL] == first_that_stays
            elif disposition is None or Disposition(disposition).blocks_group:
                assert disposition != "waits"
                first_that_stays = row["message_id"]


FLEET = Queues(
    destination="",
    parked=(queue_url("parked.fifo"), queue_url("other-parked.fifo")),
    is_named=False,
    sources={name: queue_url(name) for name in ("main.fifo", "invoices.fifo")},
    is_shared=True,
)


@given(SEEDS)
def test_in_a_fleet_order_is_that_of_each_source_and_what_has_none_may_be_of_each(
    seed: int,
) -> None:
    """The same archives, with FIFO queues alone."""
    plans = random_plans(seed, 5)
    plans = replace(plans, rows=_in_fifo(plans.rows), elsewhere=_in_fifo(plans.elsewhere))

    rows = resolved(plans, queues=FLEET)
    for message_group in lanes(rows, with_origins(plans.elsewhere, FLEET)):
        stay: list[tuple[str, str | None]] = []
        for row in message_group:
            disposition = row.get(DISPOSITION)
            blocking = [name for name, source in stay if source in (None, row[SOURCE])]
            if disposition == "waits":
                assert row[DETAIL] in blocking
            elif disposition == "send":
                assert blocking == []
                assert row[DESTINATION] == queue_url(row[SOURCE])
            if disposition is None or Disposition(disposition).blocks_group:
                stay.append((row["message_id"], row[SOURCE]))


def _in_fifo(rows: pa.Table) -> pa.Table:
    for column in ("queue_url", "source_queue"):
        names = rows[column].to_pylist()
        in_fifo = [name and f"{name.rstrip('/').removesuffix('.fifo')}.fifo" for name in names]
        rows = with_column(rows, column, pa.array(in_fifo, pa.string()))
    return with_column(rows, "source_arn", pa.nulls(rows.num_rows, pa.string()))


@given(SEEDS, st.booleans())
def test_each_message_has_one_disposition_and_a_destination_if_it_goes(
    seed: int, keeps_order: bool
) -> None:
    plans = random_plans(seed, 5)

    rows = resolved(plans, keeps_order=keeps_order)

    assert rows["message_id"].to_pylist() == plans.rows["message_id"].to_pylist()
    for row in rows.to_pylist():
        assert Disposition(row[DISPOSITION])
        if row[DISPOSITION] in WORK:
            assert row[DESTINATION] == QUEUES.destination
            assert row[PARKED_QUEUE] == "123456789012/parked"
            assert row["group_id"] not in plans.halted or row[DISPOSITION] != "send"


@given(SEEDS, st.integers(1, 30))
def test_a_limit_is_never_exceeded_and_divides_no_message_group(seed: int, limit: int) -> None:
    before = with_chunks(resolved(random_plans(seed, 5)), 3)

    after = limited(before, limit)

    old = dispositions_in(before)
    new = dispositions_in(after)
    changed = {message_id for message_id in old if old[message_id] != new[message_id]}
    for message_id in changed:
        assert old[message_id] in WORK
        assert new[message_id] == "over_limit"
    assert sum(disposition in WORK for disposition in new.values()) <= limit
    of_groups = defaultdict[Any, set[bool]](set)
    for row in after.to_pylist():
        if old[row["message_id"]] in WORK and row["message_group_id"] is not None:
            of_groups[row["message_group_id"]].add(row["message_id"] in changed)
    assert all(len(are_over) == 1 for are_over in of_groups.values())


@settings(max_examples=50)
@given(SEEDS, st.integers(1, 4))
def test_steps_send_each_message_once_and_in_order(seed: int, most: int) -> None:
    plans = random_plans(seed, 5)
    rows = resolved(plans)
    wanted = dict.fromkeys(plans.actions, most)
    taken = list[str]()
    step_of = dict[str, int]()

    for number in count():
        ids = pa.array(taken, pa.string())
        step = drawn_step(rows, wanted, ids, NOBODY, in_order=True, units=2)
        if not step.num_rows:
            break
        drawn = texts_of(step["message_id"])
        assert not set(drawn) & set(taken)
        assert max(Counter(texts_of(step["group_id"])).values()) <= most
        taken += drawn
        step_of |= dict.fromkeys(drawn, number)

    dispositions = dispositions_in(rows)
    to_send = {message_id for message_id in dispositions if dispositions[message_id] == "send"}
    assert set(taken) == to_send
    for lane in lanes(rows):
        steps_of = [step_of[row["message_id"]] for row in lane if row["message_id"] in to_send]
        assert steps_of == sorted(steps_of)


def test_the_order_of_the_rows_does_not_matter() -> None:
    plans = random_plans(7, 40)
    expected = dispositions_in(resolved(plans))
    numbers = list(range(plans.rows.num_rows))
    Random(1).shuffle(numbers)

    shuffled = RandomPlans(
        plans.rows.take(numbers), plans.elsewhere, plans.states, plans.actions, plans.halted
    )

    assert dispositions_in(resolved(shuffled)) == expected
