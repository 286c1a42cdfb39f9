"""The exception that a log record is about: type, text, frames of the application's code. Pure.

Traces are those of Java, JavaScript, Python, .NET, Go and Ruby, also inside the JSON of Powertools,
pino, logback, log4j, serilog, slog and of Lambda itself.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from dlq_replay.failures import ERROR_MESSAGE_CHARACTERS, ERROR_TYPE_CHARACTERS, one_line
from dlq_replay.masks import mask_text
from spark_reprocess.logs.events import HEADER, TRACEBACK, is_error

FRAMES_BYTES = 1024
_FRAMES = 5
_READ_CHARACTERS = 32_768

_FRAME = re.compile(
    r"""(?xm) ^\s+at\s(?P<at>\S.*)$            # Java, JavaScript, .NET
    | ^\s+File\s"(?P<file>[^"]+)",\sline\s(?P<line>\d+)(?:,\sin\s(?P<name>\S+))?  # Python
    | ^\t(?P<go>\S+\.go:\d+)                   # Go
    | ^\s*(?:from\s)?(?P<ruby>[^\s:]+\.rb:\d+:in\s[`'"][^`'"]+['"])  # Ruby
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
_BELOW = re.compile(
    r"(?m)^(?:Caused by: |\s+at\s\S|\s+File \"|\t\S+\.go:\d|\s+(?:from )?\S+\.rb:\d)"
)
_RUBY = re.compile(
    r"(?m)(?:^\S+\.rb:\d+:in [`'\"][^`'\"]+['\"]: |ERROR -- [^:]*: )"
    r"(?P<message>.*?) \((?P<type>[A-Z][\w:]*)\)$"
)
_PANIC = re.compile(r"(?m)^panic: (?:(?P<type>[\w.*]+)\{.*\}|(?P<message>.*?))(?: \[recovered\])?$")
_GO = re.compile(r"\b(?:err|error)=(?:\"(?P<quoted>(?:[^\"\\]|\\.)*)\"|(?P<message>\S+))")
_IN_LINE = re.compile(rf"(?:^|(?<=[\s|\]>\"])){HEADER.pattern}", re.MULTILINE)

_TYPES = ("errorType", "exception_name", "exception_class", "class", "type", "name", "error.type")
_TEXTS = ("errorMessage", "exception_message", "message", "error.message")
_ERRORS = ("error", "err", "exception", "thrown", "Exception", "@x", "stack_trace", "stackTrace")
_STACKS = (*_ERRORS, "stack", "stacktrace", "extendedStackTrace", "exc_info", "errorVerbose")


@dataclass(frozen=True, slots=True)
class LoggedError:
    """What was raised: masked, on one line, cut as what a consumer records.

    Attributes:
        frames: of the application's own code, a line each, masked; at most 1 KiB.
    """

    type: str
    message: str
    frames: str = ""


def logged_error(text: str) -> LoggedError | None:
    """Return the exception that a record logs as an error; None where it logs none."""
    text = text[:_READ_CHARACTERS]
    fields = _fields(text)
    if fields is not None:
        found = _of_json(fields, text)
    elif is_error(text.partition("\n")[0]) is False:
        return None
    else:
        found = _of_text(text)
    if found is None or not found.type:
        return None
    return LoggedError(
        one_line(found.type)[-ERROR_TYPE_CHARACTERS:],
        one_line(mask_text(found.message))[:ERROR_MESSAGE_CHARACTERS].rstrip(),
        mask_text(found.frames).encode()[:FRAMES_BYTES].decode("utf-8", "ignore"),
    )


def _fields(text: str) -> Mapping[str, Any] | None:
    start = text.find("{")
    # Lambda writes time, request and level before JSON that an application logs as text.
    if start < 0 or (start > 0 and "\t" not in text[:start]):
        return None
    try:
        value = json.loads(text[start:])
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _of_json(fields: Mapping[str, Any], text: str) -> LoggedError | None:
    if is_error(text) is False:
        return None
    stacks = "\n".join(_stacks(fields))
    traced = _of_text(stacks) if stacks else None
    named = next((one for one in (fields.get(name) for name in _ERRORS) if one), None)
    inside = named if isinstance(named, dict) else {}
    own = {name: fields[name] for name in (*_TYPES[:3], *_TYPES[6:]) if fields.get(name)}
    kind = _first(inside, _TYPES) or _first(own, _TYPES)
    frames = _frames(stacks)
    if kind:
        message = _first(inside, _TEXTS) or _first(fields, (_TEXTS[0], _TEXTS[1], _TEXTS[3]))
        if not message and traced and traced.type.endswith(kind):
            message = traced.message
        return LoggedError(kind, message, frames)
    if traced:
        return traced
    # Go's loggers name no type.
    is_text = isinstance(named, str) and named and is_error(text)
    return LoggedError("error", str(named).partition("\n")[0], frames) if is_text else None


def _first(fields: Mapping[str, Any], names: tuple[str, ...]) -> str:
    values = (fields.get(name) for name in names)
    return next((value for value in values if isinstance(value, str) and value), "")


def _stacks(fields: Mapping[str, Any], depth: int = 2) -> Iterator[str]:
    for name in _STACKS:
        value = fields.get(name)
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            yield "\n".join(_frame_text(one) for one in value)
        elif isinstance(value, dict) and depth:
            yield from _stacks(value, depth - 1)


def _frame_text(frame: object) -> str:
    match frame:
        case {"path": path, "line": line}:
            return f"\t{path}:{line}"
        case {"class": owner, "method": method, "line": line}:
            return f"\tat {owner}.{method}(line {line})"
    text = str(frame)
    is_frame = text.startswith((" ", "\t")) or HEADER.match(text)
    return text if is_frame else f"  {'' if text.startswith(('at ', 'File ')) else 'at '}{text}"


def _of_text(text: str) -> LoggedError | None:
    frames = _frames(text)
    _, is_python, trace = text.rpartition(TRACEBACK)
    if is_python:
        # Of a chain the last was raised; its line is the first that is not indented.
        end = re.search(r"(?m)^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>[^\x00]*))?$", trace)
        return LoggedError(end["type"], end["message"] or "", frames) if end else None
    if found := _RUBY.search(text) or _PANIC.search(text):
        return LoggedError(found["type"] or "panic", found["message"] or "", frames)
    # What stands below is a cause.
    first = _BELOW.search(text)
    if found := _IN_LINE.search(text[: first.start()] if first else text):
        rest = text[found.end() : first.start()] if first else ""
        return LoggedError(found["type"], (found["message"] or "") + rest, frames)
    if is_error(text) and (found := _GO.search(text)):
        return LoggedError("error", found["quoted"] or found["message"] or "", frames)
    return None


def _frames(text: str) -> str:
    found = []
    for frame in _FRAME.finditer(text):
        name = f" in {frame['name']}" if frame["name"] else ""
        line = (
            f"{frame['file']}:{frame['line']}{name}"
            if frame["file"]
            else frame[frame.lastgroup or 0]
        )
        if not _FOREIGN.search(line):
            found.append(line.strip())
    # Python prints the innermost last.
    nearest = found[::-1] if TRACEBACK in text or 'File "' in text else found
    return "\n".join(nearest[:_FRAMES])
