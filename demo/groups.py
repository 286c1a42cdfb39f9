"""Message groups for FIFO queues: which customer a message belongs to. Pure."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from demo.workload import DemoMessage, Trait

MAX_GROUPS = 20
MIN_GROUPS = 3
_MESSAGES_PER_GROUP = 7
_SHARE_WITH_BUG = 4


def in_groups(messages: Sequence[DemoMessage]) -> list[DemoMessage]:
    """Give each message its group, the same one in every run, in no relation to its place.

    The bug hits the customers of one quarter, as bugs do: a message that keeps failing blocks its
    whole group, and a viewer should see other groups pass by.
    """
    count = min(MAX_GROUPS, max(MIN_GROUPS, len(messages) // _MESSAGES_PER_GROUP))
    return [replace(m, group=f"customer-{_number(m, count):02d}") for m in messages]


def _number(message: DemoMessage, count: int) -> int:
    """Counted from 1."""
    rank = int.from_bytes(hashlib.sha256(f"group of {message.identity}".encode()).digest())
    reach = max(1, count // _SHARE_WITH_BUG) if message.trait is Trait.BROKEN else count
    return rank % reach + 1
