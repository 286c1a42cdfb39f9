"""The rules about ids give what the frames of Spark give, over random archives and plans.

``RANDOM_PLANS`` says how many plans are compared, 200 unless it is set, and ``RANDOM_SEED`` which.
"""

import os
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from spark_reprocess.archive.messages import message_order as frames
from spark_reprocess.archive.messages.frames import Held
from spark_reprocess.redrive import ramp
from spark_reprocess.redrive.ids import chunks, counts, dispositions, limit, order, steps
from spark_reprocess.redrive.ids.columns import DESTINATION, DETAIL, DISPOSITION, PARKED_QUEUE
from spark_reprocess.redrive.ids.origins import Queues, with_origins
from spark_reprocess.redrive.ids.room import with_room
from spark_reprocess.redrive.ramp import Ramp
from spark_reprocess.redrive.redrive_values import EXAMPLES, Tally
from spark_reprocess.redrive.resolving import dispositions as in_spark
from spark_reprocess.redrive.resolving.queues import Queues as QueuesInSpark
from spark_reprocess.redrive.resolving.resolve import _hindered
from tests.integration.spark_world import Spark
from tests.support.builders import queue_url
from tests.support.random_plans import RandomPlans, random_plans

PLANS = int(os.environ.get("RANDOM_PLANS", "200"))
SEED = int(os.environ.get("RANDOM_SEED", "1"))
AT_ONCE = 250
MAX_MESSAGE_BYTES = 2800
COMPARED = ("message_id", DISPOSITION, DETAIL, DESTINATION)

Settings = dict[str, Any]


def random_settings(random: Random) -> Settings:
    is_fifo = random.random() < 0.7
    main = "main.fifo" if is_fifo else "main"
    sources = {"invoices": queue_url("invoices")} if random.random() < 0.5 else {}
    return {
        "queues": {
            "destination": queue_url(main),
            "parked": random.choice([None, queue_url("parked"), queue_url("parked")]),
            "is_named": random.random() < 0.3,
            "sources": sources,
            "dead_letter_queue": random.choice([None, "dlq"]),
            "is_shared": random.random() < 0.5,
            "includes_foreign": random.random() < 0.2,
        },
        "is_fifo": is_fifo,
        "keeps_order": is_fifo and random.random() < 0.85,
        "is_restore": random.random() < 0.2,
        "in_doubt": random.choice(["leave", "send"]),
        "requires_room": random.random() < 0.5,
        "limit": random.choice([None, 1, 10, 100, 1000]),
        "wanted": random.randint(1, 4),
    }


def by_frames(spark: Spark, plans: RandomPlans, settings: Settings) -> pa.Table:
    rows = spark.createDataFrame(plans.rows).withColumns(
        {
            "has_room": in_spark.has_room(MAX_MESSAGE_BYTES),
            PARKED_QUEUE: frames.parked_queue(),
            "file": F.lit(""),
        }
    )
    found = in_spark.with_dispositions(
        rows.drop("attributes", "body_bytes", "queue_url"),
        spark.createDataFrame(plans.states),
        None if settings["is_restore"] else plans.actions,
        QueuesInSpark(**settings["queues"]),
        in_doubt=settings["in_doubt"],
        requires_room=settings["requires_room"],
        stopped=plans.stopped,
    )
    if settings["keeps_order"]:
        elsewhere = spark.createDataFrame(plans.elsewhere)
        pending = elsewhere.select(*frames.ORDER_COLUMNS, frames.parked_queue().alias(PARKED_QUEUE))
        found = frames.with_waiting(frames.keep_groups_whole(found), pending)
    return found.toArrow()


def by_rules(plans: RandomPlans, settings: Settings) -> pa.Table:
    queues = Queues(**settings["queues"])
    rows = with_room(with_origins(plans.rows, queues), MAX_MESSAGE_BYTES)
    found = dispositions.with_dispositions(
        dispositions.with_states(rows, plans.states),
        None if settings["is_restore"] else plans.actions,
        to_fifo=queues.is_fifo,
        in_doubt=settings["in_doubt"],
        requires_room=settings["requires_room"],
        stopped=plans.stopped,
    )
    if settings["keeps_order"]:
        elsewhere = with_origins(plans.elsewhere, queues)
        found = order.with_waiting(order.keep_groups_whole(found), elsewhere)
    return found


