"""Which messages of a weighed plan go ahead as its canary."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame

from spark_reprocess.canary.drawn import Drawn
from spark_reprocess.canary.options import CanaryOptions
from spark_reprocess.canary.sampling import allocate
from spark_reprocess.canary.vigil import Redelivery
from spark_reprocess.redrive.canary_rows import canary_candidates, canary_sample
from spark_reprocess.redrive.run_facts import RunFacts
from spark_reprocess.redrive.selection import Fate
from spark_reprocess.redrive.weighing import Weighed


@dataclass(frozen=True, slots=True)
class Sample:
    """A canary's messages: *rows* are those of the plan's fates, with ``first_id``. Persisted."""

    drawn: Drawn
    rows: DataFrame


@contextmanager
def drawn_sample(
    whole: Weighed, facts: RunFacts, options: CanaryOptions, redelivery: Redelivery
) -> Iterator[Sample]:
    """Draw a canary of so many messages, for as long as the block lasts.

    Raises:
        InputError: a failure may need longer to show than the operator wants to wait.
    """
    to_send = whole.counts(Fate.SEND)
    total = options.size.at_least(sum(to_send.values()))
    candidates = canary_candidates(
        whole.fates,
        whole.messages,
        max_message_bytes=facts.room_bytes,
        to_fifo=facts.to_fifo,
    )
    allocation = allocate(_counts(candidates), max(1, total))
    rows = canary_sample(candidates, allocation, facts.plan_id, to_fifo=facts.to_fifo).persist()
    try:
        counts = _counts(rows)
        allowed = max((options.max_return.at_most(count) for count in counts.values()), default=0)
        wait_seconds = options.wait(redelivery, allowed + 1 if facts.to_fifo else 1)
        without = tuple(sorted(to_send.keys() - counts.keys()))
        first_look_seconds = options.first_look_seconds(redelivery)
        yield Sample(Drawn(counts, without, first_look_seconds, wait_seconds), rows)
    finally:
        rows.unpersist()


def _counts(rows: DataFrame) -> dict[str, int]:
    found = rows.groupBy("group_id").count().collect()
    return {row["group_id"]: row["count"] for row in sorted(found)}
