"""Ctrl-C while Spark starts: a sentence, exit code 130, and no Java that stays behind.

The Java of these tests does not answer, so that it is interrupted at a known point. A real one that
is left behind would end late or, because the folder for its answer is gone, never.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dlq.cli import running
from dlq.console.jobs import Jobs
from tests.support.parked_orders import archived, order
from tests.support.processes import Family, wait_until
from tests.support.small_jobs import ANALYZE

ROOT = Path(__file__).parents[2]

WAITS = "sleep 60; touch '{ended}'"
JAVA = """\
#!/bin/sh
case "$*" in
  *org.apache.spark.launcher.Main*) {launcher};;
  *) {gateway};;
esac
"""
"""Spark's script starts one Java that computes the words of the command, and then becomes it."""


@pytest.fixture
def family() -> Iterator[Family]:
    family = Family()
    yield family
    family.kill()


@pytest.fixture(params=["launcher", "gateway"])
def environment(request: pytest.FixtureRequest, tmp_path: Path, family: Family) -> dict[str, str]:
    """The environment of a command whose Java waits at one of its two points."""
    real = shutil.which("java")
    if real is None:
        pytest.skip("no Java")
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    waits = WAITS.format(ended=tmp_path / "ended")
    launcher = {"launcher": waits, "gateway": f'exec {real} "$@"'}[request.param]
    java.write_text(JAVA.format(launcher=launcher, gateway=waits))
    java.chmod(0o700)
    return {
        **os.environ,
        **family.environment,
        "JAVA_HOME": str(java.parents[1]),
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "layers" / "core"))),
    }


INTERRUPTS = """
import sys

IMPORTS = {imports}


class Interrupts:
    # Interrupts one of the imports that come after the entry module.
    def __init__(self):
        self.left = None

    def find_spec(self, name, path=None, target=None):
        if name == "{entry}":
            self.left = IMPORTS
        elif self.left == 0:
            raise KeyboardInterrupt
        elif self.left is not None:
            self.left -= 1


sys.meta_path.insert(0, Interrupts())
"""


@pytest.mark.parametrize("imports", [0, 1, 10, 100])
@pytest.mark.parametrize(
    ("entry", "start"),
    [
        ("dlq.cli", ("-m", "dlq")),
        ("dlq.cli", ("-c", "from dlq.cli import program; program()")),
        ("spark_reprocess.__main__", ("-m", "spark_reprocess")),
    ],
    ids=["module", "script", "spark_reprocess"],
)
def test_ctrl_c_while_a_command_is_loaded_needs_no_traceback(
    tmp_path: Path, entry: str, start: tuple[str, str], imports: int
) -> None:
    interrupts = INTERRUPTS.format(entry=entry, imports=imports)
    (tmp_path / "sitecustomize.py").write_text(interrupts)
    folders = (str(tmp_path), str(ROOT), str(ROOT / "layers" / "core"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}

    ended = subprocess.run(
        [sys.executable, *start, "--version"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ended.returncode, ended.stdout) == (130, "")
    assert ended.stderr == "dlq: interrupted; nothing is lost, run the same command again\n"


@pytest.mark.parametrize("program", ["dlq", "spark_reprocess"])
@pytest.mark.parametrize(
    ("module", "variable", "value"),
    [("pyarrow", "ARROW_DEFAULT_MEMORY_POOL", "system"), ("numpy", "OPENBLAS_NUM_THREADS", "1")],
)
def test_libraries_take_little_memory_and_one_thread_in_our_own_programs(
    tmp_path: Path, program: str, module: str, variable: str, value: str
) -> None:
    stub = f"import os\nos.write(1, os.environ[{variable!r}].encode())\nraise KeyboardInterrupt"
    (tmp_path / f"{module}.py").write_text(stub)
    folders = (str(tmp_path), str(ROOT), str(ROOT / "layers" / "core"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    environment.pop(variable, None)

    ended = subprocess.run(
        [sys.executable, "-m", program, "status", "--archive", "a"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (ended.returncode, ended.stdout) == (130, value)


def is_waiting(family: Family) -> bool:
    return any("sleep" in process.command for process in family.alive())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_start_leaves_no_java_behind(
    tmp_path: Path, environment: dict[str, str], family: Family, number: signal.Signals
) -> None:
    archive = archived(tmp_path, [order(1)])
    words = [*ANALYZE, "--archive", archive.root, "--engine", "spark"]
    command = [sys.executable, "-m", "dlq", *words]
    errors = tmp_path / "errors"
    with (
        errors.open("w") as stream,
        subprocess.Popen(command, cwd=ROOT, env=environment, stderr=stream) as process,
    ):
        wait_until(lambda: is_waiting(family))
        process.send_signal(number)

    assert process.returncode == 130
    assert errors.read_text() == "dlq: interrupted; nothing is lost, run the same command again\n"
    wait_until(lambda: family.alive() == [])
    assert not (tmp_path / "ended").exists()


def test_a_job_of_the_console_that_is_stopped_while_it_starts_leaves_no_java_behind(
    tmp_path: Path,
    environment: dict[str, str],
    family: Family,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    archive = archived(tmp_path, [order(1)])
    jobs = Jobs(tmp_path / "state" / "jobs")
    words = [*ANALYZE, "--archive", archive.root, "--engine", "spark"]
    job_id = jobs.start(jobs.make_id(), words).job_id
    wait_until(lambda: is_waiting(family))

    jobs.stop(job_id, 1)
    wait_until(lambda: family.alive() == [])

    job = jobs.get(job_id)
    assert job
    assert (job.exit_code, job.status) == (130, "stopped")
    assert job.errors() == "dlq: interrupted; nothing is lost, run the same command again\n"
    assert not (tmp_path / "ended").exists()


def test_another_ctrl_c_while_the_first_is_answered_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers: list[str] = []

    def answer(text: str) -> None:
        signal.raise_signal(signal.SIGINT)
        answers.append(text)

    def interrupted() -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(running, "print_error", answer)
    handler = signal.getsignal(signal.SIGINT)

    assert running.exit_code_of(interrupted) == 130

    assert answers == ["interrupted; nothing is lost, run the same command again"]
    assert signal.getsignal(signal.SIGINT) == handler
