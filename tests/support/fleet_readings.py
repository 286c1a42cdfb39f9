"""Readings of fleets as AWS would give them, for pages that show one."""

from typing import Any

from dlq.aws.clients import QueueCounts
from dlq.stack.fleet import FleetStatus
from dlq.stack.fleet_rows import FleetRow
from tests.support.console_world import NOW


def member(name: str, *sources: str, **changes: Any) -> FleetRow:
    """A DLQ at rest with these sources."""
    at_rest: dict[str, Any] = {
        "waiting": 0,
        "held": 0,
        "limit": None,
        "oldest_seconds": None,
        "expires_seconds": None,
        "retention_seconds": 1_209_600,
        "replayed": 0,
        "failed": 0,
        "new_groups": 0,
        "pending": 0,
    }
    return FleetRow(queue=name, sources=sources, **{**at_rest, **changes})


def fleet_of(*rows: FleetRow, **changes: Any) -> FleetStatus:
    """A reading of a fleet with these DLQs, in this order."""
    usual: dict[str, Any] = {
        "queue_tag": "shop",
        "at": NOW,
        "members": len(rows) + sum(len(row.sources) for row in rows),
        "parked": {"parked": QueueCounts(visible=3, in_flight=1)},
        "sweep": "enabled",
        "archive": None,
        "unknown": (),
        "figures_at": NOW,
        "metrics": 0,
    }
    return FleetStatus(queues=rows, **{**usual, **changes})


def large_fleet(members: int = 300) -> FleetStatus:
    """A fleet with many DLQs; the first ones need a person."""
    rows = [
        member("orders-dlq", "orders", "orders-bulk", need="failures", failed=2, replayed=12),
        member("mails-dlq", "mails", need="limit", limit=20, waiting=1_204, held=600),
        member("old-dlq", need="tags", waiting=4),
    ]
    for number in range(len(rows), members):
        rows.append(member(f"team-{number % 7}-queue-{number:03}-dlq", f"queue-{number:03}"))
    return fleet_of(*rows)
