"""Run the built function: ``sam local invoke`` in a container, or Lambda's Runtime API.

In both the function has its package, its layer and its environment, and no file of the source tree.
"""

import json
import os
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol
from urllib.error import URLError
from urllib.request import Request, urlopen

import yaml

from demo import ROOT, DemoError

FUNCTION = "ReplayFunction"
SAM = ROOT / ".tools" / "sam"
TIMEOUT_SECONDS = 120
_CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "local",
    "AWS_SECRET_ACCESS_KEY": "local",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_REGION": "us-east-1",
}
_INVOCATIONS = "/2015-03-31/functions/function/invocations"
_START_SECONDS = 30

Answer = Mapping[str, Any]
"""What the function returns."""

_LOOPBACK = "127.0.0.1"


class Engine(Protocol):
    """Runs the built function once."""

    @property
    def server_host(self) -> str:
        """The address that a server on this machine must listen at for the function."""

    @property
    def host_seen(self) -> str:
        """The same address as the function sees it."""

    def invoke(self, event: Path, variables: Mapping[str, str]) -> Answer:
        """Return the function's answer to *event*.

        Raises:
            DemoError: it did not answer, or failed; the text has its log.
        """


@dataclass(frozen=True, slots=True)
class Docker:
    """``sam local invoke``, with the function in a container.

    Attributes:
        template: the template beside the artefacts.
        options: further options of ``sam local invoke``.
    """

    template: Path
    options: tuple[str, ...] = ()

    @property
    def server_host(self) -> str:
        """Return the gateway of Docker's bridge; with Docker Desktop the loopback address."""
        if sys.platform != "linux":
            return _LOOPBACK
        answer = _run(["docker", "network", "inspect", "bridge"], os.environ)
        if answer.returncode:
            raise DemoError(f"Docker does not answer; start its engine:\n{answer.stderr}")
        (network,) = json.loads(answer.stdout)
        addresses = network["IPAM"]["Config"][0]
        return addresses.get("Gateway") or str(ip_network(addresses["Subnet"])[1])

    @property
    def host_seen(self) -> str:
        """Return the same address; with Docker Desktop its name for this machine."""
        return self.server_host if sys.platform == "linux" else "host.docker.internal"

    def invoke(self, event: Path, variables: Mapping[str, str]) -> Answer:
        """See ``Engine``."""
        with TemporaryDirectory() as folder:
            env_vars = Path(folder, "env.json")
            env_vars.write_text(json.dumps({FUNCTION: dict(variables)}), encoding="utf-8")
            command = [str(SAM / "bin" / "sam"), "local", "invoke", FUNCTION]
            command += ["--template", str(self.template), "--event", str(event)]
            command += ["--env-vars", str(env_vars)]
            # An image of another architecture would need emulation.
            command += ["--parameter-overrides", f"Architecture={architecture()}", *self.options]
            # Without an endpoint, sam calls STS and waits until that times out.
            endpoint = {"AWS_ENDPOINT_URL": variables["AWS_ENDPOINT_URL"]}
            environment = {**os.environ, **_CREDENTIALS, **endpoint, "SAM_CLI_TELEMETRY": "0"}
            finished = _run(command, environment)
        # sam exits with 0 even if the function failed. The last line is the answer.
        lines = finished.stdout.strip().splitlines()
        if finished.returncode or not lines:
            raise DemoError(f"sam local invoke gave no answer:\n{finished.stderr}")
        return _payload(lines[-1], finished.stderr)


