"""The sandbox in which a handler runs: a network namespace, or a container without a network.

Speaks the lines of ``inside`` with its supervisor. A sandbox that breaks is replaced: that costs
the message that was in it.
"""

import json
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Self

from dlq_cli.rehearse import inside
from dlq_cli.rehearse.aws_answers import Answer
from dlq_cli.rehearse.aws_requests import Request
from spark_reprocess.errors import InputError

START_SECONDS = 60.0
"""How long the handler's modules may take to be imported."""

_SLACK_SECONDS = 30.0
_ENGINES = ("docker", "podman")
_EMPTIED = ("/tmp/", "/run/", "/var/run/")  # noqa: S108 - what the sandbox empties

NO_ISOLATION = (
    "this machine lets no process isolate itself ({why}); give --image, which needs docker or "
    "podman, or --allow-network if the code may reach the network"
)


@dataclass(frozen=True, slots=True)
class Code:
    """The consumer's code, and what it runs with.

    Attributes:
        handler: ``module:function`` or ``module.function``.
        folder: where the module is; None in an image.
        image: of a container that has the code; None for a folder.
        python: the interpreter for a folder's code.
        environment: variables that the operator gave.
        region: of the source queue.
        timeout_seconds: of the function.
        memory_mb: of the function; more is refused to the handler.
        is_isolated: whether the sandbox has to be without a network.
    """

    handler: str
    folder: Path | None
    image: str | None
    python: str
    environment: Mapping[str, str]
    region: str
    timeout_seconds: float
    memory_mb: int
    is_isolated: bool = True

    @property
    def function_name(self) -> str:
        """What the handler sees as its function's name."""
        return self.environment.get("AWS_LAMBDA_FUNCTION_NAME", "rehearsal")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one event.

    Attributes:
        result: see ``inside.Supervisor``.
        hosts: what the handler wanted to connect to, but our endpoint; an empty text for a host
            that is not known.
    """

    result: Mapping[str, Any]
    hosts: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Started:
    """A sandbox that works.

    Attributes:
        python: the version that runs the handler.
        hosts: what the import of the handler wanted to connect to.
    """

    python: str
    hosts: Sequence[str]


class Sandbox:
    """Runs a handler, one event at a time. Use it in a ``with`` block."""

    def __init__(
        self, code: Code, answer: Callable[[Request], Answer], log: IO[bytes] | None = None
    ) -> None:
        """Keep what is needed to start.

        Args:
            code: to run.
            answer: answers AWS calls.
            log: where what the handler prints goes; None for nowhere.
        """
        self._code, self._answer, self._log = code, answer, log
        self._process: subprocess.Popen[bytes] | None = None
        self._lines: queue.Queue[Mapping[str, Any] | None] = queue.Queue()
        self._number = 0
        self._scratch = tempfile.TemporaryDirectory(prefix="dlq-rehearse-")

    def __enter__(self) -> Self:
        """Do nothing: ``start`` starts."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the sandbox and all that runs in it."""
        self.stop()
        self._scratch.cleanup()

    def start(self) -> Started:
        """Start; import the handler.

        Raises:
            InputError: the machine cannot isolate it, or the handler cannot be imported.
        """
        self.stop()
        self._lines = queue.Queue()
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            self._command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if self._log is None else self._log,
            start_new_session=True,
        )
        thread = threading.Thread(
            target=_read, args=(self._process, self._lines), name="sandbox", daemon=True
        )
        thread.start()
        self._send(self._settings())
        line = self._next(START_SECONDS + _SLACK_SECONDS, "started", "refused")
        if line is None:
            raise InputError(f"{self._place()} did not start; with --log FILE you see what it says")
        if line.get("refused") == "isolation":
            raise InputError(NO_ISOLATION.format(why=line["text"]))
        if line.get("refused") == "handler":
            raise InputError(self._import_fault(line))
        return Started(str(line["started"]), tuple(line["hosts"]))

    def run(self, event: Mapping[str, Any]) -> Outcome:
        """Give the handler one event and wait for what becomes of it.

        Raises:
            InputError: the sandbox broke and cannot be started again.
        """
        if self._process is None:
            self.start()
        self._number += 1
        with suppress(OSError):
            self._send({"number": self._number, "event": event})
        seconds = self._code.timeout_seconds + START_SECONDS + _SLACK_SECONDS
        line = self._next(seconds, "done")
        if line is None or line["done"] != self._number:
            self.stop()
            return Outcome({"kind": "ended", "code": None})
        return Outcome(line["outcome"], tuple(line["hosts"]))

    def stop(self) -> None:
        """End the sandbox and all that runs in it."""
        process, self._process = self._process, None
        if process is None:
            return
        # Its end closes the lines, which ends all inside; a container has no other way.
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _next(self, seconds: float, *wanted: str) -> Mapping[str, Any] | None:
        """Return the next line with one of these keys, answering calls until it comes.

        None if the sandbox ends, or so many seconds pass without any line.
        """
        while True:
            try:
                line = self._lines.get(timeout=seconds)
            except queue.Empty:
                return None
            if line is None:
                return None
            if "call" in line:
                answer = self._answer(Request.from_line(line)).to_line()
                with suppress(OSError):
                    self._send({"answer": line["call"], **answer})
            elif any(key in line for key in wanted):
                return line

    def _send(self, line: Mapping[str, Any]) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.write(json.dumps(line).encode() + b"\n")
            self._process.stdin.flush()

    def _command(self) -> list[str]:
        program = ["-c", inside.STARTER, program_text(), "supervise"]
        if self._code.image is None:
            return [sys.executable, "-E", *program]
        return [
            *(_engine(), "run", "--rm", "--interactive", "--read-only", "--tmpfs", "/tmp"),  # noqa: S108
            *(("--network", "none") if self._code.is_isolated else ()),
            *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--pids-limit", "512"),
            *("--entrypoint", "python3", self._code.image, *program),
        ]

    def _settings(self) -> dict[str, Any]:
        code = self._code
        is_image = code.image is not None
        visible = None if is_image or not code.is_isolated else _visible(code)
        # A sandbox has a /tmp of its own.
        scratch = "/tmp" if is_image or code.is_isolated else self._scratch.name  # noqa: S108
        return {
            "is_isolated": code.is_isolated,
            "is_image": is_image,
            "visible": visible,
            "folder": None if code.folder is None else str(code.folder),
            "python": None if is_image else code.python,
            "environment": _environment(code, scratch),
            "timeout_seconds": code.timeout_seconds,
            "start_seconds": START_SECONDS,
            "worker": {
                "handler": code.handler,
                "function_name": code.function_name,
                "function_arn": (
                    f"arn:aws:lambda:{code.region}:123456789012:function:{code.function_name}"
                ),
                "memory_mb": code.memory_mb,
                "timeout_seconds": code.timeout_seconds,
            },
        }

    def _place(self) -> str:
        return f"--image {self._code.image}" if self._code.image else "the sandbox"

    def _import_fault(self, line: Mapping[str, Any]) -> str:
        outcome, name = line["outcome"], self._code.handler
        kind = outcome["kind"]
        if kind == "refused":
            why = f"{outcome['type']}: {outcome['text']}"
        else:
            why = "takes too long" if kind == "timeout" else "ends the process"
        hosts = f"; it wanted to reach {', '.join(filter(None, line['hosts']))}"
        return f"--handler {name}: its import fails ({why}{hosts if any(line['hosts']) else ''})"


