"""Random archives and plans, as the rules about ids see them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from random import Random
from typing import Any

import pyarrow as pa

from dlq.archive.messages.dead_letter_schema import ARROW_SCHEMA
from dlq.ids.columns import EDIT_FAULT, SELECTED
from tests.support.builders import NOW, queue_arn, queue_url

Row = dict[str, Any]

_OF_ARCHIVE = (
    "message_id",
    "message_group_id",
    "sequence_number",
    "sent_at",
    "parked_reason",
    "source_queue",
    "source_arn",
    "first_seen_at",
    "plan_id",
    "queue_url",
    "attributes",
    "body_bytes",
)
_TYPES: dict[str, Any] = {
    **{name: ARROW_SCHEMA.field(name).type for name in _OF_ARCHIVE},
    "group_id": pa.string(),
    "unit": pa.string(),
    "position": pa.int64(),
    SELECTED: pa.bool_(),
    EDIT_FAULT: pa.string(),
}
ROWS = pa.schema(_TYPES)
STATES = pa.schema([("message_id", pa.string()), ("state", pa.string())])

_STATES = ("sent", "discarded", "restored", "in_progress", "unconfirmed")
_ACTIONS = ("redrive", "redrive", "redrive", "discard", "leave")


@dataclass(frozen=True)
class RandomPlans:
    """Several plans of one archive, side by side.

    Attributes:
        rows: ``ROWS`` of the messages of all plans.
        elsewhere: ``ROWS`` of pending messages that no plan has.
        states: what ledgers say of some of them.
        actions: by group id.
        halted: ids of groups.
    """

    rows: pa.Table
    elsewhere: pa.Table
    states: pa.Table
    actions: dict[str, str]
    halted: list[str]


def random_plans(seed: int, number: int) -> RandomPlans:
    """Make so many random plans; nothing of one is in the way of another.

    For that their message groups and their groups of failures have names of their own.
    """
    random = Random(seed)
    rows = list[Row]()
    elsewhere = list[Row]()
    states = list[Row]()
    actions = dict[str, str]()
    halted = list[str]()

    for plan in range(number):
        groups = [f"s-{plan}-{n}" for n in range(random.randint(1, 3))]
        for group_id in groups:
            if random.random() < 0.9:
                actions[group_id] = random.choice(_ACTIONS)
        halted += [group_id for group_id in groups if random.random() < 0.1]

        of_plan = [_random_row(random, plan, groups, n) for n in range(random.randint(0, 14))]
        rows += of_plan
        for number_elsewhere in range(100, 100 + random.randint(0, 2)):
            elsewhere.append(_random_row(random, plan, groups, number_elsewhere))

        for row in of_plan:
            if random.random() < 0.25:
                states.append({"message_id": row["message_id"], "state": random.choice(_STATES)})

    random.shuffle(rows)
    of_groups = pa.Table.from_pylist(elsewhere, ROWS)
    has_group = of_groups["message_group_id"].is_valid()

    return RandomPlans(
        rows=pa.Table.from_pylist(rows, ROWS),
        elsewhere=of_groups.filter(has_group),
        states=pa.Table.from_pylist(states, STATES),
        actions=actions,
        halted=halted,
    )


def _random_row(random: Random, plan: int, groups: Sequence[str], number: int) -> Row:
    message_group = random.choice([None, f"g-{plan}-1", f"g-{plan}-1", f"g-{plan}-2"])

    # Few values, so that many are equal, and of one to three digits.
    sequence_number = random.choice([None, "7", "8", "10", "99", "100"])
    is_ours = random.random() < 0.8

    return {
        "message_id": f"m-{plan}-{random.randrange(1000):03d}-{number}",
        "message_group_id": message_group,
        "sequence_number": sequence_number,
        "sent_at": datetime.fromtimestamp(NOW + random.randrange(3), UTC),
        "parked_reason": None if is_ours else random.choice([None, "foreign_source", "too_old"]),
        "source_queue": random.choice(["main.fifo", "main"])
        if is_ours
        else random.choice([None, "invoices", "elsewhere"]),
        "source_arn": random.choice([None, queue_arn("dlq"), queue_arn("invoices")]),
        "first_seen_at": random.choice([None, datetime.fromtimestamp(NOW, UTC)]),
        "plan_id": random.choice([None, None, "p-1"]),
        "queue_url": _queue_url(random),
        "attributes": _attributes(random),
        "body_bytes": random.choice([1, 500, 900]),
        "group_id": random.choice(groups),
        "unit": None if message_group is None else f"in-order-{random.randrange(2):02d}",
        "position": None if message_group is None else random.randrange(300),
        SELECTED: random.random() < 0.9,
        EDIT_FAULT: "does not fit" if random.random() < 0.05 else None,
    }


def _queue_url(random: Random) -> str | None:
    url = queue_url("parked")
    others = [f"{url}/", queue_url("other-parked"), None]
    return url if random.random() < 0.85 else random.choice(others)


def _attributes(random: Random) -> list[tuple[str, Row]] | None:
    if random.random() < 0.1:
        return None
    ours = [("sqs-dlq-replay-nb", text_value("3"))] if random.random() < 0.5 else []
    own = [(f"ä-{n}", random.choice(_VALUES)) for n in range(random.choice([0, 1, 8, 9]))]
    return list(chain(ours, own))


def text_value(value: str) -> Row:
    """The value of a message attribute, as the archive has it."""
    return {"data_type": "String", "string_value": value, "binary_value": None}


_VALUES = (
    text_value("é"),
    text_value("x" * 300),
    {"data_type": "Binary", "string_value": None, "binary_value": b"\x00" * 40},
)
