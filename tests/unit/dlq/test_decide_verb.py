"""``decide``: what it writes into the plan and beside it, answers and refuses."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dlq.archive.group_records import read_memory, read_notes, write_seen
from dlq.archive.storage.files import Archive, open_archive
from dlq.archive.storage.local import LocalArchive
from dlq.cli.running import main
from dlq.errors import ArchiveError
from dlq.explain.triage import GroupMemory, GroupState, after_analysis
from dlq.plan.plan import Action, Plan, PlannedGroup, Snapshot, plan_text
from dlq.plan.plan_file import find_plan
from dlq.plan.plan_reading import read_plan
from tests.support.parked_orders import archived, order, plan_of

GROUP = "g-0123456789"
OTHER = "g-abcdefabcd"
PLAN_ID = "20261101T000000Z-aaaaaa"
PLAN_PATH = f"reports/{PLAN_ID}/plan.yaml"
LEFT = PlannedGroup(OTHER, "TimeoutError", 1, Action.LEAVE)
PLAN = plan_text(Plan(PLAN_ID, "somewhere", Snapshot(("d-1",), 1, "b" * 64), (LEFT,)))


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """An archive that remembers one group, and has a plan with another one."""
    archive = open_archive(str(tmp_path / "archive"))
    now = datetime(2026, 11, 1, tzinfo=UTC)
    row = {"group_id": GROUP, "count": 1, "last_parked_at": now}
    write_seen(archive, "r-1", after_analysis(GroupMemory(), "r-1", now, [row])[0])
    archive.write(PLAN_PATH, PLAN.encode())
    return archive


def run(archive: Archive, *words: str) -> int:
    return main(["decide", "--archive", archive.root, *words])


def answer(capsys: pytest.CaptureFixture[str], archive: Archive, *words: str) -> dict[str, Any]:
    assert run(archive, *words, "--json") == 0
    parsed: dict[str, Any] = json.loads(capsys.readouterr().out)
    return parsed


def test_without_an_action_the_plan_stays_and_what_is_said_is_remembered(
    archive: Archive, capsys: pytest.CaptureFixture[str]
) -> None:
    resolved = answer(capsys, archive, GROUP, "--note", "address service", "--resolved")
    memory = read_memory(archive)
    state = memory.state(GROUP)
    reopened = answer(capsys, archive, GROUP, "--no-resolved")

    nothing = dict.fromkeys(("plan_id", "plan", "before", "action", "is_edited"))
    assert state.resolved_at is not None
    since = state.resolved_at.isoformat()
    assert resolved == {"version": 1, "group_id": GROUP, **nothing, "resolved_at": since}
    assert read_notes(archive, memory, [GROUP]) == {GROUP: "address service"}
    assert reopened["resolved_at"] is None
    assert read_memory(archive).state(GROUP) == GroupState(2, note_in=1)
    assert archive.read(PLAN_PATH) == PLAN.encode()


def test_a_group_that_only_the_newest_plan_names_can_have_a_note(archive: Archive) -> None:
    assert run(archive, OTHER, "--note", "why") == 0
    assert read_notes(archive, read_memory(archive), [OTHER]) == {OTHER: "why"}


def test_a_decision_and_its_note_are_in_the_plan_and_remembered_with_the_group(
    archive: Archive, capsys: pytest.CaptureFixture[str]
) -> None:
    decided = answer(capsys, archive, OTHER, "discard", "--note", "nobody wants them", "--resolved")

    memory = read_memory(archive)
    assert decided["plan_id"] == PLAN_ID
    assert (decided["before"], decided["action"]) == ("leave", "discard")
    assert memory.state(OTHER).action == "discard"
    assert decided["resolved_at"] is not None
    assert read_notes(archive, memory, [OTHER]) == {OTHER: "nobody wants them"}
    assert b"note: nobody wants them" in (archive.read(PLAN_PATH) or b"")


def test_people_read_what_was_written(archive: Archive, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(archive, OTHER, "redrive", "--note", "why", "--resolved") == 0
    assert run(archive, OTHER, "--no-resolved") == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        f"plan {PLAN_ID}, group {OTHER}: leave -> redrive",
        f"group {OTHER}: noted",
    ]
    assert lines[2].startswith(f"group {OTHER}: resolved since 20")
    assert lines[3].startswith("next, a dry run: dlq redrive")
    assert lines[4:] == [f"group {OTHER}: not resolved"]


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        (["g-1111111111", "--note", "why"], "its groups are g-abcdefabcd"),
        (["seen", "--note", "why"], "has no group seen"),
        (["g-../../../x", "--resolved"], "has no group g-../../../x"),
        ([GROUP], "say something"),
        ([GROUP, "--edit", "[]"], "say something"),
        ([GROUP, "--edit", "[]", "--resolved"], "--edit needs an ACTION"),
        ([GROUP, "--note", "x" * 2001], "at most 2,000"),
        ([OTHER, "resend"], "invalid choice: 'resend'"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_nothing_is_written(
    archive: Archive, capsys: pytest.CaptureFixture[str], words: list[str], rule: str
) -> None:
    before = archive.list("groups")

    assert run(archive, *words) == 2
    assert rule in capsys.readouterr().err
    assert archive.list("groups") == before
    assert archive.read(PLAN_PATH) == PLAN.encode()


def test_a_decision_that_is_not_remembered_is_repeated_by_the_same_command(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.setattr(LocalArchive, "create", _refuse)
        assert run(archive, OTHER, "discard") == 2
    assert b"action: discard" in (archive.read(PLAN_PATH) or b"")
    assert OTHER not in read_memory(archive).states

    assert run(archive, OTHER, "discard") == 0
    assert read_memory(archive).state(OTHER).action == "discard"


def _refuse(self: LocalArchive, path: str, content: bytes) -> bool:
    raise ArchiveError(f"archive {self.root}: cannot write {path}: disk full")


def test_a_decision_that_somebody_else_overtook_is_refused_and_not_remembered(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(LocalArchive, "replace", lambda *_: False)

    assert run(archive, OTHER, "discard") == 2
    assert "somebody else has changed it" in capsys.readouterr().err
    assert OTHER not in read_memory(archive).states


PATCH = '[{"op":"replace","path":"/vat","value":19.00}]'


@pytest.fixture
def of_orders(tmp_path: Path) -> Archive:
    made = archived(tmp_path, [order(1), order(2)])
    plan_of(made)
    return made


def group_now(archive: Archive) -> PlannedGroup:
    (group,) = read_plan(find_plan(archive, None).read()).groups
    return group


def decide(archive: Archive, *words: str) -> int:
    group_id = group_now(archive).group_id
    return main(["decide", "--archive", archive.root, group_id, "redrive", *words])


def patch_of(archive: Archive) -> str | None:
    edit = group_now(archive).edit
    return edit.patch.text if edit and edit.patch else None


@pytest.mark.parametrize("is_file", [False, True])
def test_a_patch_is_text_or_a_file(
    of_orders: Archive, tmp_path: Path, capsys: pytest.CaptureFixture[str], is_file: bool
) -> None:
    (tmp_path / "patch.json").write_text(PATCH)

    place = str(tmp_path / "patch.json") if is_file else PATCH
    assert decide(of_orders, "--edit", place, "--json") == 0

    assert json.loads(capsys.readouterr().out)["is_edited"] is True
    assert patch_of(of_orders) == PATCH
    assert group_now(of_orders).action == "redrive"


def test_a_decision_alone_keeps_the_edit_and_an_empty_list_takes_it_away(
    of_orders: Archive,
) -> None:
    assert decide(of_orders, "--edit", PATCH) == 0
    assert decide(of_orders, "--note", "fixed") == 0
    assert patch_of(of_orders) == PATCH
    assert decide(of_orders, "--edit", "[]") == 0
    assert patch_of(of_orders) is None


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ('[{"op":"drop","path":"/vat"}]', "--edit: operation 1: Unknown operation"),
        ("[{", "--edit: "),
        ("nowhere.json", "--edit nowhere.json: cannot be read"),
    ],
)
def test_a_faulty_patch_changes_nothing(
    of_orders: Archive, capsys: pytest.CaptureFixture[str], patch: str, why: str
) -> None:
    before = find_plan(of_orders, None).read()

    assert decide(of_orders, "--edit", patch) == 2

    assert why in capsys.readouterr().err
    assert find_plan(of_orders, None).read() == before


@pytest.mark.parametrize(
    ("action", "following"),
    [
        ("redrive", "next, a dry run: dlq redrive --archive {} --main-queue-url URL"),
        ("leave", "next: dlq groups --archive {}"),
    ],
)
def test_the_next_command_is_about_the_same_plan(
    action: str, following: str, archive: Archive, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(archive, OTHER, action, "--plan", PLAN_ID) == 0

    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"{following.format(archive.root)} --plan {PLAN_ID}"
