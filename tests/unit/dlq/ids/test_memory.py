"""A run whose ids or messages do not fit into memory ends before it reads them."""

import pytest

from dlq.errors import InputError
from dlq.memory import (
    ALWAYS_FIT,
    ALWAYS_SENT_BYTES,
    BYTES_PER_MESSAGE,
    BYTES_PER_SENT_BYTE,
    available_bytes,
    require_memory,
    require_memory_to_send,
)

GIB = 1024**3
MEMINFO = {"/proc/meminfo": "MemTotal: 8388608 kB\nMemAvailable:    4194304 kB\n"}
VERSION_2 = {
    "/sys/fs/cgroup/memory.max": f"{2 * GIB}\n",
    "/sys/fs/cgroup/memory.current": f"{GIB}\n",
    "/sys/fs/cgroup/memory.stat": f"anon 1\ninactive_file {GIB // 4}\nactive_file 7\n",
}
VERSION_1 = {
    "/sys/fs/cgroup/memory/memory.limit_in_bytes": f"{3 * GIB}",
    "/sys/fs/cgroup/memory/memory.usage_in_bytes": f"{GIB}",
    "/sys/fs/cgroup/memory/memory.stat": f"cache 1\ntotal_inactive_file {GIB // 2}\n",
}
NO_LIMIT = {"/sys/fs/cgroup/memory/memory.limit_in_bytes": str(2**63 - 4096)}


@pytest.mark.parametrize(
    ("files", "reserved", "available"),
    [
        ({}, 0, None),
        ({"/proc/meminfo": "MemTotal: 1 kB\n"}, 0, None),
        (MEMINFO, 0, 4 * GIB),
        (MEMINFO, GIB, 3 * GIB),
        ({**MEMINFO, **VERSION_2}, 0, GIB + GIB // 4),
        ({**MEMINFO, **VERSION_2, "/sys/fs/cgroup/memory.max": "max\n"}, 0, 4 * GIB),
        ({**MEMINFO, **VERSION_1}, 0, 2 * GIB + GIB // 2),
        ({**MEMINFO, **VERSION_1, **NO_LIMIT}, 0, 4 * GIB),
        (VERSION_2, 2 * GIB, GIB // 4 - GIB),
    ],
)
def test_what_is_left_is_the_least_of_machine_and_group(
    files: dict[str, str], reserved: int, available: int | None
) -> None:
    assert available_bytes(reserved, files.get) == available


def test_this_machine_can_be_asked() -> None:
    available = available_bytes(0)

    assert available is None or available > 0


@pytest.mark.parametrize(
    ("messages", "available", "fits"),
    [
        (1_000_000, None, True),
        (1_000_000, 1_000_000 * BYTES_PER_MESSAGE, True),
        (1_000_000, 1_000_000 * BYTES_PER_MESSAGE - 1, False),
        (20_000_000, 4 * GIB, False),
        (ALWAYS_FIT, -1, True),
        (ALWAYS_FIT + 1, -1, False),
    ],
)
def test_ids_that_do_not_fit_are_refused_with_the_way_on(
    messages: int, available: int | None, fits: bool
) -> None:
    if fits:
        require_memory(messages, available)
        return
    with pytest.raises(InputError, match=f"the ids of {messages:,} messages need about .*--where"):
        require_memory(messages, available)


@pytest.mark.parametrize(
    ("message_bytes", "available", "fits"),
    [
        (GIB, None, True),
        (GIB, GIB * BYTES_PER_SENT_BYTE, True),
        (GIB, GIB * BYTES_PER_SENT_BYTE - 1, False),
        (ALWAYS_SENT_BYTES, -1, True),
        (ALWAYS_SENT_BYTES + 1, -1, False),
    ],
)
def test_messages_that_do_not_fit_are_refused_with_the_way_on(
    message_bytes: int, available: int | None, fits: bool
) -> None:
    if fits:
        require_memory_to_send(message_bytes, available)
        return
    with pytest.raises(InputError, match=r"MiB of messages to send need about .*--limit"):
        require_memory_to_send(message_bytes, available)
