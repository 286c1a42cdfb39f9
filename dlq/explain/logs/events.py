"""Log events as records, each with the request that wrote it. Pure.

A record is an event with those that follow it in its stream and look like a part of a stack trace.
Its request is an id in its text, else the request of which Lambda wrote START, and not yet END or
REPORT, into its stream. Where two such requests overlap, the record has none.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

TOKEN = re.compile(
    r"(?<![\w-])(?=[A-Za-z_-]*\d)(?!\d{4}-?\d\d-?\d\d(?:T\d*Z?)?(?![\w-])"
    r"|1\d{9}(?:\d{3})?(?![\w-]))"
    r"\w[\w-]{6,126}\w(?![\w-])",
    re.ASCII,
)
"""A word of at least eight characters with a digit, but no time: it may be an id."""

MOST_SECONDS = 900
"""The longest that a request takes: Lambda's limit."""

LIMIT_MINUTES = 10
"""Log groups are read for this time, unless an option says otherwise."""

_TRACE_MS = 2000
_TRACE_LINES = 100
_LEVEL = re.compile(
    r"""(?x)
    \b(?: (?P<error_word>ERROR|SEVERE|FATAL|CRITICAL|EMERGENCY|PANIC
            |Error(?=\t)|fail(?=:|\t)|E(?=,\s\[))
        | WARN(?:ING)?|INFO|NOTICE|DEBUG|TRACE )\b
    | "(?:level|severity|@l|Level|log\.level)":\s*"?
        (?: (?P<error_json>[5-9]\d|(?i:err|fatal|crit|emerg|severe|panic)) | \w )
    | \b(?:level|lvl)= "? (?: (?P<error_pair>(?i:err|fatal|crit|panic)) | \w )
    | \[ (?: (?P<error_bracket>error|critical|alert|emergency) | warn(?:ing)?|notice|info|debug ) \]
    """
)
_LAMBDA = re.compile(
    r"(?P<word>START|END|REPORT) RequestId: (?P<id>[\w-]+)"
    r'|\{.*"type":\s*"platform\.(?P<type>start|report|runtimeDone)".*"requestId":\s*"(?P<json_id>[\w-]+)"'
)
_UUID = r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}"
_REQUEST = re.compile(
    rf"\t({_UUID})\t|(?i:request|correlation|trace)_?-?(?i:id)[\"']?\s*[:=]\s*[\"']?([\w.-]{{8,128}})"
    rf"|^\d\S* (?:\d\S* )?({_UUID}) "
)
_FOLLOWS = re.compile(
    r"""(?x) \s | $ | Caused\sby:\s | ---\sEnd
    | goroutine\s\d | created\sby\s | \[signal\s | exit\sstatus
    | (?:[\w*-]+[./])+[\w.*()]+\(.*\)$            # Go
    | \*\*\s\(                                   # Elixir
    | \#\d+\s | Stack\strace:$ | \[stacktrace\]$  # PHP
    | \S+\.rb:\d+:in\s[`'"][^`'"]+['"]$          # Ruby
    | [{}\[\]]+,?$ | "\}                          # the end of JSON over several lines
    """
)
_RUST_PANIC = re.compile(r"thread '.*panicked at \S+:\d+:\d+:$")
"""Its text follows in the next line."""

HEADER = re.compile(
    r"(?P<type>(?:[A-Za-z_$][\w$]*(?:\.|::|\\))*[A-Z_$][\w$]*(?:Error|Exception|Throwable|Fault)"
    r"|Error|(?:[A-Za-z_$][\w$]*(?:\.|::))+[A-Z][\w$]*)(?::\s(?P<message>.*)|$)",
    re.MULTILINE,
)
"""The line of a trace that names what was raised."""

TRACEBACK = "Traceback (most recent call last):"


@dataclass(frozen=True, slots=True)
class LogEvent:
    """An event of a log; *time_ms* are epoch milliseconds."""

    group: str
    stream: str
    time_ms: int
    text: str


@dataclass(slots=True)
class Record:
    """An event with the rest of its trace; *request* is None where it is unknown."""

    first: LogEvent
    request: str | None
    lines: list[str] = field(default_factory=list)
    is_headed: bool = False

    @property
    def text(self) -> str:
        """All lines."""
        return "\n".join(self.lines)


def is_error(text: str) -> bool | None:
    """Return whether the first level that *text* names is an error's; None where it names none."""
    level = _LEVEL.search(text[:2000])
    if level is None:
        return None
    return level.lastgroup is not None


def records(events: Iterable[LogEvent]) -> Iterator[Record]:
    """Yield records in the order in which they end. *events* are in the order of each stream."""
    held: dict[tuple[str, str], Record] = {}
    running: dict[tuple[str, str], dict[str, int]] = {}
    for event in events:
        stream = event.group, event.stream
        line = event.text.rstrip("\r\n")
        last = held.get(stream)
        if last is not None:
            if _continues(last, event, line):
                last.lines.append(line)
                last.is_headed |= HEADER.match(line) is not None
                continue
            yield held.pop(stream)

        requests = running.setdefault(stream, {})
        mark = _LAMBDA.match(line, 0, 1000)
        if mark is None:
            _drop_old(requests, event.time_ms)
            is_headed = "\n" in line or line.startswith("{") or HEADER.match(line) is not None
            held[stream] = Record(event, _request_of(line, requests), [line], is_headed)
            continue

        marked_request = mark["id"] or mark["json_id"]
        if mark["word"] == "START" or mark["type"] == "start":
            requests[marked_request] = event.time_ms
            continue
        requests.pop(marked_request, None)
        if mark["word"] != "END":
            # A report may say that the request timed out or that its process ended.
            yield Record(event, marked_request, [line])
    yield from held.values()


def _drop_old(requests: dict[str, int], now_ms: int) -> None:
    """Drop the requests that must have ended, though the log does not say so."""
    for request, started_ms in list(requests.items()):
        if started_ms < now_ms - MOST_SECONDS * 1000:
            del requests[request]


def _request_of(line: str, requests: Mapping[str, int]) -> str | None:
    """Return the request that a line names, else the only one that runs in its stream."""
    named = _REQUEST.search(line[:4000])
    if named is not None:
        request: str = next(filter(None, named.groups()))
        return request
    return next(iter(requests)) if len(requests) == 1 else None


def _continues(last: Record, event: LogEvent, line: str) -> bool:
    if len(last.lines) == _TRACE_LINES or event.time_ms - last.first.time_ms > _TRACE_MS:
        return False
    if _FOLLOWS.match(line) or _RUST_PANIC.search(last.lines[-1]):
        return True

    is_start = line == TRACEBACK
    has_start = TRACEBACK in last.lines
    if last.is_headed or not (is_start or HEADER.match(line)):
        return False
    is_after_error = len(last.lines) == 1 and is_error(last.lines[0]) is True
    return is_after_error or (has_start and not is_start)
