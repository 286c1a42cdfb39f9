import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import zipfile
from datetime import timedelta
from html import unescape
from pathlib import Path

import pytest

import dlq_replay
import spark_reprocess
from spark_reprocess.findings import Findings, GoneGroup, Synonym
from spark_reprocess.report.page import render_page
from spark_reprocess.report.views import COLOURS
from tests.findings_builder import (
    ANALYZED_AT,
    SOURCE,
    a_group,
    a_lead,
    a_sample,
    hostile_findings,
    many_findings,
    some_findings,
)
from tests.incident import incident_findings
from tests.page_outline import PageOutline

REPORT = Path(spark_reprocess.__file__).parent / "report"


def words_of(page: str) -> str:
    """The page's texts but scripts and styles, with single spaces."""
    outline = PageOutline(page)
    texts = [text for tag, text in outline.texts if tag not in ("script", "style")]
    return " ".join(" ".join(texts).split())


def test_the_head_says_what_happened() -> None:
    words = words_of(render_page(incident_findings()))

    assert "12,457 messages pending in 9 groups, since 2025-11-18 22:35." in words
    assert (
        "The largest group holds 60% of them: shop.payments.GatewayTimeout: no answer from <text> "
        "within <n> ms . In 99.4% of it body.payment.provider = cartebleue , "
        "against 3.1% of all others."
    ) in words
    assert "Analysed 2025-11-20 10:30" in words
    assert "Archive s3://shop-dead-letters/orders" in words


@pytest.mark.parametrize(
    ("sources", "stack", "title", "head"),
    [
        (((SOURCE, 9), ("bills", 1)), "shop", "orders and 1 more queue, stack shop", " of {}"),
        ((("orders", 4), (SOURCE, 6)), None, "orders", " of {}"),
        ((), None, "Dead letters", ""),
    ],
)
def test_title_and_head_name_the_queue_and_the_stack(
    sources: tuple[tuple[str, int], ...], stack: str | None, title: str, head: str
) -> None:
    page = PageOutline(render_page(some_findings(a_group(sources=sources), stack=stack)))

    texts = [text for tag, text in page.texts if tag in ("title", "p")]
    assert texts[0] == f"{title}: 10 messages pending"
    assert f"Dead letters{head.format(title)}" in texts


def test_one_group_has_no_other_to_be_compared_with() -> None:
    words = words_of(render_page(some_findings(a_group(count=1, leads=()))))

    assert "1 message pending in 1 group" in words
    assert "They all failed the same way: TimeoutError" in words
    assert "There is no other group to compare it with." in words


def test_without_groups_the_page_has_no_list() -> None:
    page = render_page(some_findings())

    assert "Nothing is left to decide." in words_of(page)
    assert 'id="groups"' not in page
    assert 'id="chart"' not in page


def test_unknown_times_are_said_to_be_unknown() -> None:
    group = a_group(first_sent_at=None, last_sent_at=None, arrivals=(), trend="", title=" ")
    group_page = render_page(some_findings(group, bucket_starts=()))

    words = words_of(group_page)
    assert "When these messages were sent is not known." in words
    assert "First sent unknown Last sent unknown" in words
    assert "(no title)" in words
    assert 'id="chart"' not in group_page


def test_messages_that_are_in_no_bucket_are_counted() -> None:
    page = render_page(some_findings(a_group(count=10, arrivals=(4, 0, 3))))

    assert "3 messages without a known time: not in the chart." in words_of(page)


def test_what_is_not_listed_is_said() -> None:
    findings = some_findings(a_group(), unlisted_groups=3, unlisted_messages=5, messages=15)
    condition = some_findings(a_group(), where="parked_reason = 'too_old'", sampled=5)

    assert "15 messages pending in 4 groups" in words_of(render_page(findings))
    assert "Not listed: 3 smaller groups with 5 messages." in words_of(render_page(findings))
    assert "Only messages that match parked_reason = 'too_old'" in words_of(render_page(condition))
    assert "Leads were found in 5 messages, drawn from all." in words_of(render_page(condition))


def test_a_group_shows_everything_that_was_found() -> None:
    group = a_group(
        leads=(
            a_lead(condition="tenant = 'acme'", compared_with="orders of other tenants"),
            a_lead(
                field="attribute.kind",
                value="(missing)",
                score=0.874,
                synonyms=(Synonym("body.account", "17"), Synonym("body.plan", "(present)")),
            ),
        ),
        samples=(a_sample(), a_sample(message_id="m-2", body="", attributes=())),
    )

    words = words_of(render_page(some_findings(group, a_group(group_id="g-2", count=5))))

    for phrase in (
        "TimeoutError: no answer after <n> ms",
        "body.customer.region = eu-west-3 score 0.93 97% of this group 4.1% of orders of other",
        "attribute.kind is missing score 0.87",
        "Same messages: body.account = 17 , body.plan is present",
        "steady , most 6 in 30 min from 2025-11-18 23:30",
        "Body size 120 B 340 B 900 B 1.2 KiB",
        "Age 1 min 2 h 1 d 1 h 1 d 12 h",
        "attempts_exhausted 9 90% too_old 1 10%",
        "Replays before unknown 1 10% 6 9 90%",
        "arn:aws:sqs:eu-central-1:123456789012:orders 10",
        '{ "order": { "id": "***", "total": 12.50 } }',
        "tenant acme",
        "The body is empty.",
        "the commands , with --group g-0123456789",
        "--where \"tenant = 'acme'\"",
    ):
        assert phrase in words


def test_a_long_tally_is_cut_and_sums_up_the_rest() -> None:
    sources = tuple((f"arn:{n}", 2) for n in range(30))

    words = words_of(render_page(some_findings(a_group(sources=sources))))

    assert "arn:11 2" in words
    assert "arn:12 " not in words
    assert "18 queues more 36" in words


