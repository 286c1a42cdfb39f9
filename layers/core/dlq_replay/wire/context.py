"""The ``sqs-dlq-context`` attribute: what we must remember of a dead letter between its copies.

Pure. SQS does not encrypt attributes, so no body and no secret belongs here.

A context belongs to one body. A consumer that passes attributes on gives it to other bodies, where
it must not count: else all that a replayed message leads to would have that message's first id.
"""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from dlq_replay.wire.addresses import is_queue_name

CONTEXT_ATTRIBUTE = "sqs-dlq-context"
CONTEXT_VERSION = 1
CONTEXT_MAX_BYTES = 1024
_FIELD = re.compile(r"[ -~]{1,128}")
_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
KEPT_ERROR_BYTES = 200
"""An error's message of this size, as JSON, has room beside all else that a parked copy has."""

_ERROR_MESSAGE_CHARACTERS = 200
_ERROR_CODE = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
SECONDS_MAX = 10**11 - 1
"""The latest time that a context may have: the room for a copy is measured with it."""

# Made once: json.dumps would make one for each call that wants no blanks.
_in_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode
_read_json = json.JSONDecoder().decode


def body_digest(body: str, md5_of_body: str = "") -> str:
    """Return ``h`` of a body: the first eight hex digits of the MD5 that SQS gives for it.

    Without *md5_of_body*, SQS's own, it is computed. The two differ where a client library put
    another body in place of the one that SQS transported.
    """
    if not md5_of_body:
        raw = body.encode("utf-8", "surrogatepass")
        md5_of_body = hashlib.md5(raw, usedforsecurity=False).hexdigest()
    return md5_of_body[:8].lower()


class InheritedContextError(ValueError):
    """The context is of another body, or names none."""


@dataclass(frozen=True, slots=True)
class FailureError:
    """The error that a consumer recorded, its text shortened.

    Attributes:
        code: as ``error_code_of``.
        place: where the consumer's own code failed, as ``places.place_of``; only of an error whose
            text names little and which has no code, else empty.
    """

    type: str
    message: str
    code: str | None = None
    place: str = ""


def error_code_of(value: object) -> str | None:
    """Return text of 1 to 64 ASCII letters, digits, ``_``, ``-``, ``.``, ``:``; None for others."""
    match = _ERROR_CODE.fullmatch(value) if isinstance(value, str) else None
    return match and match[0]


# No frozen dataclass: that takes three times as long to make, and each message needs two.
class ReplayContext(NamedTuple):
    """The data that travel with a dead letter. Every field may be unknown, which is None.

    Texts are printable ASCII of 1 to 128 characters; ids are of letters, digits, ``_``, ``-``,
    ``.`` and ``:``. On a copy that we send the whole is at most
    1,024 bytes: ``to_json`` says what is cut or left out where it would be more.

    Attributes:
        first_id: SQS message id of the first copy.
        body_digest: ``body_digest`` of the body that it belongs to; on every copy that we send.
        first_seen_seconds: when the Lambda first saw it, epoch seconds.
        due_seconds: when its wait ends, epoch seconds; only on copies in the DLQ.
        reason: why it was parked; only on parked copies.
        error: why the consumer failed; only on parked copies.
        plan_id: the redrive plan that last sent it.
        source_queue: name of the queue that it was a dead letter of.
        held_seconds: when a limit of the circuit breaker first touched it, epoch seconds; until it
            is replayed without a limit.
        group_id: the group of that plan for which the replay function counts its return.
        is_back: whether it came back since, and that was counted if anyone asked.
        in_step: whether it belongs to a step of the plan that is not yet known to be good: it is
            parked at its first return. Not on parked copies.
        last_id: SQS message id of the copy that the consumer saw last; only on copies in the DLQ
            and on parked ones. A log names it.
    """

    first_id: str | None = None
    body_digest: str | None = None
    first_seen_seconds: int | None = None
    due_seconds: int | None = None
    reason: str | None = None
    error: FailureError | None = None
    plan_id: str | None = None
    source_queue: str | None = None
    held_seconds: int | None = None
    group_id: str | None = None
    is_back: bool = False
    in_step: bool = False
    last_id: str | None = None

    @classmethod
    def from_json(cls, text: str, of_body: Callable[[], str] | None = None) -> Self:
        """Read the attribute's text. Other keys are ignored, and are not in a rewritten context.

        *of_body* returns the digest of the body beside it; None to accept the context of any.

        Raises:
            InheritedContextError: it belongs to another body.
            ValueError: this is no context of version 1; the caller goes on as if there were none
                and says so in the log.
        """
        if len(text) > CONTEXT_MAX_BYTES:
            # None of ours: 1 MiB of JSON takes seconds to read, and is in each message.
            raise ValueError(f"longer than {CONTEXT_MAX_BYTES:,} bytes")
        try:
            raw = _read_json(text)
        except (ValueError, RecursionError) as error:
            raise ValueError("not JSON") from error
        if not isinstance(raw, dict):
            raise ValueError("must be a JSON object")  # noqa: TRY004 - one error type for the caller
        if of_body is not None and raw.get("h") != of_body():
            raise InheritedContextError("it belongs to another body")
        if raw.get("v") != CONTEXT_VERSION:
            raise ValueError(f"v must be {CONTEXT_VERSION}")
        fields: dict[str, Any] = {}
        for key, value in raw.items():
            if value is not None and key in _KEYS:
                name, read = _KEYS[key]
                fields[name] = read(key, value)
        return cls(**fields)

    def to_json(self) -> str:
        """Format it compactly, in ASCII.

        Where it would be more than 1,024 bytes, the error's message is cut, then ``last`` is left
        out, then the whole error: only for fields that a producer made wider than ours are. That is
        enough for the fields that one copy has, not for all at their widest.
        """
        text = self._format("")
        left_bytes = CONTEXT_MAX_BYTES - len(text)
        if left_bytes < 0 and (self.last_id or self.error):
            less = self._replace(last_id=None) if self.last_id else self._replace(error=None)
            return less.to_json()
        if self.error is None:
            return text
        message = self.error.message[:_ERROR_MESSAGE_CHARACTERS]
        return self._format(start_in_json(message, left_bytes))

    def _format(self, error_message: str) -> str:
        fields: dict[str, Any] = {"v": CONTEXT_VERSION}
        for key, value in zip(_KEYS, self, strict=True):
            if value is not None and value is not False:
                fields[key] = 1 if value is True else value
        if self.error is not None:
            code = {} if self.error.code is None else {"code": self.error.code}
            place = {"at": self.error.place} if self.error.place else {}
            fields["error"] = {"type": self.error.type, **code, **place, "message": error_message}
        return _in_json(fields)


