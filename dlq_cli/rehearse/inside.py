"""The program inside the sandbox of a rehearsal. Standard library only, and Python 3.9 or later.

``STARTER`` runs its text, so that it also runs in an image that has none of our packages. Roles:

``supervise``
    Isolates itself (unless a container does), listens for AWS calls, starts the worker, gives it
    one event at a time, and replaces it when it hangs or ends. Speaks JSON lines: standard input
    brings settings, events and answers; standard output gets calls and outcomes.
``work``
    Imports the handler and calls it. Nothing that the handler does to this process can cost more
    than its own message: the supervisor waits for a line with the token of the event.

Every AWS call is passed on to the program outside, which decides what to answer. A proxy request to
any other host, and any other connection, is noted and fails.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import fcntl
import importlib
import json
import os
import queue
import resource
import secrets
import select
import signal
import socket
import socketserver
import struct
import subprocess
import sys
import threading
import time
import traceback
import types
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Line = dict[str, Any]
"""What goes over a channel, as JSON."""

STARTER = "import sys; sys.path[:1] = []; exec(compile(sys.argv[1], 'rehearsal', 'exec'))"
"""Run with ``python -c``; the arguments are this text, a role, and what the role needs.

The handler's folder comes into the path later: a module there may have the name of one that is
needed here.
"""

MOST_ANSWER_BYTES = 6 * 1024 * 1024
"""Lambda's limit for what a synchronous invocation returns."""

TEXT_CHARACTERS = 2000
LINE_BYTES = 64 * 1024 * 1024
_MOST_HOSTS = 10
LOOPBACK = "127.0.0.1"
_POLL_SECONDS = 0.05
_GRACE_SECONDS = 1.0
_SCRATCH_SIZE = "512m"

_CLONE_FLAGS = 0x00020000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
"""Namespaces of mounts, IPC, users, processes and the network."""
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 2, 4, 8
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE, _RDONLY = 442, -100, 0x8000, 1
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _MOST_CAPABILITIES = 1, 24, 64
_SIOCSIFFLAGS, _IFF_UP_RUNNING = 0x8914, 0x41


class IsolationError(Exception):
    """This machine does not let us isolate a process. The text says what was refused."""


# --- isolation -----------------------------------------------------------------------------------


def isolate(visible: list[str]) -> None:
    """Move this process into namespaces of its own, and go on as their first process.

    The network has a loopback alone. All files are read-only, but for an empty /tmp. /run, with its
    Unix sockets, is empty.

    Args:
        visible: folders that the handler needs; those below /tmp and /run are mounted again.

    Raises:
        IsolationError: this machine does not allow it.
    """
    if sys.platform != "linux":
        raise IsolationError("only Linux has network namespaces")
    libc = ctypes.CDLL(None, use_errno=True)

    def check(result: int, what: str) -> None:
        if result != 0:
            raise IsolationError(f"{what}: {os.strerror(ctypes.get_errno())}")

    uid, gid = os.getuid(), os.getgid()
    check(libc.unshare(_CLONE_FLAGS), "unshare")
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
        with socket.socket() as probe:
            fcntl.ioctl(probe, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP_RUNNING))
    except OSError as error:
        raise IsolationError(f"the network's loopback: {error.strerror}") from error
    kept = [os.open(one, os.O_PATH) for one in visible]

    def mount(
        source: str, target: str, kind: str | None, flags: int, options: str | None = None
    ) -> None:
        words = [None if one is None else os.fsencode(one) for one in (source, target, kind)]
        data = None if options is None else options.encode()
        check(libc.mount(*words, flags, data), f"mount {target}")

    mount("none", "/", None, _MS_REC | _MS_PRIVATE)
    attributes = struct.pack("4Q", _RDONLY, 0, 0, 0)
    check(
        libc.syscall(_MOUNT_SETATTR, _AT_FDCWD, b"/", _AT_RECURSIVE, attributes, len(attributes)),
        "read-only files",
    )
    emptied = [one for one in ("/run", "/tmp") if os.path.isdir(one)]  # noqa: S108, PTH112 - a mount
    for target in emptied:
        mount("tmpfs", target, "tmpfs", _MS_NOSUID | _MS_NODEV, f"size={_SCRATCH_SIZE},mode=1777")
    for folder, descriptor in zip(visible, kept):  # noqa: B905 - Python 3.9
        if any(folder.startswith(f"{one}/") for one in emptied):
            os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - the path is text
            mount(f"/proc/self/fd/{descriptor}", folder, None, _MS_BIND | _MS_REC)
        os.close(descriptor)
    _go_on_as_first_process(libc)
    with contextlib.suppress(IsolationError):
        # Inside some containers this is refused; the old /proc does no harm.
        mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    # What is started from here cannot undo this, also where the operator is root.
    for capability in range(_MOST_CAPABILITIES):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)


