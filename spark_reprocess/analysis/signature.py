"""What makes two failures the same. Pure; version ``v1``.

A message with a recorded error is known by the error: its type, and its message with everything
masked that changes from one occurrence to the next (times, UUIDs, addresses, quoted texts, long
ids, numbers). A message without one is known by why it was parked and by the shape of its payload,
inside whatever it is wrapped in; ``shape`` and ``payload`` have the rules.

The same message has the same signature in every run. A change to any rule is a new version,
because plans name groups by id.
"""

import hashlib
from dataclasses import dataclass
from functools import lru_cache

from dlq_replay.failures import one_line
from spark_reprocess.analysis.shape import shape_of
from spark_reprocess.analysis.varying import mask_error

SIGNATURE_VERSION = "v1"
PARKED_BY_SQS = "parked_by_sqs"
"""The reason of a message without one: SQS's own redrive policy parked it."""

TITLE_CHARACTERS = 160
_UNKNOWN_ERROR = "Error"


@dataclass(frozen=True, slots=True)
class Signature:
    """A failure's identity and how to call it.

    Attributes:
        key: everything that distinguishes it, on one line.
        text: what a human needs to see of it.
        wordless: the same without the words of a text body.
    """

    key: str
    text: str
    wordless: str

    @property
    def group_id(self) -> str:
        """``g-`` and ten hex digits, the same in every run for the same key."""
        return _group_id(self.key)

    @property
    def title(self) -> str:
        """The text as a title, nothing in it masked."""
        return short_title(self.text)


def signature_of(
    body: str, parked_reason: str | None, error_type: str | None, error_message: str | None
) -> Signature:
    """Tell what kind of failure this is. Never raises, whatever the texts hold."""
    if has_error(error_type, error_message):
        masked = mask_error(error_message or "")
        error = ": ".join(part for part in (error_type or _UNKNOWN_ERROR, masked) if part)
        title = error if one_line(error) else _UNKNOWN_ERROR
        return Signature(f"error|{error}", title, title)
    reason = parked_reason or PARKED_BY_SQS
    shape = shape_of(body)
    return Signature(
        f"shape|{reason}|{shape.key}", f"{reason}: {shape.title}", f"{reason}: {shape.wordless}"
    )


def short_title(text: str) -> str:
    """Return *text* on one line, at most 160 printable characters."""
    line = one_line(text)
    return line if len(line) <= TITLE_CHARACTERS else f"{line[: TITLE_CHARACTERS - 1]}…"


def has_error(error_type: str | None, error_message: str | None) -> bool:
    """Whether an error was recorded: then the body does not matter."""
    return bool(error_type or error_message)


@lru_cache(maxsize=8192)
def _group_id(key: str) -> str:
    digest = hashlib.sha256(f"{SIGNATURE_VERSION}|{key}".encode("utf-8", "replace"))
    return f"g-{digest.hexdigest()[:10]}"
