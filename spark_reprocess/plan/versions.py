"""Versions of the files that people edit. Pure."""

from dlq_replay import __version__


def is_newer(found: object, known: int) -> bool:
    """Whether a file's version is a later one than the newest that this program reads."""
    return type(found) is int and found > known


def version_fault(found: object, known: int) -> str | None:
    """Say what is wrong with a file's version and what to do; None where nothing is.

    Args:
        found: what the file says.
        known: the newest that this program reads.
    """
    if is_newer(found, known):
        return (
            f"version: {found} is newer than version {known}, the newest that this program "
            f"({__version__}) reads; update the program"
        )
    is_known = type(found) is int and found == known
    return None if is_known else f"version: {found!r}: must be {known}"