def _go_on_as_first_process(libc: ctypes.CDLL) -> None:
    """Fork into the new process namespace; this process waits for the child and ends as it does."""
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    child = os.fork()
    if child == 0:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        return
    for descriptor in (0, 1):
        os.close(descriptor)
    _, status = os.waitpid(child, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def require_no_network() -> None:
    """Prove that no packet leaves: neither IPv4 nor IPv6 has a route.

    Raises:
        IsolationError: there is one.
    """
    for family, address in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                # A datagram socket sends nothing when it connects: it only looks for a route.
                probe.connect((address, 9))
        except OSError:
            continue
        raise IsolationError("the network can still be reached")


def packet_counts() -> tuple[int, int] | None:
    """Count what left, or tried to leave, this network namespace; None where nothing counts it.

    Returns:
        Attempts without a route together with datagrams that nobody took, and connections opened.
    """
    found: dict[str, str] = {}
    try:
        lines = Path("/proc/net/snmp").read_text().splitlines()
        for names, values in zip(lines[::2], lines[1::2]):  # noqa: B905 - Python 3.9
            head = names.split(":")[0]
            found.update(zip((head + one for one in names.split()[1:]), values.split()[1:]))  # noqa: B905
        with contextlib.suppress(OSError):
            pairs = (line.split() for line in Path("/proc/net/snmp6").read_text().splitlines())
            found.update((pair[0], pair[1]) for pair in pairs if len(pair) == 2)  # noqa: PLR2004
        lost = ("IpOutNoRoutes", "Ip6OutNoRoutes", "UdpNoPorts", "Udp6NoPorts")
        return sum(int(found.get(name, 0)) for name in lost), int(found["TcpActiveOpens"])
    except (OSError, KeyError, ValueError):
        return None


# --- the front of the endpoint -------------------------------------------------------------------


class Front(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Takes the handler's HTTP requests. Each goes outside, which answers it."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, channel: Channel) -> None:
        super().__init__((LOOPBACK, 0), FrontRequest)
        self.channel = channel
        self.accepted = 0
        self.hosts: list[str] = []

    def process_request(self, request: Any, client_address: Any) -> None:
        """Count the connection, and serve it in a thread."""
        self.accepted += 1
        super().process_request(request, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that went away."""


class FrontRequest(BaseHTTPRequestHandler):
    """One connection of the handler."""

    protocol_version = "HTTP/1.1"
    # Otherwise each answer waits 40 ms for an acknowledgement of its headers.
    disable_nagle_algorithm = True
    wbufsize = -1
    server: Front

    def _pass_on(self) -> None:
        body = self._body()
        own = f"{LOOPBACK}:{self.server.server_address[1]}"
        if self.command == "CONNECT" or "://" in self.path:
            target = self.path.partition("://")[2].partition("/")[0] or self.path
            if target != own:
                self.server.hosts.append(target if ":" in target else f"{target}:80")
                self._answer(502, [], b"")
                self.close_connection = True
                return
            self.path = f"/{self.path.partition('://')[2].partition('/')[2]}"
        answer = self.server.channel.ask(
            {
                "method": self.command,
                "path": self.path,
                "headers": list(self.headers.items()),
                "body": base64.b64encode(body).decode(),
            }
        )
        self._answer(answer["status"], answer["headers"], base64.b64decode(answer["body"]))

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(parts)

    def _answer(self, status: int, headers: list[list[str]], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def __getattr__(self, name: str) -> Callable[[], None]:
        if name.startswith("do_"):
            return self._pass_on
        raise AttributeError(name)

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


class Channel:
    """The lines to and from the program outside."""

    def __init__(self, lines_in: IO[bytes], lines_out: IO[bytes]) -> None:
        self._in, self._out = lines_in, lines_out
        self._lock = threading.Lock()
        self._answers: dict[int, queue.Queue[Line]] = {}
        self._number = 0
        self.events: queue.Queue[Line] = queue.Queue()
        self.worker: int | None = None

    def send(self, line: Line) -> None:
        """Write one line."""
        with self._lock:
            self._out.write(json.dumps(line).encode() + b"\n")
            self._out.flush()

    def ask(self, call: Line) -> Line:
        """Pass a call on and wait for its answer."""
        box: queue.Queue[Line] = queue.Queue()
        with self._lock:
            self._number += 1
            number = self._number
            self._answers[number] = box
        self.send({"call": number, **call})
        return box.get()

    def read(self) -> None:
        """Deliver lines until the program outside closes them; then end, and with us the worker."""
        for text in self._in:
            line = json.loads(text)
            if "answer" in line:
                self._answers.pop(line["answer"]).put(line)
            else:
                self.events.put(line)
        kill_started(self.worker)
        os._exit(0)


def kill_started(worker: int | None) -> None:
    """Kill the process group of the worker, and where that is possible all that it started."""
    with contextlib.suppress(OSError):
        if os.getpid() == 1:
            # No process of a namespace survives this but the first, which we are.
            os.kill(-1, signal.SIGKILL)
        elif worker is not None:
            os.killpg(worker, signal.SIGKILL)


# --- the supervisor ------------------------------------------------------------------------------


class Worker:
    """The process that runs the handler."""

    def __init__(self, settings: Line, code: str, endpoint: str) -> None:
        ours, theirs = socket.socketpair()
        # The descriptor is far above those that programs close or write to by number.
        number = fcntl.fcntl(theirs.fileno(), fcntl.F_DUPFD, 200)
        theirs.close()
        environment = {
            **(os.environ if settings["is_image"] else {}),
            **settings["environment"],
            "AWS_ENDPOINT_URL": f"http://{endpoint}",
            **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), f"http://{endpoint}"),
            **dict.fromkeys(("http_proxy", "https_proxy"), f"http://{endpoint}"),
            **dict.fromkeys(("NO_PROXY", "no_proxy"), f"{LOOPBACK},localhost"),
        }
        python = settings.get("python") or sys.executable
        self._process = subprocess.Popen(  # noqa: S603 - the operator's own handler
            [python, "-c", STARTER, code, "work", str(number), json.dumps(settings["worker"])],
            stdin=subprocess.DEVNULL,
            stdout=2,
            stderr=2,
            env=environment,
            cwd=settings.get("folder"),
            pass_fds=(number,),
            start_new_session=True,
        )
        os.close(number)
        self.pid = self._process.pid
        self._socket = ours
        self._buffer = b""
        self.hosts: list[str] = []

    def ask(self, request: Line, seconds: float) -> Line:
        """Send *request*; return the line with its token, or why there is none.

        The kinds of the latter are ``timeout`` and ``ended``.
        """
        token, until = secrets.token_hex(8), time.monotonic() + seconds
        self._socket.settimeout(seconds)
        try:
            self._socket.sendall(json.dumps({**request, "token": token}).encode() + b"\n")
            while (left := until - time.monotonic()) > 0:
                for line in self._lines(min(left, _POLL_SECONDS)):
                    if line.get("token") == token:
                        return line
                    if isinstance(line.get("host"), str):
                        self._note(line["host"])
        except TimeoutError:
            pass
        except OSError:
            return self._ended()
        return self.kill({"kind": "timeout"})

    def _lines(self, seconds: float) -> list[Line]:
        """Wait so long for lines of the worker; what is not ours is left out.

        Raises:
            OSError: the worker has ended.
        """
        readable, _, _ = select.select([self._socket], [], [], seconds)
        if not readable:
            if self._process.poll() is not None:
                raise ConnectionResetError
            return []
        received = self._socket.recv(1 << 20)
        if not received:
            raise ConnectionResetError
        *texts, self._buffer = (self._buffer + received).split(b"\n")
        self._buffer = self._buffer[-LINE_BYTES:]
        lines = []
        for text in texts:
            with contextlib.suppress(ValueError):
                lines.append(json.loads(text))
        return [line for line in lines if isinstance(line, dict)]

    def _note(self, host: str) -> None:
        if host not in self.hosts and len(self.hosts) < _MOST_HOSTS:
            self.hosts.append(host)

    def _ended(self) -> Line:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GRACE_SECONDS)
        code = self._process.poll()
        return self.kill({"kind": "ended", "code": code})

    def kill(self, why: Line) -> Line:
        """Kill the worker and all that it started; return *why*."""
        kill_started(self.pid)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        if os.getpid() == 1:
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
        self._socket.close()
        return why


class Supervisor:
    """Gives the worker one event at a time."""

    def __init__(self, settings: Line, code: str, channel: Channel, front: Front) -> None:
        self._settings, self._code = settings, code
        self._channel, self._front = channel, front
        self._worker: Worker | None = None

    def start(self) -> Line | None:
        """Start a worker; return None, or why the handler cannot be imported."""
        port = self._front.server_address[1]
        worker = Worker(self._settings, self._code, f"{LOOPBACK}:{port}")
        self._channel.worker = worker.pid
        started = worker.ask({"start": True}, self._settings["start_seconds"])
        self._front.hosts += worker.hosts
        worker.hosts = []
        if started["kind"] == "started":
            self._worker = worker
            return None
        return worker.kill(started)

    def run(self) -> None:
        """Handle events until the program outside closes its lines."""
        while True:
            request = self._channel.events.get()
            before = self._counts()
            outcome = None if self._worker else self.start()
            worker = self._worker
            if outcome is None and worker is not None:
                seconds = self._settings["timeout_seconds"]
                outcome = worker.ask({"event": request["event"]}, seconds)
                self._front.hosts += worker.hosts
                worker.hosts = []
                if outcome["kind"] in ("timeout", "ended"):
                    self._worker = None
            outcome = outcome or {}
            hosts, self._front.hosts = self._front.hosts, []
            if not hosts and self._has_left(before):
                hosts = [""]
            outcome.pop("token", None)
            self._channel.send({"done": request["number"], "outcome": outcome, "hosts": hosts})

    def _counts(self) -> tuple[int, int] | None:
        counts = packet_counts() if self._settings["is_isolated"] else None
        return None if counts is None else (counts[0], counts[1] - self._front.accepted)

    def _has_left(self, before: tuple[int, int] | None) -> bool:
        """Whether something that no audit hook sees, such as a program in C, opened a connection.

        A connection to the front counts when it is accepted, which may be a moment later.
        """
        for _ in range(5):
            after = self._counts()
            if before is None or after is None or after == before:
                return False
            time.sleep(0.02)
        return True


def supervise(code: str) -> None:
    """Run the role ``supervise``."""
    with os.fdopen(os.dup(0), "rb") as lines_in, os.fdopen(os.dup(1), "wb") as lines_out:
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(2, 1)
        channel = Channel(lines_in, lines_out)
        settings = json.loads(lines_in.readline())
        try:
            if settings["visible"] is not None:
                isolate(settings["visible"])
            if settings["is_isolated"]:
                require_no_network()
        except (IsolationError, OSError) as error:
            channel.send({"refused": "isolation", "text": str(error)})
            return
        threading.Thread(target=channel.read, daemon=True).start()
        front = Front(channel)
        threading.Thread(target=front.serve_forever, daemon=True).start()
        supervisor = Supervisor(settings, code, channel, front)
        refused = supervisor.start()
        hosts, front.hosts = front.hosts, []
        if refused:
            channel.send({"refused": "handler", "outcome": refused, "hosts": hosts})
            return
        channel.send({"started": sys.version.split()[0], "hosts": hosts})
        supervisor.run()


# --- the worker ----------------------------------------------------------------------------------


class Context:
    """What Lambda passes as the second argument."""

    def __init__(self, settings: Line, request_id: str) -> None:
        self.function_name = settings["function_name"]
        self.function_version = "$LATEST"
        self.invoked_function_arn = settings["function_arn"]
        self.memory_limit_in_mb = str(settings["memory_mb"])
        self.aws_request_id = request_id
        self.log_group_name = f"/aws/lambda/{self.function_name}"
        self.log_stream_name = "rehearsal"
        self.identity = types.SimpleNamespace(
            cognito_identity_id=None, cognito_identity_pool_id=None
        )
        self.client_context = None
        self.tenant_id = None
        self._until = time.monotonic() + settings["timeout_seconds"]

    def get_remaining_time_in_millis(self) -> int:
        """Return how long the invocation may go on, in milliseconds."""
        return max(0, int((self._until - time.monotonic()) * 1000))

    def log(self, text: object) -> None:
        """Write to the function's log."""
        sys.stdout.write(str(text))


class NetworkWatch:
    """Notes each host that Python code of this process wants to reach, but our endpoint."""

    def __init__(self, endpoint: str, note: Callable[[str], object]) -> None:
        host, _, port = endpoint.rpartition(":")
        self._own = (host, int(port))
        self._note = note

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """See ``sys.addaudithook``."""
        if event in ("socket.connect", "socket.sendto", "socket.sendmsg"):
            address = arguments[1]
            if isinstance(address, tuple) and tuple(address[:2]) != self._own:
                self._note(f"{address[0]}:{address[1]}")
            elif isinstance(address, (str, bytes)) and address:
                self._note(f"unix:{os.fsdecode(address)}")
        elif event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr"):
            host = arguments[0]
            port = arguments[1] if event == "socket.getaddrinfo" else None
            name = os.fsdecode(host) if isinstance(host, (str, bytes)) else ""
            if name and name not in (self._own[0], "localhost", "::1", "0.0.0.0", "::"):  # noqa: S104
                self._note(name if port is None else f"{name}:{port}")


def runtime_folders(runtime: str | None) -> list[str]:
    """Return where Lambda's images keep the packages of layers, and their own, boto3 among them.

    Lambda's start adds them to the path; empty where *runtime*, its folder, is not known.
    """
    if not runtime:
        return []
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    return [f"/opt/python/lib/{version}/site-packages", "/opt/python", runtime]


def work(number: int, settings: Line) -> None:
    """Run the role ``work``."""
    own_process = os.getpid()
    channel = socket.socket(fileno=number)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(ValueError, OSError):
        memory = settings["memory_mb"] * 1024 * 1024
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))

    def tell(line: Line) -> None:
        # In one call: threads of the handler may do so at the same time.
        channel.sendall(b"\n" + json.dumps(line).encode() + b"\n")

    def note(host: str) -> None:
        with contextlib.suppress(OSError):
            tell({"host": host})

    watch = NetworkWatch(os.environ["AWS_ENDPOINT_URL"].partition("://")[2], note)
    reader = channel.makefile("rb")
    sys.argv = [""]
    folder = os.environ.get("LAMBDA_TASK_ROOT") or os.getcwd()  # noqa: PTH109 - text
    sys.path[:0] = [folder, *runtime_folders(os.environ.get("LAMBDA_RUNTIME_DIR"))]
    handler: Any = None
    failures: list[Line] = []
    while text := reader.readline():
        request = json.loads(text)
        if "start" in request:
            sys.addaudithook(watch)
            # Before the handler's modules, which may keep a reference to what is replaced.
            watch_powertools(failures)
            outcome, handler = load(settings["handler"])
        else:
            failures.clear()
            context = Context(settings, request["event"]["Records"][0]["messageId"])
            outcome = call(handler, request["event"], context, failures)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        if os.getpid() != own_process:
            # The handler forked, and its child came back to here.
            os._exit(0)
        tell({**outcome, "token": request["token"]})


def load(name: str) -> tuple[Line, Any]:
    """Import the handler ``module:function`` or ``module.function``; return outcome and handler."""
    separator = ":" if ":" in name else "."
    module, _, function = name.rpartition(separator)
    try:
        found: Any = importlib.import_module(module.replace("/", "."))
        for part in function.split("."):
            found = getattr(found, part)
    except BaseException as error:  # noqa: BLE001 - whatever the module raises
        traceback.print_exc()
        return {"kind": "refused", **described(error)}, None
    return {"kind": "started"}, found


def call(handler: Any, event: Line, context: Context, failures: list[Line]) -> Line:
    """Call the handler once; return what became of it."""
    try:
        answer = handler(event, context)
    except SystemExit as error:
        return {"kind": "raised", "type": "SystemExit", "text": cut(f"exit code {error.code}")}
    except BaseException as error:  # noqa: BLE001 - whatever the handler raises
        traceback.print_exc()
        return {"kind": "raised", **described(error)}
    try:
        text = json.dumps(answer, allow_nan=False)
    except Exception as error:  # noqa: BLE001 - of an object of the handler
        return {
            "kind": "raised",
            "type": "MarshalError",
            "text": cut(f"answer is no JSON: {error}"),
        }
    if len(text) > MOST_ANSWER_BYTES:
        return {"kind": "raised", "type": "ResponseSizeTooLarge", "text": f"{len(text)} bytes"}
    return {
        "kind": "returned",
        "answer": json.loads(text),
        "failure": failures[0] if failures else None,
    }


def watch_powertools(failures: list[Line]) -> None:
    """Remember the exceptions that a Powertools batch processor turns into batchItemFailures."""
    with contextlib.suppress(Exception):
        base: Any = importlib.import_module("aws_lambda_powertools.utilities.batch.base")
        handle_failure = base.BasePartialProcessor.failure_handler

        def remember(self: Any, record: Any, exception: Any) -> Any:
            with contextlib.suppress(Exception):
                failures.append(described(exception[1]))
            return handle_failure(self, record, exception)

        base.BasePartialProcessor.failure_handler = remember


def described(error: BaseException) -> Line:
    """Return type and text of an exception, as failure records have them."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - of an object of the handler
        text = ""
    kind = type(error)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return {"type": cut(f"{module}{kind.__qualname__}"), "text": cut(text)}


def cut(text: str) -> str:
    """Return the start of *text*, in characters that JSON and UTF-8 can carry."""
    return text[:TEXT_CHARACTERS].encode("utf-8", "replace").decode()


def main() -> None:
    """Run the role that the command line names."""
    _, code, role, *words = sys.argv
    if role == "supervise":
        supervise(code)
    else:
        work(int(words[0]), json.loads(words[1]))


if __name__ == "__main__":
    main()