def program_text() -> str:
    """Return the program that runs inside the sandbox."""
    return Path(inside.__file__).read_text("utf-8")


def image_id(image: str) -> str:
    """Return the id of an image that is on this machine; its name where the engine does not say."""
    command = [_engine(), "image", "inspect", "--format", "{{.Id}}", image]
    found = subprocess.run(command, capture_output=True, check=False)  # noqa: S603 - the engine
    return found.stdout.decode("utf-8", "replace").strip() or image


def _engine() -> str:
    """Return the program that runs containers.

    Raises:
        InputError: there is none.
    """
    found = next(filter(None, map(shutil.which, _ENGINES)), None)
    if found is None:
        raise InputError("--image: needs docker or podman, and neither is installed")
    return found


def _read(
    process: "subprocess.Popen[bytes]", lines: "queue.Queue[Mapping[str, Any] | None]"
) -> None:
    """Read lines until the sandbox ends, or writes what is none."""
    with suppress(ValueError, OSError):
        for text in process.stdout or ():
            line = json.loads(text)
            if isinstance(line, dict):
                lines.put(line)
    lines.put(None)


def _visible(code: Code) -> list[str]:
    """Return the folders below those that the sandbox empties that the handler needs."""
    wanted = [code.folder, Path(sys.prefix), Path(sys.base_prefix), Path(code.python).parent]
    wanted += [Path(one) for one in code.environment.get("PYTHONPATH", "").split(":") if one]
    # An environment's interpreter is a link into another folder.
    wanted += [Path(code.python).parents[1], Path(code.python).resolve().parents[1]]
    folders = sorted({str(one.absolute()) for one in wanted if one is not None and one.is_dir()})
    return [one for one in folders if one.startswith(_EMPTIED)]


def _environment(code: Code, scratch: str) -> dict[str, str]:
    """Return the handler's variables: none of this process's, and no credentials of anybody."""
    name, folder = code.function_name, code.folder
    ours = {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": scratch,
        "TMPDIR": scratch,
        "LANG": "en_US.UTF-8",
        "TZ": ":UTC",
        "PYTHONDONTWRITEBYTECODE": "1",
        "AWS_REGION": code.region,
        "AWS_DEFAULT_REGION": code.region,
        "AWS_LAMBDA_FUNCTION_NAME": name,
        "AWS_LAMBDA_FUNCTION_VERSION": "$LATEST",
        "AWS_LAMBDA_FUNCTION_MEMORY_SIZE": str(code.memory_mb),
        "AWS_LAMBDA_LOG_GROUP_NAME": f"/aws/lambda/{name}",
        "AWS_LAMBDA_LOG_STREAM_NAME": "rehearsal",
        "_HANDLER": code.handler,
        # Both send to an agent beside a Lambda function.
        "AWS_XRAY_SDK_ENABLED": "false",
        "POWERTOOLS_TRACE_DISABLED": "true",
        **({} if folder is None else {"LAMBDA_TASK_ROOT": str(folder)}),
    }
    fixed = {
        "AWS_ACCESS_KEY_ID": "rehearsal",
        "AWS_SECRET_ACCESS_KEY": "rehearsal",
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    theirs = {
        name: value
        for name, value in code.environment.items()
        if not name.startswith("AWS_ENDPOINT_URL") and name not in _NOT_TAKEN
    }
    if folder is None:
        # An image sets its own.
        ours.pop("PATH")
    return {**ours, **theirs, **fixed}


_NOT_TAKEN = ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")
