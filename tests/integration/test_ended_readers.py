"""A command whose output, or whose errors, nobody reads any more: ``dlq groups | head``."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from dlq.archive.storage.files import Archive
from tests.support.parked_orders import archived, order, plan_of

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    archive = archived(tmp_path_factory.mktemp("read"), [order(number) for number in range(3)])
    plan_of(archive)
    return archive


@pytest.fixture
def unread() -> Iterator[int]:
    """The descriptor of a pipe whose reader has ended."""
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


def run(
    words: Sequence[str], archive: Archive, *, unbuffered: str = "", **streams: int
) -> "subprocess.CompletedProcess[str]":
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "layers" / "core"))),
        "PYTHONUNBUFFERED": unbuffered,
        "DLQ_ARCHIVE": archive.root,
    }
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    command = [sys.executable, "-m", "dlq", *words]
    return subprocess.run(command, cwd=ROOT, env=environment, text=True, check=False, **given)  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize(
    "line",
    [
        "groups",
        "groups --json",
        "status",
        "show m-001",
        "show g- --out -",
        "completion bash",
        "decide g- discard",
    ],
)
def test_a_reader_that_has_enough_ends_the_command_without_a_word(
    archive: Archive, unread: int, line: str
) -> None:
    words = line.replace("g-", plan_of(archive).groups[0].group_id).split()

    finished = run(words, archive, unbuffered="1", stdout=unread)

    assert finished.stderr == ""
    assert finished.returncode in (0, 141)


def test_what_is_more_than_a_buffer_ends_the_command_as_well(archive: Archive, unread: int) -> None:
    finished = run(["completion", "bash"], archive, stdout=unread)

    assert (finished.returncode, finished.stderr) == (141, "")


def test_errors_that_nobody_reads_keep_the_exit_code(archive: Archive, unread: int) -> None:
    finished = run(["show", "m-404"], archive, stderr=unread)

    assert (finished.returncode, finished.stdout) == (2, "")
