"""``dlq use``: the stack of commands that name none, and what beats it."""

import json
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from dlq.cli import command
from dlq.cli.command import main
from dlq.cli.suggested import suggested_command
from dlq.cli.verb import STACK, STACK_FILE
from dlq.stack.user_files import read_chosen_stack

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "dlq" / "stack.json"


@pytest.fixture
def chosen(file: Path, capsys: Capture) -> Path:
    assert main(["use", "orders-dlq", "--region", "eu-west-1", "--profile", "prod"]) == 0
    capsys.readouterr()
    return file


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], tuple[Any, ...]]:
    """Return stack, Region, profile of a command that does nothing."""

    def place_of(line: str) -> tuple[Any, ...]:
        places = []

        def run(name: str, words: Sequence[str], stack: str | None, _: object) -> int:
            place = (stack, os.environ.get("AWS_REGION"), os.environ.get("AWS_PROFILE"))
            places.append((*place, suggested_command("show", "a", "m-1")))
            assert (stack or None) == STACK.get()
            return 0

        monkeypatch.setattr(command, "_run_verb", run)
        assert main(line.replace("VERB", "redrive").split()) == 0
        [place] = places
        return place

    return place_of


def test_a_choice_is_kept_for_its_owner_alone(file: Path, capsys: Capture) -> None:
    assert main(["use", "orders-dlq", "--region", "eu-west-1"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"stack orders-dlq, Region eu-west-1 ({file})",
        "next: dlq status",
    ]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["stack.json"]

    assert main(["use"]) == 0
    assert capsys.readouterr().out.startswith("stack orders-dlq, Region eu-west-1 (")
    assert main(["use", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "version": 1,
        "file": str(file),
        "stack": "orders-dlq",
        "region": "eu-west-1",
        "profile": None,
    }


def test_another_choice_replaces_all_of_the_first(chosen: Path, capsys: Capture) -> None:
    assert main(["use", "invoices"]) == 0

    assert capsys.readouterr().out.startswith(f"stack invoices ({chosen})\n")


def test_a_choice_can_be_taken_back(chosen: Path, capsys: Capture) -> None:
    for _ in range(2):
        assert main(["use", "--none"]) == 0
        assert capsys.readouterr().out.startswith("no stack is chosen; dlq use STACK does it")
    assert not chosen.exists()


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("orders_dlq", "'orders_dlq': is no name of a stack"),
        ("orders --none", "not allowed with argument"),
        ("--region eu-west-1", "STACK is missing"),
        ("--stack orders", "--stack: no such option"),
    ],
)
def test_a_mistake_chooses_nothing(line: str, why: str, file: Path, capsys: Capture) -> None:
    assert main(["use", *line.split()]) == 2

    assert why in capsys.readouterr().err
    assert not file.exists()


