"""Verdicts in the archive: there as a whole or not at all."""

import json
from pathlib import Path

import pytest

from spark_reprocess.archive.local import LocalArchive
from spark_reprocess.archive.rehearsals import (
    MessageVerdict,
    Rehearsal,
    Verdict,
    newest_rehearsal,
    read_verdicts,
    remove_verdicts,
    write_rehearsal,
)
from spark_reprocess.errors import ArchiveError


def rehearsal(number: int = 0, edit: str = "") -> Rehearsal:
    return Rehearsal(
        rehearsal_id=f"20261122T00000{number}Z-ab12cd",
        plan_id="plan",
        group_id="g-1",
        handler="app:lambda_handler",
        code="sha256 ab",
        edit=edit,
        who="jo@desk",
        time="2026-11-22T00:00:00+00:00",
        counts={"pass": 1, "fail": 1, "unknown": 0},
        recorded={"dynamodb:PutItem": 1},
        is_isolated=False,
        python="3.13.1",
    )


VERDICTS = [
    MessageVerdict("m-1", Verdict.PASS),
    MessageVerdict("m-2", Verdict.FAIL, "KeyError: 'vat'", is_new_kind=True),
]


@pytest.fixture
def archive(tmp_path: Path) -> LocalArchive:
    return LocalArchive(str(tmp_path))


def test_what_is_read_is_what_was_written(archive: LocalArchive) -> None:
    stored = write_rehearsal(archive, rehearsal(), VERDICTS)

    assert newest_rehearsal(archive, "plan", "g-1") == stored
    assert read_verdicts(archive, stored).to_pylist() == [
        {"message_id": "m-1", "verdict": "pass", "reason": "", "is_new_kind": False},
        {
            "message_id": "m-2",
            "verdict": "fail",
            "reason": "KeyError: 'vat'",
            "is_new_kind": True,
        },
    ]


def test_newest_counts_of_each_edit_group_and_plan(archive: LocalArchive) -> None:
    for number, edit in enumerate(["", "e1", "", "e2"]):
        write_rehearsal(archive, rehearsal(number, edit), VERDICTS)

    def found(*words: str) -> str | None:
        newest = newest_rehearsal(archive, *words)
        return None if newest is None else newest.rehearsal_id[14]

    assert found("plan", "g-1") == "3"
    assert found("plan", "g-1", "") == "2"
    assert found("plan", "g-1", "e1") == "1"
    assert found("plan", "g-1", "e3") is None
    assert found("plan", "g-2") is None
    assert found("plan-2", "g-1") is None


def test_rehearsal_that_was_killed_before_its_head_is_none(archive: LocalArchive) -> None:
    write_rehearsal(archive, rehearsal(), VERDICTS)
    archive.remove("rehearsals/plan/g-1/20261122T000000Z-ab12cd.json")

    assert newest_rehearsal(archive, "plan", "g-1") is None


def test_second_rehearsal_of_one_id_is_refused(archive: LocalArchive) -> None:
    write_rehearsal(archive, rehearsal(), VERDICTS)

    with pytest.raises(ArchiveError, match="rehearse again"):
        write_rehearsal(archive, rehearsal(), VERDICTS)


def test_verdicts_that_are_gone_or_changed_are_not_read(archive: LocalArchive) -> None:
    stored = write_rehearsal(archive, rehearsal(), VERDICTS)
    path = "rehearsals/plan/g-1/20261122T000000Z-ab12cd.parquet"
    archive.write(path, b"other")
    with pytest.raises(ArchiveError, match="is missing or was changed"):
        read_verdicts(archive, stored)
    archive.remove(path)
    with pytest.raises(ArchiveError, match="is missing or was changed"):
        read_verdicts(archive, stored)


@pytest.mark.parametrize(
    ("change", "fault"),
    [({"version": 2}, "newer version"), ({"counts": None, "code": 1, "sha256": None}, None)],
)
def test_head_of_a_newer_version_is_refused(
    archive: LocalArchive, change: dict[str, object], fault: str | None
) -> None:
    write_rehearsal(archive, rehearsal(), VERDICTS)
    path = "rehearsals/plan/g-1/20261122T000000Z-ab12cd.json"
    head = json.loads(archive.read(path) or b"")
    archive.write(path, json.dumps({**head, **change, "unknown": 1}).encode())

    if fault is None:
        assert newest_rehearsal(archive, "plan", "g-1") is not None
        return
    with pytest.raises(ArchiveError, match=fault):
        newest_rehearsal(archive, "plan", "g-1")


def test_damaged_head_is_named(archive: LocalArchive) -> None:
    archive.write("rehearsals/plan/g-1/20261122T000000Z-ab12cd.json", b"{}")

    with pytest.raises(ArchiveError, match=r"ab12cd\.json cannot be read"):
        newest_rehearsal(archive, "plan", "g-1")


def test_removing_takes_whole_rehearsals_and_no_other(archive: LocalArchive) -> None:
    write_rehearsal(archive, rehearsal(0), VERDICTS)
    kept = write_rehearsal(archive, rehearsal(1), VERDICTS[:1])
    archive.write("rehearsals/plan/g-1/damaged.parquet", b"damaged")

    assert remove_verdicts(archive, []) == 0
    assert remove_verdicts(archive, ["m-2", "m-9"]) == 2

    stem = f"rehearsals/plan/g-1/{kept.rehearsal_id}"
    assert archive.list("rehearsals") == [f"{stem}.json", f"{stem}.parquet"]
