"""``analyze`` and what an archive remembers of its groups."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
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
from tests.integration.spark_world import analyzed, archive_of, counts_of, recorded_as_sent
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


ERRORS = ("VatError", "TimeoutError", "ValueError")
NOTE = "HR is <b>missing</b>"


@dataclass(frozen=True)
class Story:
    """Analyses of one archive, in their order.

    Attributes:
        second: after people called VatError and TimeoutError resolved.
        part: of VatError alone, while a file of what is remembered was damaged.
        third: after all messages were redriven.
        last: after messages of VatError and TimeoutError came, and one with a new error.
    """

    archive: Archive
    first: Findings
    second: Findings
    part: Findings
    third: Findings
    last: Findings


DAMAGED = "groups/g-0123456789/000001.json"


@pytest.fixture
def story(engine: Engine, tmp_path: Path) -> Story:
    archive = drained(tmp_path, 1, [failed(error, error) for error in ERRORS])
    first = analyzed(engine, archive)

    run(archive, "decide", id_of(first, "VatError"), "--resolved", "--note", NOTE)
    run(archive, "decide", id_of(first, "TimeoutError"), "--resolved")
    second = analyzed(engine, archive)

    archive.write(DAMAGED, b"{")
    part = analyzed(engine, archive, where="error_type = 'VatError'")
    archive.remove(DAMAGED)

    for name in ERRORS:
        recorded_as_sent(archive, name)
    third = analyzed(engine, archive)

    late = [failed("a-2", "VatError", FUTURE), failed("a-3", "VatError")]
    drained(archive, 2, [*late, failed("b-2", "TimeoutError"), failed("c-1", "KeyError")])
    last = analyzed(engine, archive)
    return Story(archive, first, second, part, third, last)


def test_a_group_goes_from_new_to_regressed(story: Story) -> None:
    resolved = {"VatError": "resolved", "TimeoutError": "resolved"}

    assert statuses(story.first) == dict.fromkeys(ERRORS, "new")
    assert statuses(story.second) == {**resolved, "ValueError": "known"}
    assert statuses(story.part) == {"VatError": "resolved"}
    assert story.part.unreadable == (DAMAGED,)
    assert statuses(story.last) == {**resolved, "VatError": "regressed", "KeyError": "new"}


def test_groups_of_which_nothing_is_pending_are_gone(story: Story) -> None:
    ids_of_errors = [id_of(story.second, error) for error in ERRORS]
    page = (Path(story.third.plan_path).parent / "report.html").read_text()

    assert [group.group_id for group in story.third.gone] == sorted(ids_of_errors)
    assert {group.report_id for group in story.third.gone} == {story.second.plan_id}
    assert "3 gone" in page


def test_the_report_says_the_status_of_each_group_and_its_note(story: Story) -> None:
    folder = Path(story.last.plan_path).parent
    summary = json.loads((folder / "summary.json").read_text())
    page = (folder / "report.html").read_text()
    rows = pq.read_table(folder / "groups.parquet").to_pylist()

    vat = id_of(story.first, "VatError")
    group = next(group for group in story.last.groups if group.group_id == vat)
    assert (group.resolved_at is None, group.note) == (False, NOTE)
    assert group.first_seen_at == story.first.analyzed_at
    assert summary["statuses"] == {"regressed": 1, "new": 1, "resolved": 1}
    assert "1 regressed · 1 new · 1 resolved" in page
    assert "HR is &lt;b&gt;missing&lt;/b&gt;" in page
    assert {row["status"] for row in rows} == {"regressed", "new", "resolved"}


def test_the_verb_says_the_status_of_each_group_and_its_note(story: Story, capsys: Capture) -> None:
    capsys.readouterr()
    run(story.archive, "groups", "--json")
    answer = json.loads(capsys.readouterr().out)
    run(story.archive, "groups")
    shown = capsys.readouterr().out

    vat = id_of(story.first, "VatError")
    [listed] = [group for group in answer["groups"] if group["group_id"] == vat]
    assert answer["statuses"] == {"regressed": 1, "new": 1, "resolved": 1}
    assert (listed["status"], listed["remembered"]) == ("regressed", NOTE)
    assert "1 regressed · 1 new · 1 resolved" in shown
    assert re.search(rf"resolved since 20.{{14}} · {re.escape(NOTE)}", shown)


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


def of_customer(number: int) -> Message:
    """A message whose error names a customer; each number has a customer of its own."""
    error = FailureError("AuthError", f"customer {'abcdefghijklmnopqrst'[number] * 5} may not")
    attributes = context(first_id=f"m-{number}", reason="too_old", error=error)
    return message(f"m-{number}", "{}", attributes)


POLICY = read_policy(
    "version: 1\nrules: [{name: many, when: count = 16 AND share > 0.9, action: redrive}]"
)


@dataclass(frozen=True)
class Grown:
    """An archive with 2, then 12, then 16 customers' messages, and an analysis of each state.

    Attributes:
        oldest: the id of the group that all customers' messages are in.
        part: the id of the group that the second customer's message was in at first.
    """

    archive: Archive
    first: Findings
    second: Findings
    third: Findings
    oldest: str
    part: str


@pytest.fixture
def grown(engine: Engine, tmp_path: Path) -> Grown:
    archive = drained(tmp_path, 1, [*map(of_customer, range(2)), failed("a-1", "VatError")])
    first = analyzed(engine, archive)
    drained(archive, 2, [of_customer(number) for number in range(2, 12)])
    second = analyzed(engine, archive)
    drained(archive, 3, [of_customer(number) for number in range(12, 16)])
    third = analyzed(engine, archive, policy=POLICY)

    [(part, oldest)] = third.same_failure.items()
    return Grown(archive, first, second, third, oldest, part)


@pytest.mark.both_engines
def test_groups_keep_their_ids_while_an_archive_grows(grown: Grown) -> None:
    vat = id_of(grown.first, "VatError")

    assert counts_of(grown.first) == {grown.oldest: 1, grown.part: 1, vat: 1}
    assert counts_of(grown.second) == {grown.oldest: 11, grown.part: 1, vat: 1}
    assert counts_of(grown.third) == {grown.oldest: 15, grown.part: 1, vat: 1}
    assert grown.third.groups[0].title == "AuthError: customer <*> may not"
    assert grown.second.same_failure == grown.third.same_failure
    assert b"customer" not in (grown.archive.read("groups/table.json") or b"customer")


@pytest.mark.both_engines
def test_a_decision_about_a_part_is_one_about_all_groups_of_its_failure(
    engine: Engine, grown: Grown
) -> None:
    groups = find_plan(grown.archive, grown.third.plan_id).plan().groups
    planned = {group.group_id: group.action for group in groups}
    run(grown.archive, "decide", grown.part, "discard")
    last = analyzed(engine, grown.archive, policy=POLICY)

    vat = id_of(grown.first, "VatError")
    assert planned == {grown.oldest: "redrive", grown.part: "redrive", vat: "leave"}
    assert last.left_for_people == {grown.oldest: "discard", grown.part: "discard"}
    assert last.same_failure == last.similar == grown.third.same_failure


@pytest.mark.both_engines
def test_values_at_the_place_that_differs_are_read_from_the_messages(
    grown: Grown, capsys: Capture
) -> None:
    capsys.readouterr()
    run(grown.archive, "show", grown.oldest)
    shown = capsys.readouterr().out
    run(grown.archive, "show", grown.part, "--json")
    words_of_part = json.loads(capsys.readouterr().out)["words"]

    assert "at <*>: 15 different in 15 messages: " in shown
    assert "ccccc (1)" in shown
    assert (words_of_part or [None]) == [None]
    browser = opened(console_of(grown.archive))
    address = f"/groups/{grown.oldest}/words"
    assert address in browser.get(f"/groups/{grown.oldest}").text
    words = browser.get(address).text
    assert "15 different" in words
    assert "ddddd" in words


@pytest.mark.both_engines
def test_a_condition_that_no_message_meets_leaves_nothing_to_analyze(
    engine: Engine, grown: Grown
) -> None:
    assert analyzed(engine, grown.archive, where="false").messages == 0


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
    differences = [difference for group in findings.groups for difference in group.differences]
    fields = {part.field for difference in differences for part in difference.parts}
    assert fields == {"body.tenant"}

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
