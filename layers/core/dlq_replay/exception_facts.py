"""What an exception tells of itself, within limits and whatever its class does. Pure.

Nothing here raises an ``Exception``: it runs while a consumer's own exception is on its way.
"""

import hashlib
import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import TypeVar

NOT_REDACTED = "<redaction failed>"
"""Stands for the text where ``redact`` itself failed: then nothing of the text is kept."""

Redact = Callable[[str], str]
"""Takes an exception's text, its first 10,000 characters, and returns what of it may be kept."""

_READ_CHARACTERS = 10_000
_MASK_CHARACTERS = 2_000
_MASKED_CHARACTERS = 300
_FRAMES = 3
_KIT = "dlq_replay.consumer"

# In this order: what one mask covers is not taken apart by the next.
_MASKS = (
    (re.compile(r"(?i)\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<n>"),
    (re.compile(r'"[^"]*"'), "<text>"),
    (re.compile(r"(?<!\w)'[^']*'(?!\w)"), "<text>"),
    (re.compile(r"(?i)\b(?:0x[0-9a-f]+|(?=[a-f]*\d)[0-9a-f]{8,})\b"), "<n>"),
    (re.compile(r"\d+(?:[.,]\d+)*"), "<n>"),
)

_T = TypeVar("_T")
_Frames = list[tuple[FrameType, int]]


@dataclass(frozen=True, slots=True)
class ExceptionFacts:
    """What may be kept of an exception. Texts are printable, on one line, and not cut yet.

    Attributes:
        type_name: the class with its module; builtins without.
        text: the start of what ``str`` says, redacted.
        places: ``file.py:line in function``, up to three, the innermost first.
        fingerprint: 16 hex digits of the type, the text with numbers, ids and quoted parts
            masked, and the innermost functions without their lines.
    """

    type_name: str
    text: str
    places: tuple[str, ...]
    fingerprint: str

    @classmethod
    def of(cls, exception: BaseException, redact: Redact | None) -> "ExceptionFacts":
        """Read the facts of the exception itself, not of its causes, notes or group members."""
        type_name = _attempt(lambda: _type_name(type(exception)), "Exception")
        text = _attempt(lambda: str(exception)[:_READ_CHARACTERS], "")
        if redact is not None and text:
            text = _attempt(lambda: redact(text)[:_READ_CHARACTERS], NOT_REDACTED)
        text = _attempt(lambda: one_line(text), "")
        frames: _Frames = _attempt(lambda: _innermost(exception.__traceback__), [])
        functions = [one_line(frame.f_code.co_qualname) for frame, _ in frames]
        return cls(
            type_name=type_name,
            text=text,
            places=tuple(_place(frame, line) for frame, line in frames),
            fingerprint=_fingerprint(type_name, text, functions),
        )


def one_line(text: str) -> str:
    """Make every run of what is not printable, or is a space, one space; none at the ends."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _attempt(read: Callable[[], _T], otherwise: _T) -> _T:
    """Read something of an object whose class may do anything, even raise."""
    try:
        return read()
    except Exception:  # noqa: BLE001 - the consumer's exception must not be replaced by another
        return otherwise


def _type_name(kind: type[BaseException]) -> str:
    module, name = kind.__module__, kind.__qualname__
    qualified = name if module == "builtins" else f"{module}.{name}"
    return one_line(qualified) or "Exception"


def _innermost(traceback: TracebackType | None) -> _Frames:
    """The frames nearest to the raise, innermost first, without the recorder's own."""
    nearest: deque[tuple[FrameType, int]] = deque(maxlen=_FRAMES)
    while traceback is not None:
        if not str(traceback.tb_frame.f_globals.get("__name__")).startswith(_KIT):
            nearest.append((traceback.tb_frame, traceback.tb_lineno or 0))
        traceback = traceback.tb_next
    return list(reversed(nearest))


def _place(frame: FrameType, line: int) -> str:
    code = frame.f_code
    file = code.co_filename.replace("\\", "/").rpartition("/")[2]
    return one_line(f"{file}:{line} in {code.co_qualname}")


def _fingerprint(type_name: str, text: str, functions: Sequence[str]) -> str:
    masked = text[:_MASK_CHARACTERS]
    for pattern, replacement in _MASKS:
        masked = pattern.sub(replacement, masked)
    # Cut after masking: a longer number must not push other words out of the comparison.
    identity = "\n".join([type_name, masked[:_MASKED_CHARACTERS], *functions])
    return hashlib.sha256(identity.encode()).hexdigest()[:16]
