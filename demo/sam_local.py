"""``make sam-local``: invoke the built function with the events of ``events/``; show what it did.

``sam local invoke`` runs it in a container: with its package, its layer and its environment, and no
file of the source tree.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from ipaddress import ip_network
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import boto3
import yaml

from demo import ROOT, DemoError
from demo.messages import CONTEXT, from_record
from demo.world import Queue, create_queue
from dlq_replay.wire.context import ReplayContext
from local_sqs.process import server_process

EVENTS = ROOT / "events"
_BUILD = ROOT / ".aws-sam" / "build"
_SAM = ROOT / ".tools" / "sam" / "bin" / "sam"
_FUNCTION = "ReplayFunction"
_QUEUE_VARIABLES = {"main": "MAIN_QUEUE_URL", "dlq": "DLQ_URL", "parked": "PARKED_QUEUE_URL"}
_SESSION = boto3.Session("local", "local", region_name="us-east-1")


def main(argv: Sequence[str] | None = None) -> int:
    """Try the given events, or all; return 1 if a function did not answer."""
    parser = argparse.ArgumentParser(prog="python -m demo.sam_local", description=__doc__)
    parser.add_argument("events", nargs="*", metavar="EVENT", help=f"of {', '.join(event_names())}")
    options = parser.parse_args(argv)

    try:
        with reachable_server() as url:
            for name in options.events or event_names():
                answer, arrivals = try_event(name, url)
                _print_result(name, answer, arrivals)
    except DemoError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _print_result(
    name: str, answer: Mapping[str, Any], arrivals: Mapping[str, Sequence[Mapping[str, Any]]]
) -> None:
    """Print what the function sent to each queue, and which messages it left in theirs."""
    sys.stdout.write(f"{name}\n")
    for queue, records in arrivals.items():
        for record in records:
            sys.stdout.write(f"  {queue:<8}{_describe(record)}\n")
    for failure in answer["batchItemFailures"]:
        sys.stdout.write(f"  left    {failure['itemIdentifier']}\n")


def event_names() -> list[str]:
    """Return the names of the replay function's events: the files without ``.json``.

    ``sweep`` is the event of another function, which asks for tags that no local server has.
    """
    names = {path.stem for path in EVENTS.glob("*.json") if not path.stem.startswith("env")}
    return sorted(names - {"sweep"})


@contextmanager
def reachable_server() -> Iterator[str]:
    """Serve SQS at an address that a container can reach; yield the server's URL."""
    with server_process("--host", _hosts()[0]) as wait_for_url:
        yield wait_for_url()


def try_event(name: str, server: str) -> tuple[Mapping[str, Any], dict[str, list[dict[str, Any]]]]:
    """Invoke the function with an event, on empty queues of the server at the URL *server*.

    A cap of 0 s makes every replay arrive at once.

    Returns:
        The answer, and what the function sent to ``main``, ``dlq`` and ``parked``, as records.

    Raises:
        DemoError: the function is not built, did not answer, or with an error.
    """
    if not (_BUILD / "template.yaml").is_file():
        raise DemoError("Nothing is built; run make build first.")

    environment = EVENTS / ("env-fifo.json" if name.startswith("fifo") else "env.json")
    variables = json.loads(environment.read_text(encoding="utf-8"))[_FUNCTION]

    client = _SESSION.client("sqs", endpoint_url=server)
    queues = {}
    for role, variable in _QUEUE_VARIABLES.items():
        queue_name = variables[variable].rpartition("/")[2]
        queues[role] = create_queue(client, queue_name, visibility_seconds=30)
    for queue in queues.values():
        _take(queue)

    variables["AWS_ENDPOINT_URL"] = server.replace(*_hosts())
    variables["BACKOFF_CAP_SECONDS"] = "0"
    text, log = _invoke(EVENTS / f"{name}.json", variables)

    try:
        answer = json.loads(text)
    except ValueError as error:
        raise DemoError(f"The function gave no answer:\n{log}") from error
    if "errorMessage" in answer:
        raise DemoError(f"The function failed: {answer}\n{log}")

    return answer, {role: _take(queue) for role, queue in queues.items()}


def architecture() -> str:
    """Return this machine's architecture as Lambda names it."""
    return "arm64" if platform.machine() in ("aarch64", "arm64") else "x86_64"


def _take(queue: Queue) -> list[dict[str, Any]]:
    """Receive, delete and return the visible messages of a queue."""
    taken: list[dict[str, Any]] = []
    while records := queue.receive():
        taken += records
        for record in records:
            queue.delete(record)
    return taken


def _describe(record: Mapping[str, Any]) -> str:
    content = from_record(record)
    _, context = content.attributes.get(CONTEXT, ("", ""))
    reason = ReplayContext.from_json(str(context)).reason if context else None
    if reason:
        return f"parked: {reason}"
    if content.replay_count:
        return f"replay {content.replay_count}"
    return "as it was"


def _hosts() -> tuple[str, str]:
    """Return where a server must listen for a container, and the container's name for that."""
    if sys.platform != "linux":
        return "127.0.0.1", "host.docker.internal"  # of Docker Desktop

    (network,) = json.loads(_run(["docker", "network", "inspect", "bridge"], {}).stdout)
    addresses = network["IPAM"]["Config"][0]
    gateway = addresses.get("Gateway") or str(ip_network(addresses["Subnet"])[1])
    return gateway, gateway


def _invoke(event: Path, variables: Mapping[str, str]) -> tuple[str, str]:
    """Run ``sam local invoke``; return the answer and the log."""
    with TemporaryDirectory() as folder:
        env_vars = Path(folder, "env.json")
        env_vars.write_text(json.dumps({_FUNCTION: variables}), encoding="utf-8")
        command = [
            str(_SAM),
            "local",
            "invoke",
            _FUNCTION,
            "--template",
            str(_local_template()),
            "--event",
            str(event),
            "--env-vars",
            str(env_vars),
            # An image of another architecture would need emulation.
            "--parameter-overrides",
            f"Architecture={architecture()}",
            *os.environ.get("SAM_LOCAL_OPTIONS", "").split(),
        ]
        environment = {
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
            # Without an endpoint, sam calls STS and waits until that times out.
            "AWS_ENDPOINT_URL": variables["AWS_ENDPOINT_URL"],
            "SAM_CLI_TELEMETRY": "0",
        }
        finished = _run(command, environment)

    # sam exits with 0 even if the function failed. The last line is the answer.
    return finished.stdout.strip().rpartition("\n")[2], finished.stderr


def _local_template() -> Path:
    """Write ``local.yaml`` beside the built template and return its path.

    ``sam local invoke`` passes only variables that the template declares, and a template that is
    deployed must not declare an endpoint. So this copy of the built one does.
    """
    # The output of sam build is plain YAML, without CloudFormation's short tags.
    template = yaml.safe_load((_BUILD / "template.yaml").read_text(encoding="utf-8"))
    function = template["Resources"][_FUNCTION]["Properties"]
    function["Environment"]["Variables"]["AWS_ENDPOINT_URL"] = ""
    target = _BUILD / "local.yaml"
    target.write_text(yaml.safe_dump(template, sort_keys=False), encoding="utf-8")
    return target


def _run(command: list[str], more: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a program with *more* environment variables; its log is in the DemoError if it fails."""
    try:
        return subprocess.run(
            command,
            env={**os.environ, **more},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise DemoError(f"{error}\n{getattr(error, 'stderr', '')}") from error


if __name__ == "__main__":
    sys.exit(main())
