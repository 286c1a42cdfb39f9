"""Which messages the leads are looked for in: bounded in number and in bytes, the same in each run.

A message is in the sample where the number that its id decides (``groups.chance``) is below its
group's rate. Half of the sample goes to the largest groups in equal parts, as far as they need it;
half to all messages alike, so that "all others" is what it says. Each message then stands for its
group's count by the group's sampled messages.
"""

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from spark_reprocess.analysis.groups import Totals, chance

SAMPLED_MESSAGES = 40_000
SAMPLED_BYTES = 160 * 1024 * 1024
_MOST_OF_A_GROUP = 2000


def sampling_rates(counts: Mapping[str, int], totals: Totals) -> tuple[dict[str, float], float]:
    """Return the rate of each of the largest groups, and that of all others.

    Args:
        counts: messages by group, of the largest groups.
        totals: of all groups.
    """
    mean_bytes = totals.body_bytes / max(totals.messages, 1)
    size = min(SAMPLED_MESSAGES, SAMPLED_BYTES / max(mean_bytes, 1.0))
    for_all = min(1.0, size / 2 / max(totals.messages, 1))
    of_each = _equal_part(list(counts.values()), size / 2)
    rates = {one: min(1.0, max(for_all, of_each / count)) for one, count in counts.items()}
    return rates, for_all


def _equal_part(counts: Sequence[int], size: float) -> float:
    """How many of each group so that no more than *size* are taken; small groups leave theirs."""
    left, groups = size, len(counts)
    for count in sorted(counts):
        if count * groups > left:
            return min(left / groups, _MOST_OF_A_GROUP)
        left, groups = left - count, groups - 1
    return _MOST_OF_A_GROUP


def picked(
    slim: DataFrame, rates: Mapping[str, float], other_rate: float, shown: Sequence[str]
) -> DataFrame:
    """Return the messages to look at.

    Args:
        slim: ``message_id`` and ``group_id`` of each message.
        rates: by group id.
        other_rate: of groups without a rate.
        shown: ids of messages that are to be shown.

    Returns:
        ``message_id, group_id, chance, is_sampled, is_shown``: few enough for each task to take
        along.
    """
    session = slim.sparkSession
    of_groups = session.createDataFrame(
        pa.table({"group_id": list(rates), "rate": pa.array(rates.values(), pa.float64())})
    )
    shown_ids = session.createDataFrame(
        pa.table({"message_id": pa.array(shown, pa.string()), "is_shown": [True] * len(shown)})
    )
    rate = F.coalesce("rate", F.lit(other_rate))
    return (
        slim.select("message_id", "group_id", chance().alias("chance"))
        .join(F.broadcast(of_groups), "group_id", "left")
        .join(F.broadcast(shown_ids), "message_id", "left")
        .select(
            "message_id",
            "group_id",
            "chance",
            (F.col("chance") < rate).alias("is_sampled"),
            F.coalesce("is_shown", F.lit(False)).alias("is_shown"),  # noqa: FBT003 - a value
        )
        .where("is_sampled OR is_shown")
    )
