"""DataFrame to DataFrame: what a plan means for each of its messages at this moment. Pure.

A *disposition* is one word. Two of them make work, the others say why there is none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from dlq_replay.addresses import QueueAddress
from dlq_replay.attributes import MAX_ATTRIBUTES
from dlq_replay.context import CONTEXT_ATTRIBUTE, CONTEXT_MAX_BYTES
from dlq_replay.history import REPLAY_COUNT_ATTRIBUTE
from dlq_replay.policy import MAX_MESSAGE_BYTES
from spark_reprocess.analysis.message_table import in_order_unit, with_positions
from spark_reprocess.archive.disposition import Disposition
from spark_reprocess.archive.reading import arrival_order

CHUNK_MESSAGES = 100

POSITION = ("unit", "chunk", "place")

DETAIL = "detail"
"""A column beside ``disposition``: which queue, source or message stands in the way; else null."""

SOURCE_COLUMNS = ("parked_reason", "source_queue", "source_arn", "first_seen_at", "plan_id")
"""What tells which queue a message came from first."""

DESTINATION = "destination"
"""A column: URL of the queue that a message goes to; null where it must go nowhere."""

PARKED_QUEUE = "parked_queue"
"""A column: account and name of the parked queue that a message was drained from."""

ORDER_COLUMNS = ("message_id", "message_group_id", "sequence_number", "sent_at")
"""What tells a message's place in its message group."""

_OURS = (CONTEXT_ATTRIBUTE, REPLAY_COUNT_ATTRIBUTE)
_OURS_BYTES = CONTEXT_MAX_BYTES + 64
"""More than names, types and values of our two attributes can take."""

_REASON_FOREIGN = "foreign_source"
_PASSES = tuple(one for one in Disposition if not one.blocks_group)
"""Anything else blocks its message group, also what has no disposition: it is not in the plan."""


@dataclass(frozen=True, slots=True)
class Queues:
    """Which queues a run is about, and what that says of each message. Pure columns.

    Attributes:
        destination: URL of the queue that messages go to.
        parked: URL of the parked queue whose messages the run acts on; None where the archive has
            messages of one parked queue alone.
        is_named: whether the operator named the destination for every message that is not known to
            be foreign. Otherwise it stands for the source of messages that do not name theirs.
        sources: by name, the URLs of the queues whose messages go back there; *destination* is
            always one of them.
        dead_letter_queue: name of the destination's dead-letter queue; None for none.
        room_bytes: the smallest message size limit of the queues that a copy passes before it is
            parked again.
        is_shared: whether other queues than the destination use its dead-letter queue, or might.
        includes_foreign: whether messages of other and of unknown sources go, too.
    """

    destination: str
    parked: str | None = None
    is_named: bool = True
    sources: Mapping[str, str] = field(default_factory=dict)
    dead_letter_queue: str | None = None
    room_bytes: int = MAX_MESSAGE_BYTES
    is_shared: bool = False
    includes_foreign: bool = False

    @property
    def is_fifo(self) -> bool:
        """Whether the destination keeps the order of message groups."""
        return QueueAddress.from_url(self.destination).is_fifo

    @property
    def is_of_parked(self) -> Column:
        """Whether a message was drained from the run's own parked queue."""
        if self.parked is None:
            return F.lit(True)  # noqa: FBT003 - a value
        address = QueueAddress.from_url(self.parked)
        is_it = F.col(PARKED_QUEUE) == f"{address.account_id}/{address.name}"
        return F.coalesce(is_it, F.lit(False))  # noqa: FBT003 - a value

    def hindrance(self) -> tuple[Column, Column]:
        """Return the disposition of a message that must not be sent, else null; and why.

        What a message's own context says comes first. Without it, what SQS noted when it moved
        the message counts. A message without either was parked unchanged, or by SQS: it is the
        destination's only where no other queue uses that dead-letter queue.
        """
        source = self._source()
        was_foreign = F.coalesce(F.col("parked_reason") == _REASON_FOREIGN, F.lit(False))  # noqa: FBT003
        is_foreign = F.coalesce(~source.isin(*self._known), was_foreign)
        if self.is_named:
            is_foreign &= was_foreign
        may_be_foreign = source.isNull() & ~_has_context() & F.lit(self.is_shared)
        disposition = F.when(~self.is_of_parked, Disposition.OTHER_PARKED_QUEUE)
        if not self.includes_foreign:
            disposition = disposition.when(is_foreign, Disposition.FOREIGN).when(
                may_be_foreign, Disposition.UNKNOWN_SOURCE
            )
        unknown = F.lit("not recorded")
        detail = F.when(
            disposition == Disposition.OTHER_PARKED_QUEUE, F.coalesce(PARKED_QUEUE, unknown)
        )
        return disposition, detail.when(
            disposition == Disposition.FOREIGN, F.coalesce(source, unknown)
        )

    def destination_of(self) -> Column:
        """Return ``DESTINATION`` of a message that nothing hinders: its own source queue."""
        if self.is_named:
            return F.lit(self.destination)
        pairs = [F.lit(part) for pair in self._known.items() for part in pair]
        return F.coalesce(F.create_map(*pairs)[self._source()], F.lit(self.destination))

    @property
    def _known(self) -> Mapping[str, str]:
        if self.is_named:
            return {QueueAddress.from_url(self.destination).name: self.destination}
        return {**self.sources, QueueAddress.from_url(self.destination).name: self.destination}

    def _source(self) -> Column:
        """Name of the queue that a message came from first; null where nothing records it."""
        moved_from = F.substring_index("source_arn", ":", -1)
        is_direct = ~_has_context() & (moved_from != F.lit(self.dead_letter_queue or ""))
        return F.coalesce("source_queue", F.when(is_direct, moved_from))