def compared(rows: pa.Table, columns: tuple[str, ...] = COMPARED) -> list[tuple[Any, ...]]:
    return sorted(
        (tuple(row[name] for name in columns) for row in rows.select(list(columns)).to_pylist()),
        key=repr,
    )


def sent_before(rows: pa.Table) -> Any:
    return rows.filter(pa.compute.equal(rows[DISPOSITION].cast(pa.string()), "sent_before"))


@pytest.mark.parametrize("number", range(-(-PLANS // AT_ONCE)))
def test_both_engines_agree(spark: Spark, number: int) -> None:
    random = Random(f"{SEED}-{number}")
    plans = random_plans(random.randrange(10**9), min(PLANS, AT_ONCE))
    settings = random_settings(random)

    old = by_frames(spark, plans, settings)
    new = by_rules(plans, settings)
    assert compared(new) == compared(old), settings

    old_chunks = in_spark.with_chunks(Held(old), 7)
    new_chunks = chunks.with_chunks(new, 7)
    places = (*COMPARED, "unit", "chunk", "position")
    assert compared(new_chunks, places) == compared(old_chunks.rows, places)

    if (most := settings["limit"]) is not None:
        to_fifo = settings["is_fifo"]
        old_chunks = Held(frames.limited(old_chunks.frame, most, to_fifo=to_fifo).toArrow())
        new_chunks = limit.limited(new_chunks, most, to_fifo=to_fifo)
        assert compared(new_chunks, places) == compared(old_chunks.rows, places)

    check_counts(old_chunks, new_chunks)
    check_steps(old_chunks, new_chunks, plans, settings, random)


def check_counts(old: Held, new: pa.Table) -> None:
    columns = ("group_id", DISPOSITION, DESTINATION)
    counted = old.counts(*columns)
    assert sorted(map(repr, counts.counted_by(new, *columns))) == sorted(map(repr, counted))
    tallies = [
        Tally("", row[DISPOSITION], row["count"]) for row in counts.counted_by(new, DISPOSITION)
    ]
    hindered = [(one.word, one.detail, one.count, one.examples) for one in _hindered(old, tallies)]
    assert [
        (cause.disposition, cause.detail, cause.count, cause.examples)
        for cause in counts.causes_of_problems(new, EXAMPLES)
    ] == hindered


def check_steps(
    old: Held, new: pa.Table, plans: RandomPlans, settings: Settings, random: Random
) -> None:
    """Two steps, the second one behind the first, whose groups may return."""
    in_order = settings["keeps_order"]
    units = 3 if settings["is_fifo"] else None
    wanted = dict.fromkeys(plans.actions, settings["wanted"])
    nobody = pa.array([], pa.string())
    before = sent_before(new)["message_id"].to_pylist()
    returning = pa.array([one for one in before if random.random() < 0.3], pa.string())

    first = steps.drawn_step(new, wanted, nobody, returning, in_order=in_order, units=units)
    assert compared(first, steps.STEP_COLUMNS) == compared(
        drawn_by_frames(old, wanted, None, returning, in_order, units), steps.STEP_COLUMNS
    )

    second = steps.drawn_step(
        *(new, wanted, first["message_id"], returning), in_order=in_order, units=units
    )
    assert compared(second, steps.STEP_COLUMNS) == compared(
        drawn_by_frames(old, wanted, first, returning, in_order, units), steps.STEP_COLUMNS
    )


def drawn_by_frames(
    held: Held,
    wanted: dict[str, int],
    taken: pa.Table | None,
    returning: Any,
    in_order: bool,
    units: int | None,
) -> pa.Table:
    """As ``Ramp`` draws."""
    frame = held.frame
    spark = frame.sparkSession

    class Drawing(Ramp):
        def __init__(self) -> None:
            self.rows = frame
            self._taken = [] if taken is None else [spark.createDataFrame(taken)]

        def _held_groups(self) -> list[str]:
            return ["held"] if in_order and len(returning) else []

        def _sent_of(self, group_ids: Any) -> Any:
            ids = spark.createDataFrame(pa.table({"message_id": returning}))
            return frame.join(ids, "message_id")

        @property
        def _in_order(self) -> bool:
            return in_order

    drawing = Drawing()
    drawing.context = SimpleNamespace(to_fifo=units is not None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ramp, "in_order_units", lambda _: units)
        return drawing._drawn(wanted).toArrow()  # noqa: SLF001 - what is compared
