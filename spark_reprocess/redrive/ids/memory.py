"""Whether the ids of a run fit into the memory of the driver.

The driver's Python process holds the ids of all messages of a plan. A process that needs more
memory than there is gets killed, without a word, and maybe in the middle of a send. So a run that
would need too much ends before it reads them.
"""

from spark_reprocess.errors import InputError

BYTES_PER_MESSAGE = 800
"""At the peak. Measured by ``benchmarks/ids.py``: a million messages of a FIFO queue took 723 MB,
five million 3,279 MB; a million of a standard queue 428 MB."""

ALWAYS_FIT = 100_000
"""So few messages are never refused: they take less than what any driver needs to start."""

_MEBIBYTE = 1024 * 1024


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
    if messages <= ALWAYS_FIT or available_bytes is None or needed_bytes <= available_bytes:
        return
    fitting = max(0, available_bytes) // BYTES_PER_MESSAGE
    raise InputError(
        f"the ids of {messages:,} messages need about {needed_bytes // _MEBIBYTE:,} MiB of the "
        f"driver's memory, which has {max(0, available_bytes) // _MEBIBYTE:,} MiB left, enough for "
        f"{fitting:,}; make a smaller plan, with collect --only analyze --where, or run on a "
        "machine with more memory"
    )
