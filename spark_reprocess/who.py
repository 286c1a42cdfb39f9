"""Who acts, for the ledger."""

import getpass
import socket


def who() -> str:
    """Name the user and the machine, ``user@host``; the user is "unknown" where nothing tells."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