def _has_context() -> Column:
    named = (F.col(one).isNotNull() for one in ("parked_reason", "first_seen_at", "plan_id"))
    return reduce(or_, named)


def parked_queue() -> Column:
    """``PARKED_QUEUE`` of an archived message: the last two parts of its queue URL's path."""
    return F.substring_index(F.rtrim("queue_url", F.lit("/")), "/", -2)


def has_room(max_message_bytes: int) -> Column:
    """Whether an archived message can carry counter and context within *max_message_bytes*."""
    own = F.map_filter("attributes", lambda name, _: ~name.isin(*_OURS))
    sizes = F.transform(F.map_entries(own), _attribute_bytes)
    size = F.aggregate(sizes, F.lit(0).cast("long"), lambda total, one: total + one)
    has_slots = F.size(own) + len(_OURS) <= MAX_ATTRIBUTES
    fits = F.col("body_bytes") + size + _OURS_BYTES <= max_message_bytes
    return F.coalesce(has_slots & fits, F.lit(True))  # noqa: FBT003 - a value; no attributes


def _attribute_bytes(entry: Column) -> Column:
    value = entry["value"]
    text, data = F.octet_length(value["string_value"]), F.octet_length(value["binary_value"])
    names = F.octet_length(entry["key"]) + F.octet_length(value["data_type"])
    return (names + F.coalesce(text, data, F.lit(0))).cast("long")


def number_chunks(grouped: DataFrame, units: int | None) -> DataFrame:
    """Add ``unit, chunk, place`` to messages of no plan, the same in every run.

    With *units* None a unit is a group. Else there are so many, and each is a share of the message
    groups. It goes to one task, so that their order is kept.
    """
    unit = F.col("group_id") if units is None else in_order_unit(units)
    return with_chunks(with_positions(grouped, unit))


def with_chunks(positioned: DataFrame) -> DataFrame:
    """Put ``chunk``, from 1, and ``place`` in place of ``position``; a chunk has 100 messages."""
    chunk = F.floor(F.col("position") / CHUNK_MESSAGES) + 1
    return positioned.withColumn("chunk", chunk).withColumnRenamed("position", "place")


