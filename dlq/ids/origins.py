"""The queue that a message came from first, and whether it forbids to send the message.

A message must not go to a queue that it did not come from. The source is, in this order:

1. The queue in the message's own context.
2. The queue that SQS noted when it moved the message.
3. Without either, the message was parked unchanged, or by SQS. It is from the destination only if
   no other queue uses that dead-letter queue. In a fleet its source is not known.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dlq.archive.ledger.disposition import Disposition
from dlq.ids.columns import (
    BLOCKER,
    BLOCKER_DETAIL,
    DESTINATION,
    PARKED_QUEUE,
    SOURCE,
    Numbers,
    arrow,
    flags,
    numbered_values,
    values_among,
    with_column,
)
from dlq_replay.rules.policy import MAX_MESSAGE_BYTES
from dlq_replay.wire.addresses import QueueAddress

SOURCE_COLUMNS = ("parked_reason", "source_queue", "source_arn", "first_seen_at", "plan_id")
"""Columns of the archive that tell the queue that a message came from first."""

ORIGIN_COLUMNS = (*SOURCE_COLUMNS, "queue_url")
"""Columns of the archive that ``with_origins`` needs, beside ``message_group_id``."""

_REASON_FOREIGN = "foreign_source"
_NOT_RECORDED = "not recorded"


class Origin(NamedTuple):
    """Origin of an archived message, as recorded.

    Attributes:
        parked_queue: account and name of the queue that it was drained from; None: not recorded.
        source_queue: name of its source queue in its own context; None: it has none.
        moved_from: name of the queue that SQS moved it from; None: SQS did not move it.
        has_context: whether the replay function or a redrive wrote anything into it.
        was_foreign: whether the replay function parked it because of its source.
    """

    parked_queue: str | None
    source_queue: str | None
    moved_from: str | None
    has_context: bool
    was_foreign: bool


class Route(NamedTuple):
    """Destination of a message, or the reason why it must not be sent.

    Attributes:
        blocker: the reason; None if it may be sent.
        detail: the queue that the blocker is about; None if it is not known.
        destination: URL of the queue that it goes to; None if it must not be sent.
        keeps_order: whether messages of a message group stay in their order.
    """

    blocker: Disposition | None
    detail: str | None
    destination: str | None
    keeps_order: bool = False


@dataclass(frozen=True, slots=True)
class Queues:
    """The queues of a run, and the rule by which each message gets its destination.

    Attributes:
        destination: URL of the queue that messages go to; empty in a fleet, where each goes to its
            own source; None if each goes back to its own parked queue.
        parked: URLs of the parked queues whose messages the run acts on; none if the archive has
            messages of one parked queue alone.
        is_named: whether the operator named the destination, for every message that is not known to
            be foreign. Otherwise it is the source of messages that do not name theirs.
        sources: the URLs of the queues whose messages are redriven there, by name; *destination* is
            always one of them.
        dead_letter_queues: names of the dead-letter queues of these sources, by the source's name.
        max_message_bytes: the largest copy that fits in every queue until it is parked again, by
            the URL of its destination; without a number the largest that SQS takes.
        is_shared: whether other queues than the destination use its dead-letter queue, or might.
        includes_foreign: whether messages of other and of unknown sources go, too.
        only_source: name of the queue whose messages alone the run acts on; None for all.
    """

    destination: str | None
    parked: Collection[str] = ()
    is_named: bool = True
    sources: Mapping[str, str] = field(default_factory=dict)
    dead_letter_queues: Mapping[str, str] = field(default_factory=dict)
    max_message_bytes: Mapping[str, int] = field(default_factory=dict)
    is_shared: bool = False
    includes_foreign: bool = False
    only_source: str | None = None

    @property
    def is_fleet(self) -> bool:
        """True if queues that have nothing to do with each other share the parked queues."""
        return self.destination == ""

    def route_of(self, origin: Origin) -> Route:
        """Return the destination of a message of this origin, or why it must not be sent."""
        route = self._route_of(origin)
        # What stays keeps others of its message group waiting if these must arrive in order.
        queue = route.destination or self.destination
        name = QueueAddress.from_url(queue).name if queue else origin.parked_queue
        return route._replace(keeps_order=(name or "").endswith(".fifo"))

    def _route_of(self, origin: Origin) -> Route:
        parked_url = self._parked_url_of(origin)
        if self.parked and parked_url is None:
            other = origin.parked_queue or _NOT_RECORDED
            return Route(Disposition.OTHER_PARKED_QUEUE, detail=other, destination=None)

        source = self.source_of(origin)
        sources = self._all_sources()
        if self.only_source not in (None, source or self._own_name):
            return Route(Disposition.NOT_SELECTED, detail=None, destination=None)
        if not self.includes_foreign:
            if self._is_foreign(origin, source, sources):
                queue = source or _NOT_RECORDED
                return Route(Disposition.FOREIGN, detail=queue, destination=None)
            is_recorded = origin.has_context and not self.is_fleet
            if source is None and not is_recorded and self.is_shared:
                return Route(Disposition.UNKNOWN_SOURCE, detail=None, destination=None)

        destination = parked_url if self.destination is None else self.destination
        if not self.is_named and source is not None:
            destination = sources.get(source, destination)
        return Route(blocker=None, detail=None, destination=destination)

    def _parked_url_of(self, origin: Origin) -> str | None:
        """Return the parked queue of the run that it was drained from; None if it was another."""
        for url in self.parked:
            address = QueueAddress.from_url(url)
            if origin.parked_queue == f"{address.account_id}/{address.name}":
                return url
        return None

    def source_of(self, origin: Origin) -> str | None:
        """Return the name of the queue that the message came from first; None if not known."""
        if origin.source_queue is not None:
            return origin.source_queue
        is_moved_by_us = origin.has_context or self._is_dead_letter_queue(origin)
        return None if is_moved_by_us else origin.moved_from

    def _is_dead_letter_queue(self, origin: Origin) -> bool:
        return origin.moved_from in self.dead_letter_queues.values()

    def _is_foreign(self, origin: Origin, source: str | None, sources: Mapping[str, str]) -> bool:
        """Return whether a message came from a queue that the run must not send to."""
        if self.is_named:
            # A named destination takes all messages that the replay function did not refuse.
            return origin.was_foreign and (source is None or source not in sources)
        if source is None:
            return origin.was_foreign
        return source not in sources or self._is_forged(origin, source)

    def _is_forged(self, origin: Origin, source: str) -> bool:
        """Return whether a message of a fleet cannot be of the source that it names.

        SQS moved it from a queue that is not the source's, or it is of the other kind.
        """
        own_queues = (None, source, self.dead_letter_queues.get(source))
        is_parked_fifo = (origin.parked_queue or "").endswith(".fifo")
        is_other_kind = is_parked_fifo != source.endswith(".fifo")
        return self.is_fleet and (origin.moved_from not in own_queues or is_other_kind)

    @property
    def _own_name(self) -> str | None:
        """Name of the destination; None if there is no single one."""
        return QueueAddress.from_url(self.destination).name if self.destination else None

    def _all_sources(self) -> Mapping[str, str]:
        if self.destination and self._own_name:
            return {**self.sources, self._own_name: self.destination}
        return self.sources

    def sizes_for(self, rows: pa.Table) -> Numbers:
        """Return for each row of ``with_origins`` how large its copy may be."""
        sizes = np.full(rows.num_rows, MAX_MESSAGE_BYTES, dtype=np.int64)
        for url, most_bytes in self.max_message_bytes.items():
            sizes[values_among(rows[DESTINATION], [url])] = most_bytes
        return sizes


def with_origins(rows: pa.Table, queues: Queues) -> pa.Table:
    """Replace ``ORIGIN_COLUMNS`` by ``PARKED_QUEUE``, ``SOURCE``, the blocker and the destination.

    ``message_group_id`` becomes null where messages of a group need not stay in their order: a
    standard queue may have groups, too. The rule is applied once to each different origin: an
    archive has few.
    """
    recorded = _recorded_origins(rows)
    different, numbers = different_rows(recorded)

    columns: dict[str, list[str | None]] = {
        PARKED_QUEUE: [],
        SOURCE: [],
        BLOCKER: [],
        BLOCKER_DETAIL: [],
        DESTINATION: [],
    }
    keeps_order: list[bool] = []
    for record in recorded.take(different).to_pylist():
        origin = _origin_of(record)
        route = queues.route_of(origin)
        columns[PARKED_QUEUE].append(origin.parked_queue)
        columns[SOURCE].append(queues.source_of(origin) if queues.is_fleet else "")
        columns[BLOCKER].append(str(route.blocker) if route.blocker else None)
        columns[BLOCKER_DETAIL].append(route.detail)
        columns[DESTINATION].append(route.destination)
        keeps_order.append(route.keeps_order)

    if not all(keeps_order):
        in_order = pa.array(keeps_order, pa.bool_()).take(numbers)
        groups = pc.if_else(in_order, rows["message_group_id"], pa.scalar(None, pa.string()))
        rows = with_column(rows, "message_group_id", groups)
    rows = rows.drop_columns(list(ORIGIN_COLUMNS))
    for name, values in columns.items():
        texts = pa.array(values, pa.string())
        rows = with_column(rows, name, texts.take(numbers).dictionary_encode())
    return rows


def parked_queue_of(queue_url: str | None) -> str | None:
    """Return ``PARKED_QUEUE``: the last two parts of a queue URL's path."""
    if queue_url is None:
        return None
    return "/".join(queue_url.rstrip("/").split("/")[-2:])


