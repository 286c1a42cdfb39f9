from datetime import UTC, datetime
from pathlib import Path

from spark_reprocess.analysis.group_findings import titles_before
from spark_reprocess.analysis.groups.mask import compile_masks
from spark_reprocess.analysis.outputs import summary_json
from spark_reprocess.archive.storage.files import open_archive
from spark_reprocess.groups.triage import SeenGroup, Status
from tests.support.findings_builder import a_group, some_findings

DRAINED = datetime(2026, 11, 1, tzinfo=UTC)


def seen(group_id: str, report_id: str) -> SeenGroup:
    return SeenGroup(group_id, DRAINED, DRAINED, report_id, 1, None, Status.KNOWN)


def test_titles_of_gone_groups_come_from_the_reports_that_list_them(tmp_path: Path) -> None:
    archive = open_archive(str(tmp_path))
    for number, title in ((1, "older"), (2, "mail ada@example.org, order 4711")):
        findings = some_findings(a_group(group_id="g-1", title=title), a_group(group_id="g-2"))
        archive.write(f"reports/r-{number}/summary.json", summary_json(findings).encode())
    archive.write("reports/r-3/summary.json", b"damaged")
    gone = [seen("g-1", "r-2"), seen("g-0", "r-1")]

    titles = titles_before(archive, gone, compile_masks(["4711"]))

    assert titles["g-1"] == "mail ***, order ***"
    assert titles_before(archive, [*gone, seen("g-3", "r-3")], compile_masks([])) == {}
    assert titles_before(archive, [*gone, seen("g-4", "r-4")], compile_masks([])) == {}
    assert titles_before(archive, gone, compile_masks([], shows_values=False)) == {}
    assert titles_before(archive, gone, compile_masks(["body.customer"])) == {}
