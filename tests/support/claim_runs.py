"""Dispositions and claims of a run for messages of given states: without Spark."""

from collections.abc import Mapping, Sequence

from dlq.archive.ledger.disposition import BEFORE, DECIDED, WORK, Disposition
from dlq.redrive.sending.send_task import OutgoingMessage

Chunks = Sequence[tuple[str, int, Sequence[OutgoingMessage]]]


def resolved(
    chunks: Chunks, states: Mapping[str, str], unconfirmed: str, *, is_fifo: bool
) -> Chunks:
    """Do what ``with_dispositions`` and ``with_waiting`` do; return what makes work."""
    blocked = set[str | None]()
    work = []
    for unit, chunk, messages in chunks:
        of_chunk = []
        for requested in messages:
            disposition = _disposition(states.get(requested.message_id), unconfirmed)
            group = requested.content.message_group_id if is_fifo else requested.message_id
            if disposition is Disposition.SEND and group in blocked:
                disposition = Disposition.WAITS
            if disposition.blocks_group:
                blocked.add(group)
            if disposition in WORK:
                of_chunk.append(requested)
        work.append((unit, chunk, of_chunk))
    return work


def _disposition(state: str | None, unconfirmed: str) -> Disposition:
    if state in DECIDED:
        return BEFORE[Disposition(state)]
    if state == Disposition.UNCONFIRMED and unconfirmed != "send":
        return Disposition.UNCONFIRMED
    return Disposition.SEND
