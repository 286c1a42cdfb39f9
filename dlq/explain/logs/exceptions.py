"""The exception that a log record is about: type, text, frames of the application's code. Pure.

Records are text, or the JSON of Powertools, pino, logback, log4j, serilog, slog, tracing, the
Elastic Common Schema and of Lambda's own runtimes. ``traces`` reads the text, also that in JSON.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from dlq.explain.logs.events import HEADER, is_error
from dlq.explain.logs.traces import (
    LoggedError,
    ended_request,
    error_in_text,
    is_wrapper,
    own_frames,
    unwrapped,
)
from dlq_replay.rules.failures import ERROR_MESSAGE_CHARACTERS, ERROR_TYPE_CHARACTERS, one_line
from dlq_replay.text.masks import mask_text

_FRAMES_BYTES = 1024
_READ_CHARACTERS = 32_768
_DEPTH = 3
"""Levels of objects within objects that are read: errors in messages, causes of causes."""

_OWN_TYPES = ("errorType", "exception_name", "exception_class", "error.type")
_TYPES = (*_OWN_TYPES, "class", "type", "name")
_OWN_TEXTS = ("errorMessage", "exception_message", "error.message")
_TEXTS = (*_OWN_TEXTS, "message")
_ERRORS = ("error", "err", "exception", "thrown", "Exception", "@x", "stack_trace", "stackTrace")
_STACKS = (
    *_ERRORS,
    "stack",
    "stacktrace",
    "extendedStackTrace",
    "error.stack_trace",
    "errorVerbose",
)
_INSIDE = ("message", "fields", "msg", "log")
"""Fields in which a writer puts the error itself, as an object or as text."""

_OF_RUBY_RUNTIME = re.compile(r"^(?:Function|Runtime|Init)<(.+)>$")


def logged_error(text: str) -> LoggedError | None:
    """Return the exception that a record logs as an error; None where it logs none.

    It is masked, on one line, and cut as a consumer's recorder cuts it; frames have at most 1 KiB.
    """
    text = text[:_READ_CHARACTERS]
    fields = _fields(text)
    if is_error(text if fields else text.partition("\n")[0]) is False:
        return None

    error = _error_in_fields(fields, text) if fields else error_in_text(text)
    if error is None:
        return None
    return LoggedError(
        one_line(mask_text(error.type))[-ERROR_TYPE_CHARACTERS:],
        one_line(mask_text(error.message))[:ERROR_MESSAGE_CHARACTERS].rstrip(),
        mask_text(error.frames).encode()[:_FRAMES_BYTES].decode("utf-8", "ignore"),
        error.ended_request,
    )


def _fields(text: str) -> Mapping[str, Any] | None:
    """Return the fields of a record that is JSON; None for plain text.

    Lambda writes time, request and level before JSON that an application logs as text, with tabs.
    AWS's Ruby runtime writes a sentence on a line of its own before it.
    """
    before, brace, rest = text.partition("{")
    is_json = brace and (not before.strip() or "\t" in before or before.endswith("\n"))
    if not is_json:
        return None
    try:
        return dict(json.loads(brace + rest))
    except (ValueError, RecursionError):
        return None


def _error_in_fields(
    fields: Mapping[str, Any], text: str, depth: int = _DEPTH
) -> LoggedError | None:
    by_platform = _of_platform(fields)
    if by_platform is not None:
        return by_platform

    stacks = "\n".join(_stacks(fields))
    in_stacks = error_in_text(stacks)
    named = _first_value(fields, _ERRORS)
    nested = named if isinstance(named, dict) else {}

    error_type = _first_text(nested, _TYPES) or _first_text(fields, _OWN_TYPES)
    if error_type:
        message = _first_text(nested, _TEXTS) or _first_text(fields, _OWN_TEXTS)
        if not message and in_stacks is not None:
            message = in_stacks.message
        class_of_ruby = _OF_RUBY_RUNTIME.match(error_type)
        error_type = class_of_ruby[1] if class_of_ruby else error_type
        error = LoggedError(error_type, message, own_frames(stacks))
        return unwrapped([error, *_causes(nested, in_stacks)])

    if in_stacks is not None:
        return in_stacks
    inside = _error_inside(fields, text, depth)
    if inside is not None:
        return inside

    # Go's and Rust's loggers name no type.
    if isinstance(named, str) and named and is_error(text):
        return LoggedError("error", named.partition("\n")[0])
    return None


def _of_platform(fields: Mapping[str, Any]) -> LoggedError | None:
    """Read Lambda's own report of a request, in JSON."""
    if fields.get("type") not in ("platform.report", "platform.runtimeDone"):
        return None
    record = fields.get("record")
    if not isinstance(record, dict):
        return None
    metrics = record.get("metrics")
    milliseconds = metrics.get("durationMs") if isinstance(metrics, dict) else None
    return ended_request(record.get("status"), record.get("errorType"), milliseconds)


def _causes(nested: Mapping[str, Any], in_stacks: LoggedError | None) -> Iterator[LoggedError]:
    """Yield what a wrapper wraps: ``cause`` of the object, then what its stack names."""
    cause = nested.get("cause")
    for _ in range(_DEPTH):
        if not isinstance(cause, dict):
            break
        error_type = _first_text(cause, _TYPES)
        if error_type:
            frames = own_frames("\n".join(_stacks(cause)))
            yield LoggedError(error_type, _first_text(cause, _TEXTS), frames)
        cause = cause.get("cause")

    if in_stacks is not None and not is_wrapper(in_stacks.type):
        yield in_stacks


def _error_inside(fields: Mapping[str, Any], text: str, depth: int) -> LoggedError | None:
    for name in _INSIDE:
        value = fields.get(name)
        if isinstance(value, dict) and depth:
            error = _error_in_fields(value, text, depth - 1)
        elif isinstance(value, str):
            error = error_in_text(value)
        else:
            error = None
        if error is not None:
            return error
    return None


def _first_value(fields: Mapping[str, Any], names: tuple[str, ...]) -> object:
    for name in names:
        value = fields.get(name)
        if value:
            return value
    return None


def _first_text(fields: Mapping[str, Any], names: tuple[str, ...]) -> str:
    for name in names:
        value = fields.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


def _stacks(fields: Mapping[str, Any], depth: int = _DEPTH - 1) -> Iterator[str]:
    """Yield the stack traces of *fields* as text, also those of objects within it."""
    for name in _STACKS:
        value = fields.get(name)
        if isinstance(value, dict) and depth:
            yield from _stacks(value, depth - 1)
        elif isinstance(value, list):
            yield from map(_frame, value)
        elif isinstance(value, str) and value:
            yield value


def _frame(frame: object) -> str:
    if isinstance(frame, dict):
        return f"\t{frame.get('path')}:{frame.get('line')}"
    line = str(frame)
    is_bare = not (line[:1].isspace() or HEADER.match(line))
    return f"  at {line.removeprefix('at ')}" if is_bare else line