def with_dispositions(
    numbered: DataFrame,
    states: DataFrame,
    actions: Mapping[str, str] | None,
    queues: Queues,
    *,
    send_in_doubt: bool,
    requires_room: bool = False,
) -> DataFrame:
    """Add ``disposition``, ``DETAIL`` and ``DESTINATION``. ``with_waiting`` adds those that wait.

    Args:
        numbered: the whole plan, with ``SOURCE_COLUMNS``, ``PARKED_QUEUE``, ``has_room``,
            ``selected``: whether this run's condition takes the message, and ``edit_fault``: why
            its group's edit does not fit it, else null.
        states: ``message_id, state`` of the ledgers.
        actions: by group id; other groups are left. None sends every group.
        queues: a FIFO destination takes no message without a message group.
        send_in_doubt: whether messages in doubt are sent again.
        requires_room: whether a message that cannot carry its plan's id is left.
    """
    known = numbered.join(states, on="message_id", how="left")
    state = F.col("state")
    not_ours, detail = queues.hindrance()
    disposition = (
        F.when(state == "sent", Disposition.SENT_BEFORE)
        .when(state == "discarded", Disposition.DISCARDED_BEFORE)
        .when(state == "restored", Disposition.RESTORED_BEFORE)
        .when(~_has_action(actions, "redrive", "discard"), Disposition.LEAVE)
        .when(~F.col("selected"), Disposition.NOT_SELECTED)
        .when(not_ours.isNotNull(), not_ours)
        .when(state == "busy", Disposition.BUSY)
        .when((state == "in_doubt") & ~F.lit(send_in_doubt), Disposition.IN_DOUBT)
        .when(_has_action(actions, "discard"), Disposition.DISCARD)
        .when(F.col("message_group_id").isNull() & F.lit(queues.is_fifo), Disposition.NO_GROUP)
        .when(F.col("edit_fault").isNotNull(), Disposition.EDIT_FAILED)
        .when(~F.col("has_room") & F.lit(requires_room), Disposition.NO_ROOM)
        .otherwise(Disposition.SEND)
    )
    dispositions = known.withColumns(
        {
            "disposition": disposition,
            DETAIL: F.when(disposition == not_ours, detail),
            DESTINATION: F.when(not_ours.isNull(), queues.destination_of()),
        }
    )
    return dispositions.drop("state", "has_room", *SOURCE_COLUMNS)


def with_waiting(dispositions: DataFrame, undecided: DataFrame | None = None) -> DataFrame:
    """Let each message wait that stands behind one of its message group that stays.

    What stays is what is neither sent nor discarded nor restored, now or before: a message that the
    plan leaves, one of another plan, one that cannot be sent. ``DETAIL`` names the first such one.
    Messages of different parked queues do not wait for each other.

    Args:
        dispositions: the plan's messages, with ``ORDER_COLUMNS`` and ``PARKED_QUEUE``.
        undecided: the same columns of the archive's other messages that nobody has decided about;
            None where there is none.
    """
    order = F.struct(*arrival_order())
    rows = dispositions
    if undecided is not None:
        rows = dispositions.unionByName(
            undecided.withColumn("disposition", F.lit("")), allowMissingColumns=True
        )
    earlier = (
        Window.partitionBy(PARKED_QUEUE, "message_group_id")
        .orderBy(order)
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    stays = F.when(~F.col("disposition").isin(*_PASSES), order)
    first = F.min(stays).over(earlier)["message_id"]
    marked = rows.withColumn("_first", first)
    waits = (F.col("disposition") == Disposition.SEND) & F.col("_first").isNotNull()
    return (
        marked.where(F.col("disposition") != "")
        .withColumn(DETAIL, F.when(waits, F.col("_first")).otherwise(F.col(DETAIL)))
        .withColumn("disposition", F.when(waits, Disposition.WAITS).otherwise(F.col("disposition")))
        .drop("_first")
    )


def _has_action(actions: Mapping[str, str] | None, *wanted: str) -> Column:
    if actions is None:
        return F.lit("redrive" in wanted)
    groups = [group_id for group_id, action in actions.items() if action in wanted]
    return F.coalesce(F.col("group_id").isin(*groups), F.lit(False))  # noqa: FBT003 - a value