def start_in_json(text: str, most_bytes: int) -> str:
    """Return the start of *text* that takes up to *most_bytes* within ASCII JSON."""
    if len(_in_json(text)) - 2 <= most_bytes:
        return text
    left = most_bytes
    for place, character in enumerate(text):
        left -= len(_in_json(character)) - 2
        if left < 0:
            return text[:place]
    return text


def _text(key: str, value: object) -> str:
    if not (isinstance(value, str) and _FIELD.fullmatch(value)):
        raise ValueError(f"{key} must be 1 to 128 printable ASCII characters")
    return value


def _id(key: str, value: object) -> str:
    # Ids are shown: one that a producer made up must not be a sentence, or an e-mail address.
    if not (isinstance(value, str) and _ID.fullmatch(value)):
        raise ValueError(f"{key} must be 1 to 128 letters, digits, '_', '-', '.' and ':'")
    return value


def _queue_name(key: str, value: object) -> str:
    if not (isinstance(value, str) and is_queue_name(value)):
        raise ValueError(f"{key} must be the name of an SQS queue")
    return value


def _seconds(key: str, value: object) -> int:
    if type(value) is not int or not 0 <= value <= SECONDS_MAX:
        raise ValueError(f"{key} must be epoch seconds, a whole number of at most 11 digits")
    return value


def _mark(key: str, value: object) -> bool:
    if type(value) is not int or value != 1:
        raise ValueError(f"{key} must be 1")
    return True


def _error(key: str, value: object) -> FailureError:
    if not isinstance(value, dict):
        raise ValueError(f"{key} must be an object")  # noqa: TRY004 - one error type for the caller
    error_type = "Error" if value.get("type") is None else _text("type", value["type"])
    code = value.get("code")
    if code is not None and not error_code_of(code):
        raise ValueError("code must be 1 to 64 letters, digits, '_', '-', '.' and ':'")
    place = "" if value.get("at") is None else _text("at", value["at"])
    return FailureError(error_type, str(value.get("message", "")), code, place)


_KEYS: dict[str, tuple[str, Callable[[str, object], object]]] = {
    "id": ("first_id", _id),
    "h": ("body_digest", _text),
    "t0": ("first_seen_seconds", _seconds),
    "due": ("due_seconds", _seconds),
    "reason": ("reason", _text),
    "error": ("error", _error),
    "plan": ("plan_id", _id),
    "src": ("source_queue", _queue_name),
    "held": ("held_seconds", _seconds),
    "g": ("group_id", _id),
    "back": ("is_back", _mark),
    "step": ("in_step", _mark),
    "last": ("last_id", _id),
}
"""The keys in their order on the wire, which is that of the fields, and what reads each value."""
