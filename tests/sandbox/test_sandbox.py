"""Handlers that behave badly, in a sandbox of their own."""

import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from dlq_cli.rehearse.aws_answers import Answer
from dlq_cli.rehearse.aws_requests import Request
from dlq_cli.rehearse.sandbox import Code, Outcome, Sandbox
from spark_reprocess.errors import InputError
from tests.needs import needs_namespaces

pytestmark = needs_namespaces

MakeSandbox = Callable[..., Sandbox]


def event(body: str = "{}") -> dict[str, Any]:
    return {"Records": [{"messageId": "m-1", "body": body}]}


def refuse(request: Request) -> Answer:
    return Answer(403, {}, b"{}")


@pytest.fixture
def make(tmp_path: Path) -> Iterator[MakeSandbox]:
    """Write a module ``app`` and make a sandbox for its ``lambda_handler``."""
    with ExitStack() as stack:

        def make(text: str, answer: Any = refuse, log: Any = None, **fields: Any) -> Sandbox:
            (tmp_path / "app.py").write_text(dedent(text))
            code = Code(
                handler="app:lambda_handler",
                folder=tmp_path,
                image=None,
                python=sys.executable,
                environment={},
                region="eu-west-1",
                timeout_seconds=10.0,
                memory_mb=1024,
            )
            sandbox = Sandbox(replace(code, **fields), answer, log)
            return stack.enter_context(sandbox)

        yield make


AFTER = """
import json, os, signal, socket, subprocess, sys, time

def lambda_handler(event, context):
    body = event["Records"][0]["body"]
    if body == "good":
        return None
    act(event, context)
"""


def outcomes(sandbox: Sandbox) -> list[Outcome]:
    """A bad message between two good ones."""
    return [sandbox.run(event(body)) for body in ("good", "bad", "good")]


def kinds(found: list[Outcome]) -> list[str]:
    return [str(one.result["kind"]) for one in found]


@pytest.mark.parametrize(
    ("act", "kind"),
    [
        ("raise KeyError('vat')", "raised"),
        ("sys.exit(3)", "raised"),
        ("os._exit(0)", "ended"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", "ended"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "ended"),
        ("os.kill(-1, signal.SIGKILL)", "raised"),
        ("os.kill(os.getppid(), signal.SIGKILL)", "returned"),
        ("os.closerange(0, 4096)", "ended"),
        ('[os.write(n, b\'{"kind": "returned"}\') for n in (200, 1, 2)]', "returned"),
        ("sys.stdout.write('x' * 5_000_000); sys.stderr.write('y' * 5_000_000)", "returned"),
        (
            "print(json.dumps({'done': 2, 'outcome': {'kind': 'returned'}, 'hosts': []}))",
            "returned",
        ),
        ("os.fork()", "returned"),
        ("subprocess.Popen(['sleep', '600'], start_new_session=True)", "returned"),
        ("x = 'a' * (3 << 30)", "raised"),
        ("os.chdir('/'); os.rmdir(os.environ['LAMBDA_TASK_ROOT'])", "raised"),
        ("open(os.environ['LAMBDA_TASK_ROOT'] + '/app.py', 'w')", "raised"),
        ("os.unlink(__file__)", "raised"),
        ("open('/tmp/scratch', 'w').write('x')", "returned"),
        ("sys.setrecursionlimit(10**9)\n    f = lambda n: f(n + 1)\n    f(0)", None),
    ],
)
def test_bad_message_costs_itself_alone(make: MakeSandbox, act: str, kind: str | None) -> None:
    sandbox = make(f"{AFTER}\ndef act(event, context):\n    {act}\n")
    sandbox.start()

    found = outcomes(sandbox)

    assert [kinds(found)[0], kinds(found)[2]] == ["returned", "returned"]
    assert kind is None or kinds(found)[1] == kind
    assert [one.hosts for one in found] == [(), (), ()]


def test_what_ended_the_process_is_named(make: MakeSandbox) -> None:
    sandbox = make(f"{AFTER}\ndef act(event, context):\n    os._exit(3)\n")
    sandbox.start()

    assert sandbox.run(event("bad")).result == {"kind": "ended", "code": 3}


@pytest.mark.parametrize(
    "act",
    [
        "time.sleep(600)",
        "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))\n    time.sleep(600)",
        "[os.fork() for _ in range(5)]\n    time.sleep(600)",
        "subprocess.run(['sleep', '600'])",
        "while True: print('x' * 100_000)",
    ],
)
def test_hanging_message_is_ended_after_its_time(make: MakeSandbox, act: str) -> None:
    sandbox = make(f"{AFTER}\ndef act(event, context):\n    {act}\n", timeout_seconds=2.0)
    sandbox.start()

    assert kinds(outcomes(sandbox)) == ["returned", "timeout", "returned"]


def test_handler_sees_what_a_lambda_function_sees(
    make: MakeSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "of-the-operator")
    monkeypatch.setenv("AWS_PROFILE", "production")
    sandbox = make(
        """
        import os

        def lambda_handler(event, context):
            return {
                "environment": dict(os.environ),
                "left": context.get_remaining_time_in_millis(),
                "arn": context.invoked_function_arn,
                "id": context.aws_request_id,
                "memory": context.memory_limit_in_mb,
            }
        """,
        environment={"TABLE": "orders", "AWS_ENDPOINT_URL_S3": "http://real"},
    )
    sandbox.start()

    answer = sandbox.run(event()).result["answer"]

    environment = answer["environment"]
    assert environment["TABLE"] == "orders"
    assert environment["AWS_REGION"] == "eu-west-1"
    assert "of-the-operator" not in environment.values()
    assert environment.keys().isdisjoint(("AWS_PROFILE", "AWS_ENDPOINT_URL_S3"))
    assert environment["AWS_ENDPOINT_URL"].startswith("http://127.0.0.1:")
    assert 0 < answer["left"] <= 10_000
    assert answer["arn"] == "arn:aws:lambda:eu-west-1:123456789012:function:rehearsal"
    assert (answer["id"], answer["memory"]) == ("m-1", "1024")


CONNECT = """
import ctypes, socket, subprocess, sys, urllib.request

def lambda_handler(event, context):
    host, port = event["Records"][0]["body"].split(":")
    try:
        {how}
    except Exception as error:
        print(error)
"""


@pytest.fixture
def listener() -> Iterator[tuple[str, list[object]]]:
    """A server of this machine, and what connected to it."""
    reached: list[object] = []
    with socket.create_server(("0.0.0.0", 0)) as server:  # noqa: S104 - the point is to be reachable
        server.settimeout(0.1)
        stopping = threading.Event()

        def accept() -> None:
            while not stopping.is_set():
                try:
                    connection, peer = server.accept()
                except TimeoutError:
                    continue
                reached.append(peer)
                connection.close()

        thread = threading.Thread(target=accept)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}", reached
        stopping.set()
        thread.join()