def test_the_table_says_what_the_chart_draws() -> None:
    groups = [a_group(group_id=f"g-{n}", title=f"T{n}") for n in range(COLOURS + 2)]

    words = words_of(render_page(some_findings(*groups)))

    assert "from T0 T1 T2 T3 T4 T5 others all" in words
    assert "2025-11-18 22:30 4 4 4 4 4 4 8 32" in words


def test_a_thousand_groups_fit_a_page_that_a_phone_opens() -> None:
    page = render_page(many_findings(1_000))

    assert len(page.encode()) < 6_000_000
    assert page.count('<details class="group"') == 1_000
    words = words_of(page)
    assert "3 weaker leads left out" in words
    assert "5 samples left out" in words


def test_the_policy_names_the_hashes_of_what_the_page_holds() -> None:
    outline = PageOutline(render_page(incident_findings()))
    metas = [attributes for tag, attributes in outline.attributes if tag == "meta"]
    policy = next(one["content"] for one in metas if "http-equiv" in one)
    inline = [t for tag, t in outline.texts if tag in ("script", "style")]
    data = next(text for text in inline if text.startswith('{"starts"'))

    named = set(re.findall(r"'(sha256-[^']+)'", policy or ""))

    assert named == {csp_hash(text) for text in inline if text != data}
    assert json.loads(data)["colours"] == COLOURS
    assert (policy or "").startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in (policy or "")


def test_the_redrive_is_shown_as_a_dry_run_and_with_the_options_that_send() -> None:
    page = render_page(some_findings(a_group()))

    commands = [unescape(one) for one in re.findall(r'<span class="slot">.*?</code>', page)]

    options = [re.sub("<.*?>", "", one) for one in commands]
    assert options == ["--stack NAME", "--stack NAME --execute --reason 'WHY'"]


def csp_hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@pytest.mark.parametrize("findings", [incident_findings(), hostile_findings()])
def test_the_page_loads_nothing_and_handles_no_event_inline(findings: Findings) -> None:
    outline = PageOutline(render_page(findings))

    assert all(link.startswith("#") or link == "data:," for link in outline.links)
    names = {name for _, attributes in outline.attributes for name in attributes}
    assert not {name for name in names if name.startswith("on")}
    assert "style" not in names
    assert {tag for tag, _ in outline.attributes}.isdisjoint({"iframe", "object", "embed", "img"})


def test_ids_are_unique_and_links_lead_somewhere() -> None:
    outline = PageOutline(render_page(incident_findings()))
    ids = [attributes["id"] for _, attributes in outline.attributes if "id" in attributes]

    assert len(ids) == len(set(ids))
    assert {link[1:] for link in outline.links if link.startswith("#")} <= set(ids)


def test_a_time_zone_or_none_does_not_matter() -> None:
    naive = ANALYZED_AT.replace(tzinfo=None)

    page = render_page(some_findings(a_group(first_sent_at=naive - timedelta(days=1))))

    assert "since 2025-11-19 10:30" in words_of(page)


def test_the_vendored_chart_library_is_the_one_that_was_noted() -> None:
    folder = REPORT / "assets" / "uplot"
    noted = json.loads((folder / "vendored.json").read_text())

    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    files.pop("vendored.json")

    assert {name: hashlib.sha256(content).hexdigest() for name, content in files.items()} == noted[
        "files"
    ]
    assert noted["version"].encode() in files["uPlot.iife.min.js"][:200]
    assert b"MIT License" in files["LICENSE"]
    for word in (b"eval(", b"new Function", b"innerHTML", b"</script"):
        assert word not in files["uPlot.iife.min.js"]


def test_the_page_renders_from_a_zip(tmp_path: Path) -> None:
    archive = tmp_path / "job.zip"
    packages = (REPORT.parent, Path(dlq_replay.__file__).parent)
    with zipfile.ZipFile(archive, "w") as zipped:
        for package in packages:
            for path in sorted(package.rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    zipped.write(path, path.relative_to(package.parent))
    script = (
        "import sys\n"
        "from datetime import UTC, datetime\n"
        "from spark_reprocess.findings import Findings\n"
        "from spark_reprocess.report import page\n"
        "now = datetime(2025, 11, 20, tzinfo=UTC)\n"
        "found = Findings('p', 'a', 'p', now, 0, (), 60.0, (), 0, 0, None)\n"
        "print(page.__file__)\n"
        "print(page.render_page(found))\n"
    )

    environment = {**os.environ, "PYTHONPATH": str(archive)}
    printed = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    place, page = printed.split("\n", 1)

    assert place.startswith(str(archive))
    assert "Nothing is left to decide." in words_of(page)


def test_statuses_and_what_people_said_are_shown() -> None:
    first_seen_at = ANALYZED_AT - timedelta(days=3)
    findings = some_findings(
        a_group(
            status="regressed",
            first_seen_at=first_seen_at,
            expires_at=ANALYZED_AT + timedelta(days=9),
            resolved_at=ANALYZED_AT - timedelta(days=1),
            last_action="redrive",
            note="HR is missing",
        ),
        a_group(group_id="g-2", status="known"),
        gone=(GoneGroup("g-3", "KeyError: <text>", 12, first_seen_at),),
    )

    words = words_of(render_page(findings))

    assert "1 regressed · 1 known · 1 gone" in words
    assert (
        "First listed 2025-11-17 10:30 The bucket deletes from 2025-11-29 10:30 "
        "Resolved 2025-11-19 10:30 Decided last redrive Note HR is missing"
    ) in words
    assert words.count("What is remembered") == 1
    assert "g-3 12 KeyError: <text>" in words
