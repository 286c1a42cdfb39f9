import base64
import hashlib
import json
import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from dlq.explain.findings import Findings, Part, Synonym
from dlq.report.page import render_page
from dlq.report.views import COLOURS
from tests.support.findings_builder import (
    ANALYZED_AT,
    SOURCE,
    a_difference,
    a_group,
    a_sample,
    gone_group,
    hostile_findings,
    many_findings,
    some_findings,
)
from tests.support.golden import assert_stored, stored_rows
from tests.support.incident import incident_findings
from tests.support.page_outline import PageOutline

ROOT = Path(__file__).parents[4]


def words_of(page: str) -> str:
    return " ".join(PageOutline(page).lines)


EVERYTHING = a_group(
    sources={SOURCE: 9, "bills": 1},
    differences=(
        replace(
            a_difference(condition="tenant = 'acme'", compared_with="orders of other tenants"),
            parts=(Part("body.region", "eu", 0.98, 0.2), Part("body.version", "7.2.0", 0.99, 0.31)),
        ),
        a_difference(
            field="attribute.kind",
            value="(missing)",
            score=0.874,
            synonyms=(Synonym("body.account", "17"), Synonym("body.plan", "(present)")),
        ),
    ),
    samples=(a_sample(), a_sample(message_id="m-2", body="", attributes={})),
    status="regressed",
    first_seen_at=ANALYZED_AT - timedelta(days=3),
    resolved_at=ANALYZED_AT - timedelta(days=1),
    last_action="redrive",
    note="HR is missing",
)
UNKNOWN = a_group(first_parked_at=None, last_parked_at=None, arrivals=(), trend="", title=" ")
PAGES = {
    "everything, and a group that is gone": some_findings(
        EVERYTHING,
        a_group(group_id="g-2", count=5, status="known", differences=(), samples=()),
        stack="shop",
        gone=(gone_group("g-3", "20251117T103000-1111", 12),),
    ),
    "one group of one message": some_findings(
        a_group(count=1, differences=(), sources={"orders": 4, SOURCE: 6})
    ),
    "three similar groups, two of them of the same failure, and a group as large as one of these": (
        some_findings(
            a_group(group_id="g-2", count=9, differences=(), samples=()),
            a_group(group_id="g-3", count=8, title="E: user <*> not found", differences=()),
            a_group(
                group_id="g-1", count=4, title="E: user ann not found", differences=(), sources={}
            ),
            a_group(
                group_id="g-4",
                count=3,
                title="E: user ann not active",
                status="regressed",
                last_action="discard",
                samples=(),
            ),
            same_failure={"g-3": "g-1"},
            similar={"g-3": "g-1", "g-4": "g-1"},
        )
    ),
    "no group": some_findings(),
    "unknown times": some_findings(UNKNOWN, bucket_starts=()),
    "times without a zone": some_findings(
        a_group(first_parked_at=ANALYZED_AT.replace(tzinfo=None) - timedelta(days=1), sources={})
    ),
    "two queues, and a group of no known queue": some_findings(
        a_group(group_id="g-1", count=20, queue="orders", samples=()),
        a_group(group_id="g-2", count=9, queue="invoices", status="known", samples=()),
        a_group(group_id="g-3", count=8, queue="invoices", differences=(), samples=()),
        a_group(group_id="g-4", count=1, samples=(), differences=()),
    ),
    "copies, in no bucket, of a condition": some_findings(
        a_group(arrivals=(4, 0, 3), sources={f"arn:{n}": 2 for n in range(30)}),
        different=12,
        messages=15,
        where="parked_reason = 'too_old'",
        sampled=5,
    ),
}


@stored_rows("report", PAGES)
def test_page_reads_as_it_is_stored(name: str) -> None:
    lines = PageOutline(render_page(PAGES[name])).lines

    assert_stored("report", name, "".join(f"{line}\n" for line in lines))


def test_the_table_says_what_the_chart_draws() -> None:
    groups = [a_group(group_id=f"g-{n}", title=f"T{n}") for n in range(COLOURS + 2)]

    words = words_of(render_page(some_findings(*groups)))

    assert "from T0 T1 T2 T3 T4 T5 others all" in words
    # The bucket between them is empty.
    assert "2025-11-18 22:30 4 4 4 4 4 4 8 32 2025-11-18 23:30 6 6 6 6 6 6 12 48" in words


def test_one_source_queue_leaves_no_trace_in_the_page() -> None:
    groups = [a_group(group_id="g-1", queue="orders"), a_group(group_id="g-2")]
    without = [replace(group, queue="") for group in groups]

    pages = [render_page(some_findings(*of_page)) for of_page in (groups, without)]

    assert pages[0] == pages[1]


def test_a_thousand_groups_fit_a_page_that_a_phone_opens() -> None:
    page = render_page(many_findings(1_000))

    assert len(page.encode()) < 8_000_000
    assert page.count('<details class="group"') == 1_000
    assert "Left out to keep this page small: see groups.parquet" in words_of(page)


def test_the_policy_names_the_hashes_of_what_the_page_holds() -> None:
    outline = PageOutline(render_page(incident_findings()))
    metas = [attributes for tag, attributes in outline.attributes if tag == "meta"]
    policy = next(meta["content"] for meta in metas if "http-equiv" in meta)
    inline = [t for tag, t in outline.texts if tag in ("script", "style")]
    data = next(text for text in inline if text.startswith('{"starts"'))

    named = set(re.findall(r"'(sha256-[^']+)'", policy or ""))

    assert named == {csp_hash(text) for text in inline if text != data}
    assert json.loads(data)["colours"] == COLOURS
    assert (policy or "").startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in (policy or "")


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


@pytest.mark.parametrize(
    ("folder", "script", "version", "licence"),
    [
        ("dlq/report/assets/uplot", "uPlot.iife.min.js", "{}", b"MIT License"),
        ("dlq/console/assets/htmx", "htmx.min.js", 'version:"{}"', b"Zero-Clause BSD"),
    ],
)
def test_the_vendored_library_is_the_one_that_was_noted(
    folder: str, script: str, version: str, licence: bytes
) -> None:
    files = {path.name: path.read_bytes() for path in (ROOT / folder).iterdir()}
    noted = json.loads(files.pop("vendored.json"))

    digests = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    assert digests == noted["files"]
    assert version.format(noted["version"]).encode() in files[script]
    assert licence in files["LICENSE"]
    # The chart stands in the page itself.
    for forbidden in (b"eval(", b"new Function", b"innerHTML", b"</script"):
        assert forbidden not in files.get("uPlot.iife.min.js", b"")
