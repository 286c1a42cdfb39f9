"""All verbs: each has a module, which defines it as ``VERB``; ``trigger`` has two.

Verbs of the stack also get ``stack`` (a name or None) and ``session`` (of boto3).
"""

import sys

from dlq.errors import InputError


def require_yes(question: str, otherwise: str) -> None:
    """Ask a question, given without "Go on?", on the terminal.

    Raises:
        InputError: the answer is no; or no question can be asked, and *otherwise* says what to do.
    """
    if not sys.stdin.isatty():
        raise InputError(f"no question can be asked here, because this is no terminal: {otherwise}")
    sys.stderr.write(f"{question} Go on? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise InputError("nothing was done")
