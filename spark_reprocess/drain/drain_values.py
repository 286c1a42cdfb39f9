"""How a drain task goes about it, and what it did: values. Pure."""

from dataclasses import dataclass, field

CHUNK_MESSAGES = 2000
CHUNK_SECONDS = 10.0
CHUNK_BYTES = 16 * 1024 * 1024
"""What a chunk holds of bodies and attributes; a task's memory is a small multiple of it."""


@dataclass(frozen=True, slots=True)
class DrainRules:
    """How a task goes about it.

    Attributes:
        is_fifo: one receive at a time, each with an attempt id, and the next chunk only after the
            deletions: a group gives out nothing more while a part of it is in flight.
        wait_seconds: of one long poll, 0 to 20.
        visibility_timeout_seconds: how long a received message stays hidden; must cover a chunk,
            its write and its deletes, or messages are received twice.
        chunk_messages: when a chunk is full; receives under way may add to it.
        chunk_bytes: the same, in bytes of bodies and attributes.
        receives: how many go on at once.
        limit: messages to take, None for all.
        until_seconds: epoch seconds after which nothing more is received, None for never.
    """

    is_fifo: bool = False
    wait_seconds: int = 2
    visibility_timeout_seconds: int = 300
    chunk_messages: int = CHUNK_MESSAGES
    chunk_bytes: int = CHUNK_BYTES
    receives: int = 1
    limit: int | None = None
    until_seconds: float | None = None


@dataclass(slots=True)
class DrainCounts:
    """What a task did.

    Attributes:
        received: messages that could be read, each receive counted.
        archived: rows written durably.
        deleted: messages that SQS confirmed as deleted, all of them archived.
        left: archived, but the deletion was not confirmed: they come again, and a read of the
            archive removes the second row.
        unreadable: messages that are no messages; they stay in the queue.
        faults: what was wrong with those, the first few.
        stopped_by: what ended the task early, None where the queue was empty or a limit reached.
    """

    received: int = 0
    archived: int = 0
    deleted: int = 0
    left: int = 0
    unreadable: int = 0
    faults: list[str] = field(default_factory=list)
    stopped_by: str | None = None