@pytest.mark.parametrize(
    "how",
    [
        "socket.create_connection((host, int(port)), timeout=2)",
        "urllib.request.urlopen(f'http://{host}:{port}', timeout=2)",
        # No audit hook sees these two.
        (
            "subprocess.run([sys.executable, '-c', f'import socket; "
            'socket.create_connection(("{host}", {port}))\'])'
        ),
        (
            "subprocess.run([sys.executable, '-c', 'import socket; "
            'socket.create_connection(("192.0.2.1", 9))\'])'
        ),
        "socket.getaddrinfo('payments.example.com', 443)",
        "urllib.request.urlopen('https://payments.example.com/x', timeout=2)",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 53))",
        "socket.socket(socket.AF_UNIX).connect('/var/run/docker.sock')",
    ],
)
def test_connection_to_elsewhere_is_noted_and_reaches_nobody(
    make: MakeSandbox, listener: tuple[str, list[object]], how: str
) -> None:
    address, reached = listener
    sandbox = make(CONNECT.format(how=how))
    sandbox.start()

    found = sandbox.run(event(address))

    assert found.result["kind"] == "returned"
    assert found.hosts
    assert reached == []


def test_host_behind_a_proxy_request_is_named(make: MakeSandbox) -> None:
    how = "urllib.request.urlopen('https://payments.example.com/x', timeout=2)"
    sandbox = make(CONNECT.format(how=how))
    sandbox.start()

    assert "payments.example.com:443" in sandbox.run(event("a:1")).hosts


def test_host_is_known_of_a_handler_that_hangs_or_dies_after_it(make: MakeSandbox) -> None:
    act = "socket.socket().connect_ex(('192.0.2.1', 80)); os._exit(1)"
    sandbox = make(f"{AFTER}\ndef act(event, context):\n    {act}\n")
    sandbox.start()

    found = outcomes(sandbox)

    assert [one.hosts for one in found] == [(), ("192.0.2.1:80",), ()]


