"""The rows of a fleet's status: one for each member DLQ, in the order of what needs a person. Pure.

All members of a fleet are in one account and Region, so that a name identifies a queue.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from dlq.aws.clients import DescribedQueue
from dlq_replay.replaying.measures import Metric


class Need(StrEnum):
    """A reason to act on a DLQ, the most urgent first."""

    EXPIRY = "expiry"
    TAGS = "tags"
    FAILURES = "failures"
    LIMIT = "limit"
    NEW_GROUPS = "new groups"
    PENDING = "pending"
    WAITING = "waiting"


OLDEST = "ApproximateAgeOfOldestMessage"
EXPIRY = Metric.NEAREST_EXPIRY_SECONDS
LIMIT = "limit"
NEW_GROUPS = "new groups"
PENDING = "pending"

EXPIRY_SHARE = 0.5
"""A message that has been in the DLQ for this share of the retention needs a person."""

Figures = Mapping[str, int | None]
"""Numbers of queues beside the attributes of SQS, by ``figure_key``: metrics, limits (of queues
that have one), and the numbers of the archive. None, or absent: not known."""


@dataclass(frozen=True, slots=True)
class FleetRow:
    """A member DLQ; numbers are None where they are not known.

    Attributes:
        sources: the members whose dead letters it gets. Empty if none is: either its sources lack
            the tag, or it is a source whose DLQ lacks it.
        waiting: messages that can be received now.
        held: messages that are delayed or hidden.
        limit: the lowest limit of its sources, replays a minute; also None without a limit.
        oldest_seconds: the age of its oldest message, at least: SQS counts it from the move to the
            DLQ. None of an empty queue.
        expires_seconds: how long SQS keeps the message that it deletes first, of those that the
            replay function saw in the last hour, from their first send; None of an empty queue.
        replayed, failed: by the replay function, in the last hour.
        new_groups: groups of the newest report of its sources' messages, with the status "new".
        pending: messages of its sources that are pending in the archive.
        need: a ``Need``, what needs a person most; empty for nothing.
    """

    queue: str
    sources: Sequence[str]
    waiting: int
    held: int
    limit: int | None
    oldest_seconds: int | None
    expires_seconds: int | None
    retention_seconds: int
    replayed: int | None
    failed: int | None
    new_groups: int | None
    pending: int | None
    need: str = ""


def figure_key(name: str, queue: str) -> str:
    """Return the key of a number of a queue; *name* is that of its metric, or one of the above."""
    return f"{queue} {name}"


def sources_by_dlq(targets: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the member DLQs, and the members whose DLQ each is.

    Also, without sources, each member that is neither: a tag is missing on one of its queues.

    Args:
        targets: the name of the DLQ of each member; empty for none.
    """
    sources = {queue: list[str]() for queue in targets if targets[queue] not in targets}
    for queue, target in sorted(targets.items()):
        if target in targets:
            sources.setdefault(target, []).append(queue)
    return sources


def fleet_row(dlq: DescribedQueue, sources: Sequence[str], figures: Figures) -> FleetRow:
    """Return the row of a member DLQ: its attributes, and sums over its *sources*."""
    limits = [figures.get(figure_key(LIMIT, queue)) for queue in sources]
    expiries = [figures.get(figure_key(EXPIRY, queue)) for queue in sources]
    known_expiries = [seconds for seconds in expiries if seconds is not None]
    # SQS names the DLQ as the source of what it parked itself.
    origins = [*sources, dlq.name]

    row = FleetRow(
        queue=dlq.name,
        sources=sources,
        waiting=dlq.counts.visible,
        held=dlq.counts.delayed + dlq.counts.in_flight,
        limit=min(filter(None, limits), default=None),
        oldest_seconds=figures.get(figure_key(OLDEST, dlq.name)),
        expires_seconds=min(known_expiries, default=None) if dlq.counts.total else None,
        retention_seconds=dlq.retention_seconds,
        replayed=_sum(figures, Metric.REPLAYED, sources),
        failed=_sum(figures, Metric.FAILED, sources),
        new_groups=_sum(figures, NEW_GROUPS, origins),
        pending=_sum(figures, PENDING, origins),
    )

    needs = [name for name, amount in _needs(row).items() if amount]
    return replace(row, need=needs[0]) if needs else row


def _sum(figures: Figures, name: str, queues: Iterable[str]) -> int | None:
    """Add a number of some queues; None if one of them is not known."""
    total = 0
    for queue in queues:
        number = figures.get(figure_key(name, queue))
        if number is None:
            return None
        total += number
    return total


def ordered(rows: Iterable[FleetRow]) -> list[FleetRow]:
    """Sort rows, the most urgent need first; of one need, the greatest amount first."""

    def urgency(row: FleetRow) -> tuple[list[float], str]:
        return [-amount for amount in _needs(row).values()], row.queue

    return sorted(rows, key=urgency)


def _needs(row: FleetRow) -> dict[Need, float]:
    """Return the amounts of what may need a person, in the order of ``Need``; 0 for no need."""
    age_seconds = row.oldest_seconds or 0
    if row.expires_seconds is not None:
        age_seconds = max(age_seconds, row.retention_seconds - row.expires_seconds)
    share = age_seconds / row.retention_seconds
    return {
        Need.EXPIRY: share if share >= EXPIRY_SHARE else 0,
        Need.TAGS: 0 if row.sources else row.waiting + row.held,
        Need.FAILURES: row.failed or 0,
        Need.LIMIT: 1 / row.limit if row.limit else 0,
        Need.NEW_GROUPS: row.new_groups or 0,
        Need.PENDING: row.pending or 0,
        Need.WAITING: row.waiting,
    }
