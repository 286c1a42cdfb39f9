"""What erasing does to files, plans and records, without Spark."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_reprocess.archive.dead_letter_schema import ARROW_SCHEMA, from_row, to_row
from spark_reprocess.archive.erasures import (
    Erasure,
    erased_of,
    erasures,
    mark_done,
    record_erasure,
    unfinished,
)
from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.archive.frames import read_files
from spark_reprocess.archive.lookup import find_rows
from spark_reprocess.archive.message_store import (
    digest,
    drain_ids,
    holds_any,
    remove_messages,
    write_messages,
    write_without,
)
from spark_reprocess.erase.reports import reports_of, strip_report, with_condition, without_titles
from spark_reprocess.errors import ArchiveError
from spark_reprocess.plan.plan import Action, Plan, PlannedGroup, Snapshot, plan_text
from tests.builders import NOW, filler, message, queue_url
from tests.dying_archive import Dying, KilledError

DRAIN = "20261121T031502Z-ab12cd"


def rows_in(archive: Archive) -> list[str]:
    found: list[str] = []
    for path in archive.list("messages"):
        table = pq.read_table(pa.BufferReader(archive.read(path) or b""))
        assert table.schema.equals(ARROW_SCHEMA)
        found += [from_row(row).message_id for row in table.to_pylist()]
    return found


def fill(archive: Archive, ids: list[str], task: int = 0) -> str:
    drained_at = datetime.fromtimestamp(NOW, UTC)
    rows = [
        to_row(message(one, f"body of {one}", filler(2)), queue_url("p"), drained_at) for one in ids
    ]
    return write_messages(archive, DRAIN, task, rows)


def erase_all(archive: Archive, ids: set[str]) -> None:
    remove_messages(archive, DRAIN, ids, lambda: None)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sets(st.sampled_from("abcdef")), min_size=1, max_size=3),
    st.sets(st.sampled_from("abcdef")),
    st.integers(1, 8),
    st.booleans(),
)
def test_killed_anywhere_a_repeat_ends_it_and_nothing_else_is_lost(
    files: list[set[str]], gone: set[str], dies_at: int, is_before: bool
) -> None:
    with TemporaryDirectory() as folder:
        archive = open_archive(folder)
        for task, ids in enumerate(files):
            fill(archive, sorted(ids), task)
        dying = Dying(archive.root, dies_at, is_before)
        try:
            erase_all(dying, gone)
        except KilledError:
            # Whatever was to stay is there, wherever it stopped.
            assert {one for ids in files for one in ids} - gone <= set(rows_in(archive))

        erase_all(archive, gone)

        assert sorted(rows_in(archive)) == sorted(one for ids in files for one in ids - gone)
        assert drain_ids(archive) == [DRAIN]


def test_file_without_such_a_message_stays_as_it_is(tmp_path: Path) -> None:
    archive = open_archive(str(tmp_path))
    fill(archive, ["a", "b"])
    before = archive.list("messages")

    assert write_without(archive, before[0], {"c"}) == 0
    assert archive.list("messages") == before


def half_overwritten(archive: Archive) -> bytes:
    """Return a file of messages of which the footer is well and a page cannot be decompressed."""
    content = archive.read(fill(archive, [f"m-{number}" for number in range(100)])) or b""
    return content[:4] + bytes(len(content) // 2) + content[4 + len(content) // 2 :]


@pytest.mark.parametrize("is_parquet", [True, False])
def test_broken_file_is_an_error_with_its_name_and_stays(
    tmp_path: Path, *, is_parquet: bool
) -> None:
    archive = open_archive(str(tmp_path / "archive"))
    content = half_overwritten(open_archive(str(tmp_path))) if is_parquet else b"no parquet"
    path = f"messages/drain_id={DRAIN}/part-00000-1-x.parquet"
    archive.write(path, content)
    files = pa.RecordBatch.from_pylist([{"path": path, "drain_id": DRAIN}])

    for read in (
        lambda: write_without(archive, path, {"a"}),
        lambda: find_rows(archive, {"a"}),
        lambda: list(read_files(archive, ["message_id"], [files])),
    ):
        with pytest.raises(ArchiveError, match=f"{path} cannot be read .* restore it or take it"):
            read()
    assert holds_any(content, {"a"})
    assert archive.list("messages") == [path]


def test_removing_twice_is_well(tmp_path: Path) -> None:
    archive = open_archive(str(tmp_path))
    archive.write("a/b", b"x")

    archive.remove("a/b")
    archive.remove("a/b")

    assert archive.read("a/b") is None


def erasure(erase_id: str, *ids: str, **plans: list[str]) -> Erasure:
    return Erasure(erase_id, "me@here", "asked to", "2026-11-21T12:00:00+00:00",
                   {one: [DRAIN] for one in ids}, plans, ["g-1"])  # fmt: skip


def test_erasure_is_unfinished_until_it_is_marked(tmp_path: Path) -> None:
    archive = open_archive(str(tmp_path))
    record_erasure(archive, erasure("e-1", "a"))
    record_erasure(archive, erasure("e-2", "b"))
    mark_done(archive, "e-1")

    assert [one.erase_id for one in unfinished(archive)] == ["e-2"]
    assert erasures(archive) == [erasure("e-1", "a"), erasure("e-2", "b")]


def test_record_never_takes_the_place_of_another_one(tmp_path: Path) -> None:
    archive = open_archive(str(tmp_path))
    first = record_erasure(archive, erasure("e-1", "a"))
    mark_done(archive, first.erase_id)

    second = record_erasure(archive, erasure("e-1", "b"))

    assert first == erasure("e-1", "a")
    assert second == replace(erasure("e-1", "b"), erase_id=second.erase_id)
    assert {one.erase_id: one for one in erasures(archive)} == {
        first.erase_id: first,
        second.erase_id: second,
    }
    assert unfinished(archive) == [second]


def test_erased_messages_of_a_plan_are_told(tmp_path: Path) -> None:
    archive = open_archive(str(tmp_path))
    record_erasure(archive, erasure("e-1", "a", "b", p=["b"]))
    record_erasure(archive, erasure("e-2", "b", "c"))

    def told(where: str | None, drains: list[str], *found: str) -> list[tuple[str, ...]]:
        return [one.message_ids for one in erased_of(archive, "p", drains, where, found, None)]

    assert told(None, [DRAIN]) == [("a", "b"), ("c",)]
    assert told(None, [DRAIN], "a") == [("b",), ("c",)]
    assert told(None, ["another"]) == []
    assert told("x = 1", [DRAIN]) == [("b",), ("c",)]
    (first, _) = erased_of(archive, "p", [DRAIN], None, [], None)
    assert first.sentence == (
        "2 messages were erased since, by me@here at 2026-11-21T12:00:00+00:00 (e-1)"
    )


def test_table_of_a_plan_says_which_erased_messages_were_its_own(tmp_path: Path) -> None:
    """Also of a plan with a condition that was not in the archive when they were erased."""
    archive = open_archive(str(tmp_path))
    record_erasure(archive, erasure("e-1", "a", "b", "c"))

    (one,) = erased_of(archive, "elsewhere", [DRAIN], "x = 1", ["c"], frozen=["a", "c"])

    assert one.message_ids == ("a",)


def test_record_that_was_changed_is_an_error(tmp_path: Path) -> None:
    archive = open_archive(str(tmp_path))
    archive.write("ledger/erasures/e-1.json", b"{}")

    with pytest.raises(ArchiveError, match="somebody changed it"):
        erasures(archive)


def a_plan(title: str = "Jane's order") -> Plan:
    snapshot = Snapshot((DRAIN,), 1, digest(["a"]), table_sha256=digest(["table"]))
    groups = (
        PlannedGroup("g-1", title, 1, Action.REDRIVE),
        PlannedGroup("g-2", "KeyError: 'zip'", 1, Action.LEAVE),
    )
    return Plan("p-1", "/a", snapshot, groups)


@given(st.text(max_size=60))
def test_title_goes_and_the_rest_of_the_plan_stays(title: str) -> None:
    text = plan_text(a_plan(title)) + "# my own comment\n"

    stripped = without_titles(text, ["g-1"])

    before, after = yaml.safe_load(text), yaml.safe_load(stripped)
    assert after["groups"][0].pop("title") == "(erased)"
    before["groups"][0].pop("title")
    assert after == before
    assert stripped.endswith("# my own comment\n")


@given(st.text(max_size=60), st.text(max_size=60))
def test_condition_goes_and_the_rest_of_the_plan_stays(where: str, ids: str) -> None:
    plan = replace(a_plan(), snapshot=replace(a_plan().snapshot, where=where))
    text = plan_text(plan) + "# my own comment\n"

    cleaned = with_condition(text, ids)

    before, after = yaml.safe_load(text), yaml.safe_load(cleaned)
    assert after["snapshot"].pop("where") == ids
    before["snapshot"].pop("where")
    assert after == before
    assert cleaned.endswith("# my own comment\n")


@pytest.mark.parametrize("style", ["|\n    body = 'Jane'\n", ">-\n    body =\n    'J'\n", "Jane"])
def test_condition_that_an_editor_wrote_anew_goes(style: str) -> None:
    text = f"snapshot:\n  where: {style}\n  sha256: x\n"

    assert yaml.safe_load(with_condition(text, "b")) == {"snapshot": {"where": "b", "sha256": "x"}}


def test_title_that_an_editor_wrote_as_a_block_goes() -> None:
    text = "groups:\n  - id: g-1\n    title: >-\n      Jane's\n      order\n    count: 2\n"

    groups = yaml.safe_load(without_titles(text, ["g-1"]))["groups"]

    assert groups == [{"id": "g-1", "title": "(erased)", "count": 2}]


def test_plan_without_a_condition_gets_none() -> None:
    assert with_condition(plan_text(a_plan()), "b") == plan_text(a_plan())
    assert with_condition("a: [", "b") == "a: ["


def test_lead_goes_and_other_comments_stay() -> None:
    notes = {"g-1": ["3 messages", "lead: body.name = Jane", "--where \"body.name = 'Jane'\""]}
    text = plan_text(a_plan(), notes)

    stripped = without_titles(text, ["g-1"])

    assert "Jane" in text
    assert "Jane" not in stripped
    assert "  # 3 messages\n  - id: g-1\n" in stripped
    assert yaml.safe_load(stripped)["snapshot"] == yaml.safe_load(text)["snapshot"]


@pytest.mark.parametrize("text", ["", "a: [", "groups: 1", "- x", "groups: [1, {id: g-1}]"])
def test_text_that_is_no_plan_stays_as_it_is(text: str) -> None:
    assert without_titles(text, ["g-1"]) == text


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 10), st.booleans())
def test_report_is_stripped_wherever_it_was_killed(dies_at: int, is_before: bool) -> None:
    with TemporaryDirectory() as folder:
        archive = open_archive(folder)
        for name in ("report.html", "summary.json", "groups.parquet"):
            archive.write(f"reports/r-1/{name}", b"Jane")
        archive.write("reports/r-1/plan.yaml", plan_text(a_plan()).encode())
        try:
            for report in reports_of(archive):
                strip_report(Dying(archive.root, dies_at, is_before), report, ["g-1"])
        except KilledError:
            pass

        for report in reports_of(archive):
            strip_report(archive, report, ["g-1"])

        assert archive.list("reports") == ["reports/r-1/plan.yaml"]
        text = (archive.read("reports/r-1/plan.yaml") or b"").decode()
        assert "Jane" not in text
        assert "(erased)" in text


def test_report_of_other_drains_may_not_quote(tmp_path: Path) -> None:
    archive = open_archive(str(tmp_path))
    archive.write("reports/r-1/plan.yaml", plan_text(a_plan()).encode())
    archive.write("reports/r-2/report.html", b"whose?")

    assert [(one.folder, one.may_quote(["other"])) for one in reports_of(archive)] == [
        ("reports/r-1", False),
        ("reports/r-2", True),
    ]