def _recorded_origins(rows: pa.Table) -> pa.Table:
    """Return the parts of ``ORIGIN_COLUMNS`` that the rule needs, so that few rows differ."""
    has_context = pc.is_valid(rows["parked_reason"])
    for name in ("first_seen_at", "plan_id"):
        has_context = pc.or_(has_context, pc.is_valid(rows[name]))

    is_foreign = pc.equal(rows["parked_reason"], pa.scalar(_REASON_FOREIGN))
    recorded = rows.select(["queue_url", "source_queue", "source_arn"])
    recorded = recorded.append_column("has_context", has_context)
    return recorded.append_column("was_foreign", arrow(flags(is_foreign)))


def _origin_of(record: Mapping[str, Any]) -> Origin:
    arn = record["source_arn"]
    return Origin(
        parked_queue=parked_queue_of(record["queue_url"]),
        source_queue=record["source_queue"],
        moved_from=None if arn is None else arn.rpartition(":")[2],
        has_context=record["has_context"],
        was_foreign=record["was_foreign"],
    )


def different_rows(rows: pa.Table) -> tuple[Any, Any]:
    """Find the rows that differ.

    Returns:
        The number of the first of equal rows; and for each row, the index of this number.
    """
    keys = np.zeros(rows.num_rows, dtype=np.int64)
    for column in rows.columns:
        values = numbered_values(column) + 1  # Null is 0.
        keys = keys * (values.max(initial=0) + 1) + values
    _, different, numbers = np.unique(keys, return_index=True, return_inverse=True)
    return arrow(different), arrow(numbers)