@dataclass(frozen=True, slots=True)
class Emulator:
    """The Runtime API's emulator, a part of the SAM CLI, with this machine's Python.

    Attributes:
        build: the output folder of ``sam build``.
    """

    build: Path

    @property
    def server_host(self) -> str:
        """Return the loopback address."""
        return _LOOPBACK

    @property
    def host_seen(self) -> str:
        """Return the same."""
        return _LOOPBACK

    def invoke(self, event: Path, variables: Mapping[str, str]) -> Answer:
        """See ``Engine``."""
        port, api_port = two_free_ports()
        with TemporaryDirectory() as folder, Path(folder, "log").open("w+") as log:
            process = subprocess.Popen(
                [
                    str(_emulator()),
                    *("--runtime-interface-emulator-address", f"127.0.0.1:{port}"),
                    *("--runtime-api-address", f"127.0.0.1:{api_port}"),
                    *(sys.executable, "-m", "awslambdaric", "handler.lambda_handler"),
                ],
                cwd=self.build / FUNCTION,
                env=self._environment(variables),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            try:
                answer = _post(f"http://127.0.0.1:{port}{_INVOCATIONS}", event.read_bytes())
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, 9)
                process.wait()
                log.seek(0)
            return _payload(answer, log.read())

    def _environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        layer = self.build / "CoreLayer" / "python"
        path = os.pathsep.join([str(self.build / FUNCTION), str(layer)])
        ours = {"PATH": os.environ["PATH"], "PYTHONPATH": path, "AWS_LAMBDA_FUNCTION_TIMEOUT": "30"}
        return {**ours, **_CREDENTIALS, **variables}


def write_local_template(build: Path) -> Path:
    """Write ``local.yaml`` beside the built template and return its path.

    ``sam local invoke`` passes only variables that the template declares, and a template that is
    deployed must not declare an endpoint. So this copy of the built one does.

    Raises:
        DemoError: nothing is built, or not this function.
    """
    source = build / "template.yaml"
    if not source.is_file():
        raise DemoError(f"{source} is missing; run make build first.")
    # The output of sam build is plain YAML, without CloudFormation's short tags.
    template = yaml.safe_load(source.read_text(encoding="utf-8"))
    try:
        variables = template["Resources"][FUNCTION]["Properties"]["Environment"]["Variables"]
    except (KeyError, TypeError) as error:
        raise DemoError(f"{source} has no {FUNCTION} with variables; run make build.") from error
    variables["AWS_ENDPOINT_URL"] = ""
    target = build / "local.yaml"
    target.write_text(yaml.safe_dump(template, sort_keys=False), encoding="utf-8")
    return target


def _emulator() -> Path:
    if sys.platform != "linux":
        raise DemoError("The Runtime API's emulator runs on Linux only; use --engine docker.")
    name = f"samcli/local/rapid/aws-lambda-rie-{architecture()}"
    found = next(SAM.glob(f"lib/python3.*/site-packages/{name}"), None)
    if found is None:
        raise DemoError(f"{SAM} has no emulator; run make build, which installs the SAM CLI.")
    return found


def architecture() -> str:
    """Return this machine's architecture as Lambda names it."""
    return "arm64" if platform.machine() in ("aarch64", "arm64") else "x86_64"


def _post(url: str, event: bytes) -> str:
    request = Request(url, data=event, method="POST")  # noqa: S310 - our own address
    give_up_at = time.monotonic() + _START_SECONDS
    while True:
        try:
            with urlopen(request, timeout=TIMEOUT_SECONDS) as response:  # noqa: S310 - as above
                return str(response.read().decode())
        except URLError as error:
            if time.monotonic() > give_up_at:
                raise DemoError(f"The emulator does not answer: {error.reason}") from error
            time.sleep(0.05)


def _payload(text: str, log: str) -> Answer:
    try:
        payload = json.loads(text)
    except ValueError as error:
        raise DemoError(f"The function gave no answer:\n{log}") from error
    if not isinstance(payload, dict) or "errorMessage" in payload:
        raise DemoError(f"The function failed: {payload}\n{log}")
    return payload


def _run(command: list[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DemoError(f"{command[0]}: {error}") from error


def two_free_ports() -> tuple[int, int]:
    """Return two ports of the loopback address at which nobody listens."""
    # Both are held until both are known: one that is released may be chosen again.
    with socket.socket() as one, socket.socket() as other:
        one.bind((_LOOPBACK, 0))
        other.bind((_LOOPBACK, 0))
        return int(one.getsockname()[1]), int(other.getsockname()[1])
