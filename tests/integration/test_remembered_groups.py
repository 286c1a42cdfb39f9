"""``analyze`` and what an archive remembers of its groups."""

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from dlq.archive.group_records import read_memory
from dlq.archive.storage.files import Archive
from dlq.archive.storage.local import LocalArchive
from dlq.cli.command import main
from dlq.engine import Engine
from dlq.errors import ArchiveError
from dlq.explain import grouping
from dlq.explain.analyze import AnalysisRequest, analyze
from dlq.explain.findings import Findings
from dlq.plan.action_policy import read_policy
from dlq.plan.plan_file import find_plan
from dlq_replay.wire.context import FailureError
from dlq_replay.wire.message import Message
from tests.integration.conftest import Capture
from tests.integration.spark_world import analyzed, archive_of, recorded_as_sent
from tests.support.builders import context, message
from tests.support.console_world import console_of, opened

PAST = datetime(2026, 11, 1, tzinfo=UTC).timestamp()
FUTURE = datetime(2999, 1, 1, tzinfo=UTC).timestamp()


def failed(name: str, error: str, sent_seconds: float = PAST) -> Message:
    reason = FailureError(error, "it was so")
    sent = {"SentTimestamp": str(int(sent_seconds * 1000))}
    return message(name, "{}", context(first_id=name, reason="too_old", error=reason), **sent)


def drained(archive: Archive | Path, number: int, messages: Sequence[Message]) -> Archive:
    folder = Path(archive.root) if not isinstance(archive, Path) else archive
    return archive_of(folder, messages, drain_id=f"20261121T{number:06d}Z-ab12cd")


def statuses(findings: Findings) -> dict[str, str]:
    """The status of each group by the error that its title begins with."""
    return {group.title.split(":")[0]: group.status for group in findings.groups}


def id_of(findings: Findings, error: str) -> str:
    return next(group.group_id for group in findings.groups if group.title.startswith(error))


def run(archive: Archive, verb: str, *words: str) -> None:
    assert main([verb, "--archive", archive.root, *words]) == 0


def test_a_group_goes_from_new_to_regressed_and_the_report_says_so(
    engine: Engine, tmp_path: Path, capsys: Capture
) -> None:
    errors = ("VatError", "TimeoutError", "ValueError")
    archive = drained(tmp_path, 1, [failed(error, error) for error in errors])
    first = analyzed(engine, archive)
    vat = id_of(first, "VatError")
    run(archive, "decide", vat, "--resolved", "--note", "HR is <b>missing</b>")
    run(archive, "decide", id_of(first, "TimeoutError"), "--resolved")
    second = analyzed(engine, archive)
    damaged = "groups/g-0123456789/000001.json"
    archive.write(damaged, b"{")
    part = analyzed(engine, archive, where="error_type = 'VatError'")
    archive.remove(damaged)
    for name in errors:
        recorded_as_sent(archive, name)
    third = analyzed(engine, archive)
    late = [failed("a-2", "VatError", FUTURE), failed("a-3", "VatError")]
    drained(archive, 2, [*late, failed("b-2", "TimeoutError"), failed("c-1", "KeyError")])
    last = analyzed(engine, archive)

    assert statuses(first) == dict.fromkeys(errors, "new")
    assert statuses(second) == {
        "VatError": "resolved",
        "TimeoutError": "resolved",
        "ValueError": "known",
    }
    assert (statuses(part), part.unreadable) == ({"VatError": "resolved"}, (damaged,))
    assert [group.group_id for group in third.gone] == sorted(
        id_of(second, group) for group in errors
    )
    assert {group.report_id for group in third.gone} == {second.plan_id}
    assert statuses(last) == {
        "VatError": "regressed",
        "TimeoutError": "resolved",
        "KeyError": "new",
    }

    group = next(group for group in last.groups if group.group_id == vat)
    assert (group.resolved_at is None, group.note) == (False, "HR is <b>missing</b>")
    assert group.first_seen_at == first.analyzed_at
    folder = Path(last.plan_path).parent
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["statuses"] == {"regressed": 1, "new": 1, "resolved": 1}
    page = (folder / "report.html").read_text()
    assert "1 regressed · 1 new · 1 resolved" in page
    assert "HR is &lt;b&gt;missing&lt;/b&gt;" in page
    rows = pq.read_table(folder / "groups.parquet").to_pylist()
    assert {row["status"] for row in rows} == {"regressed", "new", "resolved"}
    assert "3 gone" in (Path(third.plan_path).parent / "report.html").read_text()

    capsys.readouterr()
    run(archive, "groups", "--json")
    answer = json.loads(capsys.readouterr().out)
    (listed,) = [group for group in answer["groups"] if group["group_id"] == vat]
    assert answer["statuses"] == {"regressed": 1, "new": 1, "resolved": 1}
    assert (listed["status"], listed["remembered"]) == ("regressed", "HR is <b>missing</b>")
    run(archive, "groups")
    shown = capsys.readouterr().out
    assert "1 regressed · 1 new · 1 resolved" in shown
    assert re.search(r"resolved since 20.{14} · HR is <b>missing</b>", shown)


