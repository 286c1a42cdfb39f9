"""How many messages have which disposition, and what hinders them."""

from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from spark_reprocess.archive.ledger.disposition import Disposition
from spark_reprocess.redrive.ids.columns import (
    DETAIL,
    DISPOSITION,
    have_disposition,
)

_MOST_CAUSES = 5
"""So many causes of one problem are named."""


class Cause(NamedTuple):
    """What hinders some messages.

    Attributes:
        detail: the queue, source, message or fault that is in the way; empty for all other causes
            of this problem, which are too many to name, and where there is nothing to add.
        count: how many messages it hinders.
        examples: the first of their ids.
    """

    disposition: Disposition
    detail: str
    count: int
    examples: tuple[str, ...] = ()


def counted_by(rows: pa.Table, *columns: str) -> list[dict[str, Any]]:
    """Count the rows by the values of *columns*: a dictionary each, with ``count``."""
    if not rows.num_rows:
        return []
    counted = rows.select(list(columns)).group_by(list(columns)).aggregate([([], "count_all")])
    return list(counted.rename_columns([*columns, "count"]).to_pylist())


def causes_of_problems(rows: pa.Table, examples: int) -> list[Cause]:
    """Return what hinders the messages that the plan wants settled, by problem.

    Of each problem the five causes with most messages are named, with so many *examples*; a last
    entry counts the messages of all its other causes.
    """
    problems = [disposition for disposition in Disposition if disposition.is_problem]
    hindered = rows.filter(pa.array(have_disposition(rows, problems)))
    hindered = hindered.select(["message_id", DISPOSITION, DETAIL])
    causes = list[Cause]()
    others = list[Cause]()
    for disposition in problems:
        of_problem = hindered.filter(pa.array(have_disposition(hindered, [disposition])))
        if not of_problem.num_rows:
            continue
        named = _largest_causes(of_problem, disposition, examples)
        causes += named
        left = of_problem.num_rows - sum(cause.count for cause in named)
        if left:
            others.append(Cause(disposition, "", left))
    return (
        sorted(causes, key=lambda cause: (cause.disposition, -cause.count, cause.detail)) + others
    )


def _largest_causes(rows: pa.Table, disposition: Disposition, examples: int) -> list[Cause]:
    counted = rows.group_by([DETAIL]).aggregate([([], "count_all")])
    named = counted.append_column("name", pc.fill_null(counted[DETAIL], ""))
    sorted_by = [("count_all", "descending"), ("name", "ascending")]
    largest = pc.sort_indices(named, sort_keys=sorted_by)
    causes = []
    for row in counted.take(largest[:_MOST_CAUSES]).to_pylist():
        ids = _first_ids(rows, row[DETAIL], examples)
        causes.append(Cause(disposition, row[DETAIL] or "", row["count_all"], ids))
    return causes


def _first_ids(rows: pa.Table, detail: str | None, number: int) -> tuple[str, ...]:
    column = rows[DETAIL]
    has_detail = pc.is_null(column) if detail is None else pc.equal(column, pa.scalar(detail))
    ids = rows.filter(has_detail).select(["message_id"])
    first = pc.select_k_unstable(ids, number, sort_keys=[("message_id", "ascending")])
    return tuple(sorted(ids["message_id"].take(first).to_pylist()))
