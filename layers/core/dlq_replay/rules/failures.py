"""The record of why a consumer failed on a message: SQS itself keeps no error. Pure.

A record has the exception's type, its code, the start of its text, without what differs between its
occurrences, and the innermost frames of the consumer's own code. Where own code raised it ``from``
another exception of own code, the type and text of the innermost such cause follow its text. There
is never a body, arguments, locals, other causes or notes. Some libraries quote their input in the
text of an exception: ``redact`` decides which part of the text is kept. By default the recorder
uses ``masks``, which cannot recognise names, postal addresses and free text.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from traceback import walk_tb
from types import CodeType
from typing import Any, Self, TypeVar

from dlq_replay.wire.context import FailureError, error_code_of

_T = TypeVar("_T")
Redact = Callable[[str], str]
"""Takes the first 10,000 characters of an exception's text; returns what may be kept."""

NOT_REDACTED = "<redaction failed>"
"""Replaces the text if ``redact`` itself failed: then nothing of the text is kept."""

TTL_SECONDS = 14 * 24 * 3600
"""Lifetime of a failure: as long as SQS can keep a message."""

ERROR_TYPE_CHARACTERS = 256
ERROR_MESSAGE_CHARACTERS = 300

_READ_CHARACTERS = 10_000
_CONTEXT_TYPE_CHARACTERS = 128
_FRAMES = 5
_FRAMES_BYTES = 1024
_CAUSES = 16
_TEXT_BEFORE_CAUSE = 80
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
        any of a text is kept; if it fails, ``NOT_REDACTED`` replaces the text. Without
        *error_code* the attribute ``error_code`` of the exception counts, if it has one; what is no
        code is ignored. The frames are those of the cause, where the text names one.
        """
        text = _text(exception, redact)
        cause = _attempt(lambda: _own_cause(exception), None)
        if cause is not None:
            cause_text = _text(cause, redact)
            if not cause_text or cause_text not in text:
                text = _with_cause(text, _name(cause), cause_text)
        own_code = _attempt(lambda: error_code_of(getattr(exception, "error_code", None)), None)
        return cls(
            message_id=message_id,
            error_type=_end(_name(exception)),
            error_message=text[:ERROR_MESSAGE_CHARACTERS].rstrip(),
            failed_at_seconds=now_seconds,
            error_code=error_code_of(error_code) or own_code,
            frames=_attempt(lambda: _own_frames(cause or exception), ""),
        )

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> Self:
        """Read an item of the table, which a consumer in any language may have written.

        Only ``message_id`` and ``error_type`` are required. What is no code is ignored.

        Raises:
            ValueError: one of those two is absent, empty or not text. The caller continues as if
                there were no item.
        """
        names = ("message_id", "error_type", "error_message", "error_code", "frames")
        texts = [str(item.get(name, {}).get("S", "")) for name in names]
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
        text, its last word does not count. Where the text names little, the place of the first
        frame says which failure this is.
        """
        error_type = _hidden(self.error_type)
        text = _hidden(self.error_message)
        ascii_type = "".join(c if c.isascii() and c.isprintable() else "?" for c in error_type)
        if len(self.error_message) >= ERROR_MESSAGE_CHARACTERS:
            text = text.rpartition(" ")[0] or text
        short_type = ascii_type[-_CONTEXT_TYPE_CHARACTERS:] or "Error"
        masked_text = _masked(text)
        place = "" if self.error_code else _place(error_type, masked_text, _hidden(self.frames))
        return FailureError(short_type, masked_text, self.error_code, place)

    def matches(self, patterns: Iterable[str]) -> bool:
        """Return whether one of *patterns* matches the error's type, with or without its module.

        ``*``, ``?`` and ``[...]`` are wildcards. Matching is case-sensitive.
        """
        full = self.error_type
        short = full.rpartition(".")[2]
        for pattern in patterns:
            if fnmatchcase(full, pattern) or fnmatchcase(short, pattern):
                return True
        return False


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


def _text(exception: BaseException, redact: Redact | None) -> str:
    """Return the part of an exception's text that may be kept, without the parts that differ."""
    text = _attempt(lambda: str(exception)[:_READ_CHARACTERS], "")
    if redact is not None and text:
        text = _attempt(lambda: redact(text)[:_READ_CHARACTERS], NOT_REDACTED)
    return _attempt(lambda: _masked(text), "")


def _name(exception: BaseException) -> str:
    return _attempt(lambda: _hidden(_type_name(type(exception))), "Exception")


def _own_cause(exception: BaseException) -> BaseException | None:
    """Return the innermost cause that passed through the consumer's own code, if there is one."""
    own: BaseException | None = None
    cause = exception.__cause__
    for _ in range(_CAUSES):
        if cause is None or cause is exception:
            break
        own = cause if _own_codes(cause) else own
        cause = cause.__cause__
    return own


def _with_cause(text: str, cause_type: str, cause_text: str) -> str:
    """Return both texts, the first one short enough that a parked copy has room for the other."""
    start = text
    if len(text) > _TEXT_BEFORE_CAUSE:
        start = text[:_TEXT_BEFORE_CAUSE].rpartition(" ")[0]
    cause = f"{cause_type}: {cause_text}" if cause_text else cause_type
    return f"{start} from {cause}" if start else f"from {cause}"


def _masked(text: str) -> str:
    # Not at import: compiling the patterns takes time, and most starts park nothing.
    from dlq_replay.text.normalization import mask_error  # noqa: PLC0415

    return mask_error(one_line(text))


def _place(error_type: str, masked_text: str, frames: str) -> str:
    # Not at import, as in ``_masked``.
    from dlq_replay.text.places import names_little, place_of  # noqa: PLC0415

    return place_of(frames) if names_little(error_type, masked_text) else ""


def _own_frames(exception: BaseException) -> str:
    frames: list[str] = []
    for code, line in reversed(_own_codes(exception)[-_FRAMES:]):
        frame = f"{code.co_filename}:{line} in {code.co_name}"
        frames.append(one_line(frame))
    text = _hidden("\n".join(frames))
    return text.encode("utf-8", "replace")[:_FRAMES_BYTES].decode("utf-8", "ignore")


def _own_codes(exception: BaseException) -> list[tuple[CodeType, int]]:
    """Return the functions of own code that it passed through, with lines, the innermost last."""
    codes: list[tuple[CodeType, int]] = []
    for frame, line in walk_tb(exception.__traceback__):
        code = frame.f_code
        if not _FOREIGN.search(code.co_filename):
            codes.append((code, line))
    return codes


def _type_name(kind: type[BaseException]) -> str:
    name = kind.__qualname__
    if kind.__module__ != "builtins":
        name = f"{kind.__module__}.{name}"
    return one_line(name) or "Exception"


def _end(error_type: str) -> str:
    """Keep the end of a type's name: its last segment says most."""
    return error_type[-ERROR_TYPE_CHARACTERS:].lstrip()