def test_aws_call_reaches_our_endpoint_alone(make: MakeSandbox) -> None:
    requests: list[Request] = []

    def answer(request: Request) -> Answer:
        requests.append(request)
        return Answer(200, {}, b"")

    sandbox = make(
        """
        import boto3

        table = boto3.client("dynamodb")

        def lambda_handler(event, context):
            table.put_item(TableName="t", Item={"id": {"S": "1"}})
            boto3.client("s3").put_object(Bucket="b", Key="k", Body=b"x" * 3_000_000)
        """,
        answer,
    )
    sandbox.start()

    found = sandbox.run(event())

    assert found == Outcome({"kind": "returned", "answer": None, "failure": None}, ())
    assert [one.method for one in requests] == ["POST", "PUT"]
    assert json.loads(requests[0].body)["TableName"] == "t"
    assert len(requests[1].body) >= 3_000_000


def test_powertools_failure_is_known_though_the_handler_swallows_it(make: MakeSandbox) -> None:
    sandbox = make(
        """
        from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType
        from aws_lambda_powertools.utilities.batch import process_partial_response

        processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)

        def work(record):
            raise KeyError("vat")

        def lambda_handler(event, context):
            return process_partial_response(event, work, processor, context)
        """
    )
    sandbox.start()

    result = sandbox.run(event()).result

    assert result["answer"] == {"batchItemFailures": [{"itemIdentifier": "m-1"}]}
    assert result["failure"] == {"type": "KeyError", "text": "'vat'"}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("raise RuntimeError('no table')", "RuntimeError: no table"),
        ("import nothing_of_this_name", "ModuleNotFoundError"),
        ("x = 1", "has no attribute 'lambda_handler'"),
        ("import os; os._exit(1)", "ends the process"),
    ],
)
def test_handler_that_cannot_be_imported_is_refused(
    make: MakeSandbox, text: str, fault: str
) -> None:
    with pytest.raises(InputError, match=fault):
        make(text).start()


def test_output_goes_to_the_log(make: MakeSandbox, tmp_path: Path) -> None:
    log = tmp_path / "handler.log"
    with log.open("wb") as file:
        sandbox = make("def lambda_handler(event, context):\n    print('hello')\n", log=file)
        sandbox.start()
        sandbox.run(event())
        sandbox.stop()

    assert log.read_text() == "hello\n"


def test_nothing_is_left_running(make: MakeSandbox, tmp_path: Path) -> None:
    marker = f"sleep-{os.getpid()}"
    act = f"subprocess.Popen(['bash', '-c', 'exec -a {marker} sleep 600'], start_new_session=True)"
    sandbox = make(f"{AFTER}\ndef act(event, context):\n    {act}\n")
    sandbox.start()
    outcomes(sandbox)
    sandbox.stop()

    lines = (path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline"))
    assert not any(line.startswith(marker.encode()) for line in lines)


def test_broken_sandbox_is_replaced(make: MakeSandbox) -> None:
    sandbox = make("def lambda_handler(event, context):\n    return None\n")
    sandbox.start()
    process = sandbox._process  # noqa: SLF001 - nothing inside can do this
    assert process is not None
    process.kill()
    # Its end kills what runs below it, which may else still answer.
    process.wait()

    assert kinds([sandbox.run(event()) for _ in range(2)]) == ["ended", "returned"]


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    # What has ended and was not waited for is a zombie.
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_without_isolation_a_hanging_handler_ends_with_the_sandbox(
    make: MakeSandbox, tmp_path: Path
) -> None:
    note = tmp_path / "pid"
    sandbox = make(
        f"{AFTER}\ndef act(event, context):\n    open({str(note)!r}, 'w').write(str(os.getpid()))\n"
        "    time.sleep(600)\n",
        is_isolated=False,
        timeout_seconds=600.0,
    )
    sandbox.start()
    thread = threading.Thread(target=sandbox.run, args=(event("bad"),), daemon=True)
    thread.start()
    waiting = threading.Event()
    while not (note.exists() and note.read_text()):
        waiting.wait(0.05)
    sandbox.stop()
    while is_alive(int(note.read_text())):
        waiting.wait(0.05)


@pytest.mark.parametrize(
    "act",
    [
        "subprocess.run(['mount', '-o', 'remount,bind,rw', '/'], check=True)",
        "subprocess.run(['umount', '/run'], check=True)",
        "subprocess.run(['ip', 'link', 'set', 'lo', 'down'], check=True)",
    ],
)
def test_handler_cannot_undo_its_isolation(make: MakeSandbox, act: str) -> None:
    sandbox = make(f"{AFTER}\ndef act(event, context):\n    {act}\n")
    sandbox.start()

    assert sandbox.run(event("bad")).result["type"] == "subprocess.CalledProcessError"
