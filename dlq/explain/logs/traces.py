"""The error of a log record that is plain text: type, text, frames of the application's code. Pure.

Each writer puts type and text into a place of its own. ``_WRITERS`` is the table of them, in the
order in which they are tried: what is written in one way alone comes before what is common.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dlq.explain.logs.events import HEADER, TRACEBACK, is_error

TIMED_OUT = "Sandbox.Timedout"
"""The type that Lambda gives, in its answers, to a request that took longer than allowed."""

_FRAMES = 5

_FRAME = re.compile(
    r"""(?xm)
      ^[ \t]+at\s(?P<at>\S.*)$                                            # Java, JavaScript, .NET
    | ^[ \t]+File\s(?P<python>"[^"]+",\sline\s\d+(?:,\sin\s\S+)?)
    | ^\t(?P<go>\S+\.go:\d+)
    | ^[ \t]*(?:from\s)?(?P<ruby>[^\s:]+\.rb:\d+:in\s[`'"][^`'"]+['"])
    | ^\#\d+[ ](?P<php>\S+\.php\(\d+\).*)$
    | ^[ \t]+(?P<elixir>\([\w.-]+[ ][\w.-]+\)[ ]\S+\.exs?:\d+:[ ]\S+)
    """
)
_FOREIGN = re.compile(
    r"""(?x) ^(?:java|javax|jdk|sun|com\.sun|kotlin|scala|org\.(?:springframework|apache|hibernate)
        |com\.(?:amazonaws|zaxxer|fasterxml)|software\.amazon|reactor|io\.netty|io\.awspring
        |System|Microsoft|Amazon|async\s?(?:Promise|new))[.\s(]
    | ^\((?:elixir|stdlib|kernel|ecto\w*|broadway\w*|phoenix\w*)\s
    | node:|node_modules|<anonymous>|internal/|site-packages|dist-packages|/var/(?:runtime|lang)/
    | /usr/(?:lib|local/(?:go|lib))/|/go/pkg/mod/|/gems/|/lib/(?:python|ruby)|/vendor/
    | /rustc/|\.cargo/registry/
    """
)

_WRAPPERS = frozenset(
    {
        # They say of every failure that some call failed.
        "AsyncAdapterBlockingExecutionFailedException",
        "BaseExceptionGroup",
        "BatchProcessingError",
        "CamelExecutionException",
        "CompletionException",
        "EJBException",
        "ExceptionGroup",
        "ExecutionException",
        "InvocationTargetException",
        "ListenerExecutionFailedException",
        "MessageHandlingException",
        "MessagingException",
        "NestedServletException",
        "PrivilegedActionException",
        "RuntimeCamelException",
        "TargetInvocationException",
        "UncheckedExecutionException",
        "UndeclaredThrowableException",
        # They name nothing.
        "Error",
        "Exception",
        "RuntimeError",
        "RuntimeException",
        "StandardError",
        "Throwable",
    }
)
"""Types, without their package, that say less than the cause below them."""


@dataclass(frozen=True, slots=True)
class LoggedError:
    """The error that a log names. Texts as they were written, or masked: see ``logged_error``.

    *frames* are of the application's own code, a line each. *ended_request*: the platform wrote it
    about a whole request, so all that the request worked on failed.
    """

    type: str
    message: str
    frames: str = ""
    ended_request: bool = False


def error_in_text(text: str) -> LoggedError | None:
    """Return the error that a record in plain text logs; None where it logs none."""
    # AWS's Python runtime indents frames with U+00A0, so that a log viewer keeps them.
    text = text.replace("\u00a0", " ")
    if text.startswith("REPORT RequestId: "):
        return _of_platform(text)
    for read in _WRITERS:
        error = read(text)
        if error is not None:
            return error
    return None


def own_frames(text: str) -> str:
    """Return the frames of own code in *text*, the innermost first, at most five lines."""
    frames = [match[match.lastgroup or 0].strip() for match in _FRAME.finditer(text)]
    own = [frame for frame in frames if not _FOREIGN.search(frame)]

    is_python = bool(own) and own[0].startswith('"')
    if is_python:
        own.reverse()
    return "\n".join(own[:_FRAMES])


def unwrapped(chain: Sequence[LoggedError]) -> LoggedError:
    """Return the outermost error of a chain of causes that is no wrapper.

    So a failure has the same name whether it is logged by itself or through a framework's listener.

    Args:
        chain: the error that was caught, its cause, the cause of that, …; at least one.
    """
    for error in chain:
        if not is_wrapper(error.type):
            return error
    return chain[-1]


def is_wrapper(error_type: str) -> bool:
    """Return whether the type, with or without its package, says less than its cause."""
    name = re.split(r"[.:\\]", error_type)[-1]
    return name in _WRAPPERS


# --- What Lambda itself writes about a request

_TIMED_OUT_LINE = re.compile(r"(?:^|\s)(?P<message>Task timed out after [\d.]+ seconds)\s*$")
_REPORT_LINE = re.compile(r"^REPORT RequestId: \S+\t(?P<fields>.*)", re.DOTALL)
_REPORT_FIELD = re.compile(r"(Duration|Status|Error Type): ([^\t\n]+)")
_EXITED = re.compile(
    r"^(?P<message>RequestId: \S+ (?:Error: .*|Process exited.*))(?:\n(?P<type>[A-Z]\w+\.\w+))?"
)


def _of_platform(text: str) -> LoggedError | None:
    report = _REPORT_LINE.match(text)
    if report is not None:
        fields = dict(_REPORT_FIELD.findall(report["fields"]))
        milliseconds = fields.get("Duration", "").removesuffix(" ms")
        return ended_request(fields.get("Status"), fields.get("Error Type"), milliseconds)

    first_line = text.partition("\n")[0]
    timed_out = _TIMED_OUT_LINE.search(first_line)
    if timed_out is not None:
        return LoggedError(TIMED_OUT, timed_out["message"], ended_request=True)

    exited = _EXITED.match(text)
    if exited is not None:
        error_type = exited["type"] or "Runtime.ExitError"
        return LoggedError(error_type, exited["message"], ended_request=True)
    return None


def ended_request(status: object, error_type: object, milliseconds: object) -> LoggedError | None:
    """Return the error in Lambda's report of a request; None if the request ended by itself.

    A handler's own exception is logged elsewhere, with more words: it counts as nothing here.

    Args:
        status: of the report: ``success``, ``failure``, ``error`` or ``timeout``.
        error_type: of the report, if it has one.
        milliseconds: how long the request took.
    """
    if status == "timeout":
        try:
            seconds = float(str(milliseconds)) / 1000
        except ValueError:
            return LoggedError(TIMED_OUT, "Task timed out", ended_request=True)
        message = f"Task timed out after {seconds:.2f} seconds"
        return LoggedError(TIMED_OUT, message, ended_request=True)

    is_of_platform = isinstance(error_type, str) and error_type.startswith(("Runtime.", "Sandbox."))
    if status == "error" and is_of_platform:
        return LoggedError(str(error_type), "", ended_request=True)
    return None


# --- Python

_PYTHON_RUNTIME = re.compile(
    # A name alone, or with a text of any number of lines.
    r"\A\[ERROR\] (?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>.*?))?\s*^" + re.escape(TRACEBACK),
    re.DOTALL | re.MULTILINE,
)
_PYTHON_END = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?:: (?P<message>[^\0]*))?$", re.MULTILINE)
_RAISED_FROM = "The above exception was the direct cause of the following exception:"
_EXCEPTION_GROUP = f"Exception Group {TRACEBACK}"
_GROUP_MARGIN = re.compile(r"^[ ]*[|+][-+]*(?:[ ]\d+[ ]-+)?[ ]?", re.MULTILINE)


def _of_python_runtime(text: str) -> LoggedError | None:
    """Read what AWS's Python runtime writes: type and text above the traceback, not below it."""
    match = _PYTHON_RUNTIME.match(text)
    if match is None:
        return None
    outer = LoggedError(match["type"], match["message"] or "", own_frames(text))
    return _or_what_it_quotes(outer, text.split(TRACEBACK)[1:])


def _of_exception_group(text: str) -> LoggedError | None:
    if _EXCEPTION_GROUP not in text:
        return None
    traces = _GROUP_MARGIN.sub("", text).split(TRACEBACK)[1:]
    outer = _end_of_trace(traces[0])
    return _or_what_it_quotes(outer, traces[1:]) if outer else None


def _of_traceback(text: str) -> LoggedError | None:
    before, has_trace, trace = text.rpartition(TRACEBACK)
    if not has_trace:
        return None
    end = _PYTHON_END.search(trace)
    if end is None:
        return None

    chain = [LoggedError(end["type"], end["message"] or "", own_frames(text))]
    while before.rstrip().endswith(_RAISED_FROM):
        before, _, trace = before.rstrip().removesuffix(_RAISED_FROM).rpartition(TRACEBACK)
        cause = _end_of_trace(trace)
        if cause is None:
            break
        chain.append(cause)
    return unwrapped(chain)


def _or_what_it_quotes(outer: LoggedError, traces: Sequence[str]) -> LoggedError:
    """Return the one error that all *traces* quoted by a wrapper end with, else *outer*."""
    if not is_wrapper(outer.type):
        return outer
    ends = list(filter(None, map(_end_of_trace, traces)))
    kinds = {(end.type, end.message) for end in ends}
    return ends[0] if len(kinds) == 1 else outer


def _end_of_trace(trace: str) -> LoggedError | None:
    """Read what follows a ``Traceback`` line, up to the next blank line."""
    end = _PYTHON_END.search(trace)
    if end is None:
        return None
    message = (end["message"] or "").partition("\n\n")[0].rstrip()
    return LoggedError(end["type"], message, own_frames(trace))


# --- Ruby, Go, Rust, Elixir, PHP

_RUBY = re.compile(
    r"(?m)(?:^\S+\.rb:\d+:in [`'\"][^`'\"]+['\"]: |ERROR -- [^:\n]{0,99}: )"
    r"(?P<message>.*?) \((?P<type>[A-Z][\w:]*)\)$"
)
_RAILS = re.compile(
    r"(?m)(?:^|: |\] )(?P<type>(?:[A-Z]\w*::)+[A-Z]\w*|[A-Z]\w*(?:Error|Exception))"
    r" \((?P<message>.*)\):[ ]*$"
)
_GO_PANIC = re.compile(r"(?m)^panic: (?P<message>.*?)(?: \[recovered\])?$")
_RUST_PANIC = re.compile(
    r"thread '[^'\n]*'[^\n]{0,20} panicked at "
    r"(?:'(?P<old>[^\n]*)', \S+:\d+$|\S+:\d+:\d+:\n(?P<message>.*))",
    re.MULTILINE,
)
_ELIXIR = re.compile(r"(?m)^\s*\*\* \((?P<type>[A-Z][\w.]*)\) (?P<message>.*)$")
_MONOLOG = re.compile(r"^\[[^\]\n]{10,40}\] [\w-]+\.(?P<level>[A-Z]+): (?P<message>.*)", re.DOTALL)
_PHP_OBJECT = re.compile(
    r"\[object\] \((?P<type>[\w\\]+)\(code: [^)\n]*\): (?P<message>.*?) at \S+:\d+\)", re.DOTALL
)
_PHP_HEADER = re.compile(r"^(?P<type>[\w\\]+): (?P<message>.*)")
_ZAP = re.compile(
    r"^\S+\t(?:ERROR|DPANIC|PANIC|FATAL)\t(?:[^\t\n]*\t){0,3}?\S+\.go:\d+\t(?P<text>[^\t\n]*)"
)
_AFTER_FAILED = re.compile(r"\b(?:failed|error|err): (?P<message>.+)")
_ERROR_PAIR = re.compile(
    r"\berr(?:or)?=(?:\"(?P<quoted>(?:[^\"\\]|\\.)*)\"|(?P<bare>[^\s\"][^\n]*?)(?=\s+[\w.]+=|\s*$))",
    re.MULTILINE,
)


def _of_ruby(text: str) -> LoggedError | None:
    match = _RUBY.search(text) or _RAILS.search(text)
    return LoggedError(match["type"], match["message"], own_frames(text)) if match else None


def _of_go_panic(text: str) -> LoggedError | None:
    match = _GO_PANIC.search(text)
    return LoggedError("panic", match["message"], own_frames(text)) if match else None


def _of_rust_panic(text: str) -> LoggedError | None:
    match = _RUST_PANIC.search(text)
    if match is None:
        return None
    return LoggedError("panic", match["message"] or match["old"] or "", own_frames(text))


def _of_elixir(text: str) -> LoggedError | None:
    match = _ELIXIR.search(text)
    return LoggedError(match["type"], match["message"], own_frames(text)) if match else None


def _of_monolog(text: str) -> LoggedError | None:
    """Read what Monolog and Laravel write: ``[time] channel.LEVEL: text {context}``."""
    record = _MONOLOG.match(text)
    if record is None or is_error(record["level"]) is not True:
        return None

    exception = _PHP_OBJECT.search(record["message"])
    if exception is not None:
        # It is in JSON, where a backslash is written twice.
        error_type = exception["type"].replace("\\\\", "\\")
        return LoggedError(error_type, exception["message"], own_frames(text))

    header = _PHP_HEADER.match(record["message"])
    if header is not None and _NAMED_ERROR.search(header["type"]):
        return LoggedError(header["type"], header["message"], own_frames(text))
    return None


def _of_go_logger(text: str) -> LoggedError | None:
    """Read the error of zap's console form, and of ``err=`` in logfmt; it has no type."""
    if is_error(text) is not True:
        return None

    pair = _ERROR_PAIR.search(text)
    if pair is not None:
        return LoggedError("error", pair["quoted"] or pair["bare"] or "")

    record = _ZAP.match(text)
    failed = _AFTER_FAILED.search(record["text"]) if record else None
    return LoggedError("error", failed["message"]) if failed else None


# --- Java, JavaScript, .NET: a header above frames

_BELOW = re.compile(
    rf"{_FRAME.pattern} | ^Caused\sby: | ^[ \t]*\[cause\]: | ^Stack\strace:$ | ^\[stacktrace\]$"
)
_CAUSE = re.compile(r"^(?:Caused by: |[ \t]*\[cause\]: )", re.MULTILINE)
_INNER_OF_DOTNET = " ---> "
_NAMED_ERROR = re.compile(r"(?:Error|Exception|Throwable|Fault)$")
_OWN_LINE = re.compile(rf"^{HEADER.pattern}", re.MULTILINE)
_IN_LINE = re.compile(rf"(?:^|(?<=[\s|\]>\"])){HEADER.pattern}", re.MULTILINE)


def _of_header(text: str) -> LoggedError | None:
    """Read ``TYPE: TEXT`` above frames, or in the line of the record itself, and its causes."""
    sections = _CAUSE.split(text)
    outer = _headed(sections[0])
    if outer is None:
        return None

    if is_wrapper(outer.type) and _INNER_OF_DOTNET in outer.message:
        inner = _headed(outer.message.partition(_INNER_OF_DOTNET)[2])
        if inner is not None:
            return LoggedError(inner.type, inner.message, own_frames(text))

    chain = [outer]
    for section in sections[1:]:
        cause = _headed(section)
        if cause is not None:
            chain.append(cause)

    error = unwrapped(chain)
    # An exception that is logged by itself shows what its causes came from, too.
    if error is outer or not error.frames:
        return LoggedError(error.type, error.message, own_frames(text))
    return error


def _headed(section: str) -> LoggedError | None:
    below = _BELOW.search(section)
    head = section[: below.start()] if below else section
    header = _header(head, has_frames=below is not None)
    if header is None:
        return None

    more_lines = head[header.end() :] if below else ""
    message = (header["message"] or "") + more_lines
    return LoggedError(header["type"], message.rstrip(), own_frames(section))


def _header(head: str, *, has_frames: bool) -> re.Match[str] | None:
    """Find the header in what stands above the frames.

    A header with a line of its own beats one within a line; of several the last is right above the
    frames: AWS's Java runtime writes ``TEXT: TYPE`` first. A dotted name that does not end like an
    exception is a logger's, unless frames follow its very line.
    """
    own_lines = list(_OWN_LINE.finditer(head))
    in_lines = list(_IN_LINE.finditer(head))

    named = [header for header in own_lines if _NAMED_ERROR.search(header["type"])]
    if named:
        return named[-1]
    for header in in_lines:
        if _NAMED_ERROR.search(header["type"]):
            return header

    if not has_frames:
        return None
    last_line_starts = head.rstrip().rfind("\n") + 1
    for header in own_lines[-1:] or in_lines:
        if header is not None and (own_lines or header.start() >= last_line_starts):
            return header
    return None


_WRITERS: tuple[Callable[[str], LoggedError | None], ...] = (
    _of_platform,
    _of_python_runtime,
    _of_exception_group,
    _of_traceback,
    _of_monolog,
    _of_rust_panic,
    _of_go_panic,
    _of_elixir,
    _of_ruby,
    _of_header,
    _of_go_logger,
)
