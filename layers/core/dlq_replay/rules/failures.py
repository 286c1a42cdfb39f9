"""The record of why a consumer failed on a message: SQS itself keeps no error. Pure.

A record has the exception's type, its code, the start of its text, without what differs between its
occurrences, and the innermost frames of the consumer's own code; never a body, arguments, locals,
causes or notes. Some libraries quote their input in the text of an exception: ``redact`` decides
which part of the text is kept. By default the recorder uses ``masks``, which cannot recognise
names, postal addresses and free text.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from traceback import walk_tb
from typing import Any, Self, TypeVar

from dlq_replay.wire.context import FailureError, error_code_of

_T = TypeVar("_T")
Redact = Callable[[str], str]
"""Takes the first 10,000 characters of an exception's text; returns what may be kept."""

NOT_REDACTED = "<redaction failed>"
"""Replaces the text if ``redact`` itself failed: then nothing of the text is kept."""

TTL_SECONDS = 14 * 24 * 3600
"""How long a failure is kept: as long as SQS can keep a message."""

ERROR_TYPE_CHARACTERS = 256
ERROR_MESSAGE_CHARACTERS = 300

_READ_CHARACTERS = 10_000
_CONTEXT_TYPE_CHARACTERS = 128
_FRAMES, _FRAMES_BYTES = 5, 1024
_FOREIGN = re.compile(
    r"/(?:site|dist)-packages/|/lib/python\d|^/(?:var/(?:runtime|lang)|opt/python)/|^<"
    r"|/dlq_replay/consumer/"
)


@dataclass(frozen=True, slots=True)
class Failure:
    """One copy's latest failure. Every text is printable and on one line.

    Attributes:
        message_id: of the copy that failed; a replay makes another copy, with an id of its own.
        error_type: the exception's class with its module (without it for builtins); 1 to 256
            characters.
        error_message: the start of its text, at most 300 characters, as ``normalization`` leaves
            it; of another program as that wrote it, at most 10,000. Empty if it has none.
        failed_at_seconds: epoch seconds; for people, and never read again.
        error_code: the consumer's name of the failure, as ``error_code_of`` returns it.
        frames: where the consumer's own code raised it, innermost first, masked, a line each
            (``/var/task/tax.py:17 in rate``); at most 1 KiB.
    """

    message_id: str
    error_type: str
    error_message: str = ""
    failed_at_seconds: int = field(default=0, compare=False)
    error_code: str | None = None
    frames: str = field(default="", compare=False)

    @classmethod
    def of(
        cls,
        message_id: str,
        exception: BaseException,
        now_seconds: int,
        redact: Redact | None = None,
        error_code: str | None = None,
    ) -> Self:
        """Describe *exception*. Never raises an ``Exception``, whatever the exception's class does.

        An exception group is described as a group, not by its members. *redact* is called before
        any of the text is kept; if it fails, ``NOT_REDACTED`` replaces the text. Without
        *error_code* the attribute ``error_code`` of the exception counts, if it has one; what is no
        code is ignored.
        """
        text = _attempt(lambda: str(exception)[:_READ_CHARACTERS], "")
        if redact is not None and text:
            text = _attempt(lambda: redact(text)[:_READ_CHARACTERS], NOT_REDACTED)
        error_type = _attempt(lambda: _hidden(_type_name(type(exception))), "Exception")
        start = _attempt(lambda: _masked(text), "")[:ERROR_MESSAGE_CHARACTERS].rstrip()
        own_code = _attempt(lambda: error_code_of(getattr(exception, "error_code", None)), None)
        code = error_code_of(error_code) or own_code
        frames = _attempt(lambda: _own_frames(exception), "")
        return cls(message_id, _end(error_type), start, now_seconds, code, frames)

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> Self:
        """Read an item of the table, which a consumer in any language may have written.

        Only ``message_id`` and ``error_type`` are required. What is no code is ignored.

        Raises:
            ValueError: one of those two is absent, empty or not text. The caller continues as if
                there were no item.
        """
        names = ("message_id", "error_type", "error_message", "error_code", "frames")
        texts = (str(item.get(name, {}).get("S", "")) for name in names)
        message_id, error_type, text, code, frames = texts
        error_type = _end(one_line(error_type))
        if not message_id or not error_type:
            raise ValueError("message_id and error_type must be text of at least one character")
        message = one_line(text)[:_READ_CHARACTERS].rstrip()
        lines = "\n".join(map(one_line, frames[:_FRAMES_BYTES].splitlines()))
        return cls(message_id, error_type, message, error_code=error_code_of(code), frames=lines)

    def to_item(self) -> dict[str, dict[str, str]]:
        """Return an item of the table, in DynamoDB's low-level JSON."""
        return {
            "message_id": {"S": self.message_id},
            "error_type": {"S": self.error_type},
            **({"error_code": {"S": self.error_code}} if self.error_code else {}),
            "error_message": {"S": self.error_message},
            **({"frames": {"S": self.frames}} if self.frames else {}),
            "failed_at": {"N": str(self.failed_at_seconds)},
            "expires_at": {"N": str(self.failed_at_seconds + TTL_SECONDS)},
        }

    def to_failure_error(self) -> FailureError:
        """Return the form for a parked copy's context: the end of the type, in printable ASCII.

        Both are masked, as they may come from another program. Where that one may have cut the
        text, its last word does not count.
        """
        error_type, text = _hidden(self.error_type), _hidden(self.error_message)
        ascii_type = "".join(c if c.isascii() and c.isprintable() else "?" for c in error_type)
        if len(self.error_message) >= ERROR_MESSAGE_CHARACTERS:
            text = text.rpartition(" ")[0] or text
        short_type = ascii_type[-_CONTEXT_TYPE_CHARACTERS:] or "Error"
        return FailureError(short_type, _masked(text), self.error_code)

    def matches(self, patterns: Iterable[str]) -> bool:
        """Return whether one of *patterns* matches the error's type, with or without its module.

        ``*``, ``?`` and ``[...]`` are wildcards. Matching is case-sensitive.
        """
        types = (self.error_type, self.error_type.rpartition(".")[2])
        return any(fnmatchcase(one, pattern) for pattern in patterns for one in types)


