"""The exception that a log record is about: type, text, frames of the application's code. Pure.

Traces are those of Java, JavaScript, Python, .NET, Go and Ruby, also inside the JSON of Powertools,
pino, logback, log4j, serilog, slog and of Lambda itself.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dlq_replay.rules.failures import ERROR_MESSAGE_CHARACTERS, ERROR_TYPE_CHARACTERS, one_line
from dlq_replay.text.masks import mask_text
from spark_reprocess.logs.events import HEADER, TRACEBACK, is_error

_FRAMES, _FRAMES_BYTES = 5, 1024
_READ_CHARACTERS = 32_768

_FRAME = re.compile(  # of Java, JavaScript and .NET; of Python; of Go; of Ruby
    r"""(?xm) ^[ \t]+at\s(?P<at>\S.*)$
    | ^[ \t]+File\s(?P<python>"[^"]+",\sline\s\d+(?:,\sin\s\S+)?)
    | ^\t(?P<go>\S+\.go:\d+)
    | ^[ \t]*(?:from\s)?(?P<ruby>[^\s:]+\.rb:\d+:in\s[`'"][^`'"]+['"])
    """
)
_FOREIGN = re.compile(
    r"""(?x) ^(?:java|javax|jdk|sun|com\.sun|kotlin|scala|org\.(?:springframework|apache|hibernate)
        |com\.(?:amazonaws|zaxxer|fasterxml)|software\.amazon|reactor|io\.netty|System|Microsoft
        |Amazon|async\s?(?:Promise|new))[.\s(]
    | node:|node_modules|<anonymous>|internal/|site-packages|dist-packages|/var/(?:runtime|lang)/
    | /usr/(?:lib|local/(?:go|lib))/|/go/pkg/mod/|/gems/|/lib/(?:python|ruby)
    """
)
_BELOW = re.compile(rf"{_FRAME.pattern} | ^Caused\sby:")
_RAISED = re.compile(  # by Ruby; by Go
    r"(?m)(?:^\S+\.rb:\d+:in [`'\"][^`'\"]+['\"]: |ERROR -- [^:\n]{0,99}: )"
    r"(?P<message>.*?) \((?P<type>[A-Z][\w:]*)\)$|^panic: (?P<panic>.*?)(?: \[recovered\])?$"
)
_OF_PYTHON = re.compile(r"(?m)^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>[^\0]*))?$")
_OF_GO = re.compile(r"\berr(?:or)?=(?:\"((?:[^\"\\]|\\.)*)\"|(\S+))")
_IN_LINE = re.compile(rf"(?:^|(?<=[\s|\]>\"])){HEADER.pattern}", re.MULTILINE)

_OWN_TYPES = ("errorType", "exception_name", "exception_class", "error.type")
_TYPES = (*_OWN_TYPES, "class", "type", "name")
_OWN_TEXTS = ("errorMessage", "exception_message", "error.message")
_ERRORS = ("error", "err", "exception", "thrown", "Exception", "@x", "stack_trace", "stackTrace")
_STACKS = (*_ERRORS, "stack", "stacktrace", "extendedStackTrace", "errorVerbose")


@dataclass(frozen=True, slots=True)
class LoggedError:
    """What was raised: masked, on one line, cut as what a consumer records.

    *frames* are of the application's own code, a line each, masked; at most 1 KiB.
    """

    type: str
    message: str
    frames: str = ""


def logged_error(text: str) -> LoggedError | None:
    """Return the exception that a record logs as an error; None where it logs none."""
    text = text[:_READ_CHARACTERS]
    fields = _fields(text)
    if is_error(text if fields else text.partition("\n")[0]) is False:
        return None
    found = _of_json(fields, text) if fields else _of_text(text)
    if found is None:
        return None
    return LoggedError(
        one_line(found.type)[-ERROR_TYPE_CHARACTERS:],
        one_line(mask_text(found.message))[:ERROR_MESSAGE_CHARACTERS].rstrip(),
        mask_text(found.frames).encode()[:_FRAMES_BYTES].decode("utf-8", "ignore"),
    )


def _fields(text: str) -> Mapping[str, Any] | None:
    # Lambda writes time, request and level before JSON that an application logs as text.
    before, brace, rest = text.partition("{")
    if not brace or (before and "\t" not in before):
        return None
    try:
        return dict(json.loads(brace + rest))
    except (ValueError, RecursionError):
        return None


def _of_json(fields: Mapping[str, Any], text: str) -> LoggedError | None:
    stacks = "\n".join(_stacks(fields))
    traced = _of_text(stacks)
    named = next(filter(None, map(fields.get, _ERRORS)), None)
    inside = named if isinstance(named, dict) else {}
    if kind := _first(inside, _TYPES) or _first(fields, _OWN_TYPES):
        message = _first(inside, (*_OWN_TEXTS, "message")) or _first(fields, _OWN_TEXTS)
        return LoggedError(kind, message or (traced.message if traced else ""), _frames(stacks))
    # Go's loggers name no type.
    is_text = isinstance(named, str) and named and is_error(text)
    return traced or (LoggedError("error", str(named).partition("\n")[0]) if is_text else None)


def _first(fields: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((one for one in map(fields.get, names) if isinstance(one, str) and one), "")


def _stacks(fields: Mapping[str, Any], depth: int = 2) -> Iterator[str]:
    for value in filter(None, map(fields.get, _STACKS)):
        if isinstance(value, dict) and depth:
            yield from _stacks(value, depth - 1)
        for frame in value if isinstance(value, list) else ():
            if isinstance(frame, dict):
                yield f"\t{frame.get('path')}:{frame.get('line')}"
            else:
                text = str(frame)
                is_bare = not (text[:1].isspace() or HEADER.match(text))
                yield f"  at {text.removeprefix('at ')}" if is_bare else text
        if isinstance(value, str):
            yield value


def _of_text(text: str) -> LoggedError | None:
    frames = _frames(text)
    _, is_python, trace = text.rpartition(TRACEBACK)
    if is_python:
        # Of a chain the last was raised; its line is the first that is not indented.
        end = _OF_PYTHON.search(trace)
        return LoggedError(end["type"], end["message"] or "", frames) if end else None
    if found := _RAISED.search(text):
        return LoggedError(found["type"] or "panic", found["message"] or found["panic"], frames)
    # What stands below a frame is a cause.
    below = _BELOW.search(text)
    if found := _IN_LINE.search(text[: below.start()] if below else text):
        rest = text[found.end() : below.start()] if below else ""
        return LoggedError(found["type"], (found["message"] or "") + rest, frames)
    if is_error(text) and (found := _OF_GO.search(text)):
        return LoggedError("error", found[1] or found[2] or "", frames)
    return None


def _frames(text: str) -> str:
    found = [one[one.lastgroup or 0].strip() for one in _FRAME.finditer(text)]
    own = [one for one in found if not _FOREIGN.search(one)]
    # Python prints the innermost last.
    return "\n".join(own[: -_FRAMES - 1 : -1] if own[:1] and own[0][0] == '"' else own[:_FRAMES])
