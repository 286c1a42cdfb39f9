"""An edit that a decision writes, from the words of the command to the plan."""

import json
from pathlib import Path

import pytest

from dlq_cli.__main__ import main
from spark_reprocess.archive.storage.files import Archive
from spark_reprocess.plan.plan import PlannedGroup
from spark_reprocess.plan.plan_file import find_plan
from spark_reprocess.plan.reading import read_plan
from tests.support.parked_orders import archived, order, plan_of

PATCH = '[{"op":"replace","path":"/vat","value":19.00}]'


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
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
    archive: Archive, tmp_path: Path, capsys: pytest.CaptureFixture[str], is_file: bool
) -> None:
    (tmp_path / "patch.json").write_text(PATCH)

    place = str(tmp_path / "patch.json") if is_file else PATCH
    assert decide(archive, "--edit", place, "--json") == 0

    assert json.loads(capsys.readouterr().out)["is_edited"] is True
    assert patch_of(archive) == PATCH
    assert group_now(archive).action == "redrive"


def test_a_decision_alone_keeps_the_edit_and_an_empty_list_takes_it_away(archive: Archive) -> None:
    assert decide(archive, "--edit", PATCH) == 0
    assert decide(archive, "--note", "fixed") == 0
    assert patch_of(archive) == PATCH
    assert decide(archive, "--edit", "[]") == 0
    assert patch_of(archive) is None


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        ('[{"op":"drop","path":"/vat"}]', "--edit: operation 1: Unknown operation"),
        ("[{", "--edit: "),
        ("nowhere.json", "--edit nowhere.json: cannot be read"),
    ],
)
def test_a_faulty_patch_changes_nothing(
    archive: Archive, capsys: pytest.CaptureFixture[str], patch: str, why: str
) -> None:
    before = find_plan(archive, None).read()

    assert decide(archive, "--edit", patch) == 2

    assert why in capsys.readouterr().err
    assert find_plan(archive, None).read() == before
