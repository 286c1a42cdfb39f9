"""Checks that a run fits into the memory that this process may still take. Linux.

This process holds the ids of all messages of a plan and, on the engine of one machine, the bodies
of those that it sends. A process that needs more memory than there is gets killed, without a word,
and maybe in the middle of a send. So a run that would need too much ends before it reads them. Its
control group and the machine say what is left.
"""

from collections.abc import Callable
from pathlib import Path

from dlq.errors import InputError

BYTES_PER_MESSAGE = 800
"""At the peak. Measured by ``benchmarks/ids.py``: a million messages of a FIFO queue took 743 MB,
five million 3,279 MB; a million of a standard queue 428 MB."""

ALWAYS_FIT = 100_000
"""A run with at most this number of messages is never refused: they take less than any driver needs
to start."""

BYTES_PER_SENT_BYTE = 3
"""Of the messages that this process holds while it sends them, at the peak. Measured with 250 MB of
them, sent by three tasks: 1.4 times as much of 100,000, 2.6 times of 1,000, 3.2 times of 300."""

ALWAYS_SENT_BYTES = 16 * 1024 * 1024
"""A run that sends at most this is never refused."""

_MEBIBYTE = 1024 * 1024

_MEMINFO = "/proc/meminfo"

_GROUPS = (
    # Version 2, then version 1: limit, what is taken, and the part of it that can be given back.
    (
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory.current",
        "/sys/fs/cgroup/memory.stat",
        "inactive_file",
    ),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "/sys/fs/cgroup/memory/memory.stat",
        "total_inactive_file",
    ),
)


def require_memory(messages: int, available_bytes: int | None) -> None:
    """Refuse a run whose ids do not fit into memory. Pure.

    Args:
        messages: whose ids the driver will hold at once.
        available_bytes: what the process may still take; None if that is not known. Then nothing
            is refused.

    Raises:
        InputError: they do not fit. Nothing was read or sent.
    """
    needed_bytes = messages * BYTES_PER_MESSAGE
    left_bytes = _left_if_short(needed_bytes, available_bytes)
    if messages <= ALWAYS_FIT or left_bytes is None:
        return

    raise InputError(
        f"the ids of {messages:,} messages need about {needed_bytes // _MEBIBYTE:,} MiB of the "
        f"driver's memory, which has {left_bytes // _MEBIBYTE:,} MiB left, enough for "
        f"{left_bytes // BYTES_PER_MESSAGE:,}; make a smaller plan, with collect --only analyze "
        "--where, or run on a machine with more memory"
    )


def require_memory_to_send(message_bytes: int, available_bytes: int | None) -> None:
    """Refuse a run whose messages do not fit into memory while they are sent. Pure.

    Args:
        message_bytes: what bodies and attributes of the messages take that are held at once.
        available_bytes: as for ``require_memory``.

    Raises:
        InputError: they do not fit. Nothing was sent.
    """
    needed_bytes = message_bytes * BYTES_PER_SENT_BYTE
    left_bytes = _left_if_short(needed_bytes, available_bytes)
    if message_bytes <= ALWAYS_SENT_BYTES or left_bytes is None:
        return

    raise InputError(
        f"the {message_bytes // _MEBIBYTE:,} MiB of messages to send need about "
        f"{needed_bytes // _MEBIBYTE:,} MiB of this machine's memory, which has "
        f"{left_bytes // _MEBIBYTE:,} MiB left; send fewer at a time, with --limit, or use "
        "--engine spark"
    )


def _left_if_short(needed_bytes: int, available_bytes: int | None) -> int | None:
    """Return what is left, at least 0, where that is less than is needed; else None."""
    if available_bytes is None or needed_bytes <= available_bytes:
        return None
    return max(0, available_bytes)


def read_text(path: str) -> str | None:
    """Read a file of the system; None where there is none."""
    try:
        return Path(path).read_text("utf-8")
    except OSError:
        return None


def available_bytes(
    reserved_bytes: int, read: Callable[[str], str | None] = read_text
) -> int | None:
    """Return what this process may still take, below 0 if too much is promised; None if unknown.

    Args:
        reserved_bytes: what others in the same machine or container may still take, such as the
            heap of Spark's JVM.
        read: returns the text of a file of the system, None where there is none.
    """
    limits = [_left_in_machine(read(_MEMINFO))]
    for group in _GROUPS:
        limits.append(_left_in_group(read, *group))

    known_limits = [limit for limit in limits if limit is not None]
    return min(known_limits) - reserved_bytes if known_limits else None


def _left_in_machine(meminfo: str | None) -> int | None:
    for line in (meminfo or "").splitlines():
        name, _, value = line.partition(":")
        if name == "MemAvailable":
            return int(value.split()[0]) * 1024
    return None


def _left_in_group(
    read: Callable[[str], str | None], limit: str, taken: str, statistics: str, reclaimable: str
) -> int | None:
    limit_bytes = _number(read(limit))
    taken_bytes = _number(read(taken))
    # Without a limit version 2 says "max", and version 1 a number larger than any machine.
    if limit_bytes is None or taken_bytes is None:
        return None

    cached_bytes = 0
    for line in (read(statistics) or "").splitlines():
        name, _, value = line.partition(" ")
        if name == reclaimable:
            cached_bytes = int(value)
    return limit_bytes - taken_bytes + cached_bytes


def _number(text: str | None) -> int | None:
    text = (text or "").strip()
    return int(text) if text.isdecimal() else None