def test_groups_that_are_not_listed_are_not_gone(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = ("VatError", "TimeoutError", "KeyError")
    archive = drained(tmp_path, 1, [failed(error, error) for error in errors])
    analyzed(engine, archive)
    monkeypatch.setattr(grouping, "LISTED_GROUPS", 2)
    drained(archive, 2, [failed("a-2", "VatError")])

    findings = analyzed(engine, archive)

    assert statuses(findings) == {"VatError": "known", "everything else": "new"}
    assert [group.count for group in findings.groups] == [2, 2]


@pytest.mark.both_engines
def test_groups_keep_their_ids_while_an_archive_grows(
    engine: Engine, tmp_path: Path, capsys: Capture
) -> None:
    def user(number: int) -> Message:
        error = FailureError("AuthError", f"customer {'abcdefghijklmnopqrst'[number] * 5} may not")
        attributes = context(first_id=f"m-{number}", reason="too_old", error=error)
        return message(f"m-{number}", "{}", attributes)

    rule = "version: 1\nrules: [{name: many, when: count = 16 AND share > 0.9, action: redrive}]"
    policy = read_policy(rule)
    archive = drained(tmp_path, 1, [*map(user, range(2)), failed("a-1", "VatError")])
    first = analyzed(engine, archive)
    drained(archive, 2, [user(number) for number in range(2, 12)])
    second = analyzed(engine, archive)
    table = archive.read("groups/table.json")
    drained(archive, 3, [user(number) for number in range(12, 16)])
    third = analyzed(engine, archive, policy=policy)
    [(part, oldest)] = third.same_failure.items()
    planned = {
        group.group_id: group.action for group in find_plan(archive, third.plan_id).plan().groups
    }
    run(archive, "decide", part, "discard")
    last = analyzed(engine, archive, policy=policy)

    vat = id_of(first, "VatError")
    counts = [
        {group.group_id: group.count for group in findings.groups}
        for findings in (first, second, third)
    ]
    assert counts == [{oldest: number, part: 1, vat: 1} for number in (1, 11, 15)]
    assert third.groups[0].title == "AuthError: customer <*> may not"
    assert second.same_failure == third.same_failure == last.same_failure == last.similar
    assert planned == {oldest: "redrive", part: "redrive", vat: "leave"}
    assert last.left_for_people == {oldest: "discard", part: "discard"}
    assert b"customer" not in (table or b"customer")

    # The value at the place that differs is read from the messages.
    capsys.readouterr()
    run(archive, "show", oldest)
    shown = capsys.readouterr().out
    assert "at <*>: 15 different in 15 messages: " in shown
    assert "ccccc (1)" in shown
    run(archive, "show", part, "--json")
    [of_part] = json.loads(capsys.readouterr().out)["words"] or [None]
    assert of_part is None
    page = opened(console_of(archive)).get(f"/groups/{oldest}").text
    assert f"/groups/{oldest}/words" in page
    words = opened(console_of(archive)).get(f"/groups/{oldest}/words").text
    assert "15 different" in words
    assert "ddddd" in words
    assert analyzed(engine, archive, where="false").messages == 0


def test_messages_of_one_code_are_a_group_and_no_difference_names_the_code(
    engine: Engine, tmp_path: Path
) -> None:
    def refused(number: int, code: str | None) -> Message:
        words = " ".join("abcdefghij"[int(digit)] * 3 for digit in f"{number:02d}")
        error = FailureError("Refused", "all alike" if number % 2 else words, code)
        ours = context(first_id=f"{code}-{number}", reason="too_old", error=error)
        return message(f"{code}-{number}", json.dumps({"tenant": f"of {code}"}), ours)

    codes = ("limit", "stolen", None)
    archive = drained(tmp_path, 1, [refused(n, code) for code in codes for n in range(40)])
    findings = analyzed(engine, archive, where="error_code IN ('limit', 'stolen')")

    groups = {group.title: group for group in findings.groups}
    assert {title: group.count for title, group in groups.items()} == {
        "Refused (limit)": 40,
        "Refused (stolen)": 40,
    }
    parts = [
        part
        for group in findings.groups
        for difference in group.differences
        for part in difference.parts
    ]
    assert {part.field for part in parts} == {"body.tenant"}

    run(archive, "collect", "--only", "analyze", "--group-by", "all (alike)")
    remembered = analyzed(engine, archive)
    counted = {group.title: group.count for group in remembered.groups}
    assert counted.items() >= {**dict.fromkeys(groups, 40), "Refused (alike)": 20}.items()
    assert remembered.group_by == "all (alike)"


def test_an_analysis_that_dies_before_its_end_leaves_nothing_false(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = drained(tmp_path, 1, [failed("a-1", "VatError")])
    # What is remembered is written last, after the plan.
    for path in ("/plan.yaml", "groups/seen/"):
        with monkeypatch.context() as patched:
            _die_at(patched, path)
            with pytest.raises(ArchiveError, match="killed"):
                analyze(engine, archive, AnalysisRequest())
        assert read_memory(archive).groups == {}

    assert statuses(analyzed(engine, archive)) == {"VatError": "new"}


def _die_at(patched: pytest.MonkeyPatch, path: str) -> None:
    for name in ("write", "create"):
        real = getattr(LocalArchive, name)

        def dying(self: LocalArchive, at: str, content: bytes, real: Any = real) -> Any:
            if path in f"/{at}":
                raise ArchiveError("killed")
            return real(self, at, content)

        patched.setattr(LocalArchive, name, dying)