def one_line(text: str) -> str:
    """Replace each run of spaces and unprintable characters with one space; strip the ends.

    So the text cannot move the cursor of a terminal.
    """
    if text.isprintable() and "  " not in text and text[:1] != " " and text[-1:] != " ":
        return text
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _attempt(read: Callable[[], _T], otherwise: _T) -> _T:
    """Call *read* on an exception, whose class may do anything, even raise."""
    try:
        return read()
    except Exception:  # noqa: BLE001 - the consumer's exception must not be replaced by another
        return otherwise


def _hidden(text: str) -> str:
    # Not at import, as in ``_masked``.
    from dlq_replay.text.masks import mask_text  # noqa: PLC0415

    return mask_text(text)


def _masked(text: str) -> str:
    # Not at import: compiling the patterns takes time, and most starts park nothing.
    from dlq_replay.text.normalization import mask_error  # noqa: PLC0415

    return mask_error(one_line(text))


def _own_frames(exception: BaseException) -> str:
    codes = [(frame.f_code, line) for frame, line in walk_tb(exception.__traceback__)]
    frames = [
        one_line(f"{code.co_filename}:{line} in {code.co_name}")
        for code, line in codes
        if not _FOREIGN.search(code.co_filename)
    ]
    text = _hidden("\n".join(frames[: -_FRAMES - 1 : -1]))
    return text.encode("utf-8", "replace")[:_FRAMES_BYTES].decode("utf-8", "ignore")


def _type_name(kind: type[BaseException]) -> str:
    module, name = kind.__module__, kind.__qualname__
    qualified = name if module == "builtins" else f"{module}.{name}"
    return one_line(qualified) or "Exception"


def _end(error_type: str) -> str:
    """Keep the end of a type's name: its last segment says most."""
    return error_type[-ERROR_TYPE_CHARACTERS:].lstrip()
