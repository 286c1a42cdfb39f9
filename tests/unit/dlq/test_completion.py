"""``dlq completion``: what a shell offers, and that it asks no other machine for it."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dlq.archive.messages.message_index import REPORTS
from dlq.archive.storage.files import Archive
from dlq.cli.command import main
from dlq.plan.plan_file import PLAN
from dlq.stack.user_files import ChosenStack, choose_stack, keep_stack_names
from tests.support.parked_orders import archived, order, plan_of

ROOT = Path(__file__).parents[3]
SHIM = f"""#!{sys.executable}
import sys
loaded = open({{log!r}}, "a")
sys.addaudithook(lambda event, _: event.startswith("socket.") and loaded.write(event + "\\n"))
sys.path[:0] = {[str(ROOT), str(ROOT / "layers" / "core")]!r}
from dlq.cli import program
program()
heavy = {{{{"pyarrow", "boto3", "botocore", "rich", "yaml", "duckdb"}}}} & sys.modules.keys()
loaded.writelines(name + "\\n" for name in heavy)
"""

Complete = Callable[..., list[str]]


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("script") / "dlq.bash"
    command = [sys.executable, "-m", "dlq", "completion", "bash"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "layers" / "core")}
    path.write_bytes(subprocess.check_output(command, cwd=ROOT, env=environment))
    return path


@pytest.fixture
def complete(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Complete:
    """Return what bash completes the last word to; assert that little was loaded for it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    commands = tmp_path / "bin"
    commands.mkdir()
    log = tmp_path / "loaded"
    (commands / "dlq").write_text(SHIM.format(log=str(log)), "utf-8")
    (commands / "dlq").chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}:{os.environ['PATH']}")

    def completed(*words: str) -> list[str]:
        program = (
            'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shtab_dlq; '
            'printf "%s\\n" "${COMPREPLY[@]}"'
        )
        finished = subprocess.run(
            ["/bin/bash", "-c", program, "bash", str(script), "dlq", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        assert finished.stderr == ""
        assert not log.exists() or log.read_text("utf-8") == ""
        return finished.stdout.split()

    return completed


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    archive = archived(tmp_path / "dead-letters", [order(number) for number in range(3)])
    plan_of(archive)
    return archive


def write_report(archive: Archive, plan_id: str, *group_ids: str) -> None:
    groups = "".join(f"  - id: {json.dumps(group_id)}\n    title: x\n" for group_id in group_ids)
    archive.write(f"{REPORTS}/{plan_id}/{PLAN}", f"groups:\n{groups}".encode())


def test_verbs_and_options_are_completed(complete: Complete) -> None:
    assert complete("redr") == ["redrive"]
    assert complete("redrive", "--wh") == ["--where"]
    assert complete("completion", "") == ["bash", "zsh"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("redrive", "--archive", "ARCHIVE", "--group", ""),
        ("redrive", "--archive", "=", "ARCHIVE", "--group", "g-"),
        ("decide", "--archive", "ARCHIVE", ""),
        ("rehearse", "--archive", "ARCHIVE", "g"),
        ("show", "--archive", "ARCHIVE", "g-"),
    ],
)
def test_groups_of_the_newest_report_are_completed(
    arguments: tuple[str, ...], complete: Complete, archive: Archive
) -> None:
    typed = [argument.replace("ARCHIVE", archive.root) for argument in arguments]
    [group] = plan_of(archive).groups
    assert complete(*typed) == [group.group_id]

    write_report(archive, "99991231T000000Z-1", "g-1a", "g-2b", "ungrouped")
    newest = ["g-1a", "g-2b", "ungrouped"]
    assert complete(*typed) == [name for name in newest if name.startswith(typed[-1])]


def test_the_environment_names_the_archive(
    complete: Complete, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    [group] = plan_of(archive).groups
    monkeypatch.setenv("DLQ_ARCHIVE", archive.root)
    assert complete("decide", "") == [group.group_id]

    # Its archive is elsewhere, and beats the variable.
    assert complete("decide", "--stack", "orders", "") == []
    monkeypatch.setenv("DLQ_STACK", "orders")
    assert complete("decide", "") == []


@pytest.mark.parametrize("content", [b"", b"groups: []", b"\xff"])
def test_what_cannot_be_read_completes_nothing(
    content: bytes, complete: Complete, archive: Archive
) -> None:
    archive.write(f"{REPORTS}/99991231T000000Z-1/{PLAN}", content)

    assert complete("decide", "--archive", archive.root, "") == []


@pytest.mark.parametrize("place", ["/nowhere", "s3://bucket/archive", "--stack"])
def test_an_archive_elsewhere_completes_nothing(place: str, complete: Complete) -> None:
    assert complete("decide", "--archive", place, "") == []


def test_names_that_a_shell_would_run_are_left_out(
    complete: Complete, archive: Archive, tmp_path: Path
) -> None:
    hostile = ["$(touch ran)", "`touch ran`", "g-1;touch ran", "g-1\ng-2", "-x", "g-7"]
    write_report(archive, "99991231T000000Z-1", *hostile)

    assert complete("decide", "--archive", archive.root, "") == ["g-7"]
    assert not (tmp_path / "ran").exists()


def test_stacks_that_were_listed_or_chosen_are_completed(complete: Complete) -> None:
    assert complete("status", "--stack", "") == []

    keep_stack_names(os.environ, ["invoices", "orders"])
    choose_stack(os.environ, ChosenStack("other"))
    assert complete("status", "--stack", "") == ["invoices", "orders", "other"]
    assert complete("use", "o") == ["orders", "other"]


def test_folders_are_completed(complete: Complete, archive: Archive) -> None:
    assert "/reports" in "".join(complete("groups", "--archive", f"{archive.root}/re"))


def test_a_script_for_zsh_calls_the_same_functions(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "zsh"]) == 0

    script = capsys.readouterr().out
    assert script.startswith("#compdef dlq\n")
    assert "_dlq_groups() { _dlq_candidates groups }" in script
    assert ":ID:_dlq_groups" in script
    assert ":NAME:_dlq_stacks" in script
