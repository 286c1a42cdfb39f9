"""Counts of messages by disposition, and the causes of problems."""

from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from dlq.archive.ledger.disposition import Disposition
from dlq.ids.columns import (
    DETAIL,
    DISPOSITION,
    arrow,
    have_disposition,
    in_order_of,
)

_MOST_CAUSES = 5
"""This many causes of one problem are named."""


class Cause(NamedTuple):
    """Cause of a problem of some messages.

    Attributes:
        disposition: the problem.
        detail: the queue, source, message or fault that blocks them; empty if there is none, and
            for the sum of all causes that are not named.
        number: of these messages.
        examples: the first of their ids.
    """

    disposition: Disposition
    detail: str
    number: int
    examples: tuple[str, ...] = ()


def counted_by(rows: pa.Table, *columns: str) -> list[dict[str, Any]]:
    """Count the rows by the values of *columns*; return a dictionary with ``count`` for each."""
    if not rows.num_rows:
        return []
    counted = rows.select(list(columns)).group_by(list(columns)).aggregate([([], "count_all")])
    return list(counted.rename_columns([*columns, "count"]).to_pylist())


def causes_of_problems(rows: pa.Table, examples: int) -> list[Cause]:
    """Return why messages that the plan wants settled are not, by problem.

    The five causes of each problem with most messages are named, with this many *examples*. Behind
    all these comes, for each problem, the number of messages of its other causes.
    """
    problems = [disposition for disposition in Disposition if disposition.is_problem]
    blocked = rows.filter(pa.array(have_disposition(rows, problems)))
    blocked = blocked.select(["message_id", DISPOSITION, DETAIL])

    causes = list[Cause]()
    others = list[Cause]()
    for disposition in problems:
        of_problem = blocked.filter(pa.array(have_disposition(blocked, [disposition])))
        if not of_problem.num_rows:
            continue
        named = _largest_causes(of_problem, disposition, examples)
        causes += named
        other_messages = of_problem.num_rows - sum(cause.number for cause in named)
        if other_messages:
            others.append(Cause(disposition, "", other_messages))

    causes.sort(key=lambda cause: (cause.disposition, -cause.number, cause.detail))
    return causes + others


def _largest_causes(rows: pa.Table, disposition: Disposition, examples: int) -> list[Cause]:
    """Return the causes with most messages; *rows* are the messages of one problem."""
    counted = rows.group_by([DETAIL]).aggregate([([], "count_all")])
    details: Any = counted[DETAIL]
    keys = {"least": pc.negate(counted["count_all"]), "detail": pc.fill_null(details, "")}
    largest = in_order_of(keys)[:_MOST_CAUSES]

    causes = []
    for row in counted.take(arrow(largest)).to_pylist():
        ids = _first_ids(rows, row[DETAIL], examples)
        causes.append(Cause(disposition, row[DETAIL] or "", row["count_all"], ids))
    return causes


def _first_ids(rows: pa.Table, detail: str | None, number: int) -> tuple[str, ...]:
    """Return the smallest *number* ids of messages with this detail, sorted."""
    column: Any = rows[DETAIL]
    has_detail = pc.is_null(column) if detail is None else pc.equal(column, pa.scalar(detail))
    ids: Any = rows["message_id"].filter(has_detail)
    first: Any = pc.bottom_k_unstable(ids, number)
    return tuple(sorted(ids.take(first).to_pylist()))