def test_what_beats_the_choice_is_named(
    chosen: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("DLQ_STACK", "invoices")
    assert main(["use"]) == 0

    assert "note: DLQ_STACK=invoices is set here, and beats it" in capsys.readouterr().out


Used = Callable[[str], tuple[Any, ...]]
CHOSEN = ("orders-dlq", "eu-west-1", "prod")
SUGGESTED = "dlq show --stack orders-dlq --region eu-west-1 --profile prod m-1"


@pytest.mark.parametrize(
    "line",
    [
        "redrive --group g-1 --execute --reason why",
        "erase --id m-1 --execute --reason why",
        "restore",
        "collect",
        "run",
        "decide g-1 redrive",
        "groups",
        "show m-1",
        "status",
        "pause",
        "resume",
        "doctor",
        "look",
        "find 4711 --queue orders",
        "console",
        "rehearse g-1 --function f",
        "redrive --on-glue",
    ],
)
def test_each_verb_takes_the_choice_and_says_so(
    line: str, chosen: Path, used: Used, capsys: Capture
) -> None:
    assert used(line) == (*CHOSEN, SUGGESTED)

    notice = f"dlq: stack orders-dlq, Region eu-west-1, profile prod (dlq use: {chosen})\n"
    assert capsys.readouterr().err == notice


@pytest.mark.usefixtures("chosen")
def test_an_answer_in_json_has_no_notice(used: Used, capsys: Capture) -> None:
    assert used("redrive --json")[:3] == CHOSEN

    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize(
    ("line", "environment", "place"),
    [
        ("redrive --stack a", {}, ("a", "us-east-1", None)),
        ("redrive --stack=", {}, (None, "us-east-1", None)),
        ("redrive --archive /a", {}, (None, "us-east-1", None)),
        ("find 1 --archive=/a", {}, (None, "us-east-1", None)),
        ("console --archive /a", {}, (None, "us-east-1", None)),
        ("redrive", {"DLQ_ARCHIVE": "/a"}, (None, "us-east-1", None)),
        ("redrive", {"DLQ_STACK": "b"}, ("b", "us-east-1", None)),
        ("redrive --stack a", {"DLQ_STACK": "b"}, ("a", "us-east-1", None)),
        ("look orders", {}, (None, "us-east-1", None)),
        ("redrive --help", {}, (None, "us-east-1", None)),
    ],
)
def test_what_is_named_beats_the_choice(
    line: str,
    environment: dict[str, str],
    place: tuple[Any, ...],
    used: Used,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert used(line)[:3] == place
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("pause --region eu-west-2", ("orders-dlq", "eu-west-2", "prod")),
        ("pause --profile test", ("orders-dlq", "eu-west-1", "test")),
    ],
)
def test_region_and_profile_of_the_command_beat_those_of_the_file(
    line: str, place: tuple[Any, ...], used: Used, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A verb without an archive is not told where one is.
    monkeypatch.setenv("DLQ_ARCHIVE", "/a")
    monkeypatch.setenv("AWS_REGION", "ap-south-1")

    assert used(line)[:3] == place


def test_the_next_command_has_none_of_it(chosen: Path, used: Used) -> None:
    used("redrive")

    assert (STACK.get(), STACK_FILE.get()) == (None, None)
    assert suggested_command("show", "a") == "dlq show --archive a"
    assert os.environ["AWS_REGION"] == "us-east-1"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"orders",
        b"[]",
        b"{}",
        b'{"version": 2, "stack": "orders"}',
        b'{"version": 1, "stack": "--all"}',
        b'{"version": 1, "stack": 7}',
        b'{"version": 1, "stack": "orders", "region": ""}',
        b'{"version": 1, "stack": "orders", "other": 1}',
        b"\xff",
    ],
)
def test_a_broken_file_is_an_error_that_names_the_fix(
    content: bytes, chosen: Path, capsys: Capture
) -> None:
    chosen.write_bytes(content)

    for line in ("redrive --execute", "use", "pause"):
        assert main(line.split()) == 2
        assert capsys.readouterr().err == (
            f"dlq: {chosen}: is no file of `dlq use`; `dlq use STACK` writes a new one, `dlq use "
            "--none` removes it, --stack NAME does without it\n"
        )
    assert main(["use", "invoices"]) == 0
    assert main(["use"]) == 0


def test_a_folder_in_place_of_the_file_is_an_error(chosen: Path, capsys: Capture) -> None:
    chosen.unlink()
    chosen.mkdir()

    assert main(["pause"]) == 2
    assert capsys.readouterr().err.startswith(f"dlq: {chosen}: Is a directory; ")
    assert main(["use", "invoices"]) == 2
    assert f"{chosen}: cannot be written: " in capsys.readouterr().err
    assert [path.name for path in chosen.parent.iterdir()] == ["stack.json"]


def test_a_user_without_a_home_has_chosen_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setattr(Path, "home", no_home)

    assert read_chosen_stack(os.environ) is None
    assert main(["use", "orders"]) == 2
    assert capsys.readouterr().err == "dlq: this user has no home folder; set XDG_CONFIG_HOME\n"
