"""The console's pages about groups, without Spark: what they show, and what they let nobody do."""

import json
import re
from dataclasses import (
    dataclass,
    replace,
)
from datetime import timedelta
from pathlib import Path

import pytest

from dlq.archive.group_records import add_statement, read_memory, read_notes
from dlq.archive.ledger.claims import Claim, Result, close_open_runs
from dlq.archive.ledger.disposition import Disposition
from dlq.archive.messages.message_index import write_reasons
from dlq.archive.messages.message_store import drain_ids
from dlq.archive.storage.files import Archive, open_archive
from dlq.cli.running import main
from dlq.console.reports import entry_digest, read_ahead
from dlq.explain.signature.mask import compile_masks
from dlq.explain.triage import Statement
from dlq.figures import visible
from dlq.plan.plan import Plan
from tests.integration.conftest import Capture
from tests.support.approved_plan import planned
from tests.support.builders import queue_url
from tests.support.console_world import (
    BASE,
    NOW,
    Browser,
    a_dead_letter,
    archive_from,
    archive_with,
    assert_page,
    console_of,
    hostile_archive,
    opened,
    plan_of,
)
from tests.support.findings_builder import HOSTILE_TEXTS, a_group, many_findings, some_findings
from tests.support.ledgers import begin, settle
from tests.support.page_outline import PageOutline

SECRET = '{"email": "ann@example.com", "password": "hunter2", "iban": "DE02120300000000202051"}'


def groups_of(plan: Plan) -> list[str]:
    return [group.group_id for group in plan.groups]


def titles_of(page: str) -> list[str]:
    return re.findall(
        rf'<a href="{BASE}/groups/(g-[0-9a-f]{{10}})', page.rsplit('id="list"', maxsplit=1)[-1]
    )


@pytest.fixture
def many(tmp_path: Path) -> Browser:
    """120 groups of falling size; every third is new, the others are known."""
    findings = many_findings(120)
    groups = []
    for number, group in enumerate(findings.groups):
        status = "new" if number % 3 == 0 else "known"
        trend = "rising" if number == 7 else "ended"
        groups.append(replace(group, status=status, trend=trend))

    findings = replace(findings, groups=tuple(groups))
    return opened(console_of(archive_from(tmp_path, findings, lambda *_: "{}", 1)))


def test_the_newest_plan_is_shown_and_an_older_one_can_be_chosen(tmp_path: Path) -> None:
    archive = archive_with(tmp_path, [a_dead_letter(n) for n in range(5)])
    older = plan_of(archive).plan_id
    planned(archive, "discard")
    values = {"main-queue-url": queue_url("orders")}
    browser = opened(console_of(archive, stack="shop", values=values))

    newest = browser.get("/").text
    texts = PageOutline(newest).texts
    assert ("title", "Groups · orders · shop · dlq console") in texts
    assert ("code", "shop") in texts
    page = browser.get(f"/?plan={older}").text

    assert "KeyError" in newest
    assert 'class="action discard"' in newest
    assert "This is an older plan" not in newest
    assert "This is an older plan" in page
    assert 'class="action leave"' in page
    assert f"?plan={older}" in page
    assert browser.get("/?plan=nothing").status_code == 422


@dataclass(frozen=True)
class TwoGroups:
    """Seven messages in two groups: four of the first were sent, by a run of another plan."""

    archive: Archive
    browser: Browser
    sent_group: str
    pending_group: str

    def settle(self, outcomes: dict[str, Disposition], run_id: str) -> None:
        settle(self.archive, "of-another-plan", outcomes, run_id, NOW.timestamp())


@pytest.fixture
def half_sent(tmp_path: Path) -> TwoGroups:
    errors = [{"type": error_type, "message": "x"} for error_type in ("KeyError", "TypeError")]
    archive = archive_with(tmp_path, [a_dead_letter(n, error=errors[n % 2]) for n in range(7)])
    browser = opened(console_of(archive))
    head = "(?s)<b>7 messages</b> pending in 2 groups.+The largest group holds"
    assert re.search(head, browser.get("/").text)

    groups = TwoGroups(archive, browser, *groups_of(plan_of(archive)))
    sent = {f"m-{n:04d}": Disposition.SENT for n in (0, 2, 4, 6)}
    groups.settle({**sent, "m-0001": Disposition.UNCONFIRMED}, "r")
    return groups


def printed_groups(archive: Archive, capsys: Capture, *words: str) -> str:
    capsys.readouterr()
    assert main(["groups", "--archive", archive.root, *words]) == 0
    return capsys.readouterr().out


def test_what_was_sent_is_not_pending_any_more(half_sent: TwoGroups, capsys: Capture) -> None:
    page = half_sent.browser.get("/").text
    printed = printed_groups(half_sent.archive, capsys)
    page_of_sent = half_sent.browser.get(f"/groups/{half_sent.sent_group}").text
    page_of_pending = half_sent.browser.get(f"/groups/{half_sent.pending_group}").text

    for sentence in ("3 messages</b> pending in 1 group", "0 pending", "3 pending"):
        assert sentence in page
    assert "They all failed" not in page
    assert "messages: 3 pending, 4 sent" in printed
    assert "not listed, because nothing of it is pending: 1 group" in printed
    assert half_sent.sent_group not in printed
    assert half_sent.pending_group in printed
    assert 'class="primary button"' not in page_of_sent
    assert 'class="primary button"' in page_of_pending


def test_where_nothing_is_pending_nothing_is_offered(half_sent: TwoGroups, capsys: Capture) -> None:
    """One message was discarded after the run that had claimed it was killed."""
    yesterday = (NOW - timedelta(days=1)).isoformat()
    killed = Claim("ann", "", "https://q", yesterday, ("m-0003",))
    assert begin(half_sent.archive, "of-another-plan", "r").claim("u", 1, killed)
    close_open_runs(half_sent.archive)
    sent = dict.fromkeys(("m-0001", "m-0005"), Disposition.SENT)
    half_sent.settle({**sent, "m-0003": Disposition.DISCARDED}, "r-2")

    page = half_sent.browser.get("/").text
    page_of_group = half_sent.browser.get(f"/groups/{half_sent.pending_group}").text
    printed = printed_groups(half_sent.archive, capsys)
    answer = json.loads(printed_groups(half_sent.archive, capsys, "--json"))

    assert "Nothing is left to decide" in page
    assert "0 pending, 2 sent" in page
    assert "Put this group" not in page
    assert "messages: 0 pending, 6 sent" in printed
    states = [group["states"] for group in answer["groups"]]
    assert states == [{"sent": 4}, {"sent": 2, "discarded": 1}]
    assert half_sent.sent_group not in printed
    assert half_sent.pending_group not in printed
    assert "Nothing of this group is pending" in page_of_group
    assert "/redrive?" not in page_of_group
    for figure in ("Pending</dt><dd>0", "sent</dt><dd>2", "discarded</dt><dd>1"):
        assert figure in page_of_group


def test_run_that_has_not_ended_is_named_until_it_is_closed(
    tmp_path: Path, capsys: Capture
) -> None:
    archive = archive_with(tmp_path, [a_dead_letter(n) for n in range(2)])
    browser = opened(console_of(archive))
    claim = Claim("ann", "", "https://q", NOW.isoformat(), ("m-0001",))
    assert begin(archive, "p-1", "r-1").claim("u", 1, claim)
    sentence = "run r-1 of plan p-1 by me@here has not ended, or was killed: the next run closes it"
    group_id = plan_of(archive).groups[0].group_id
    pages = ("/", "/messages/m-0001", "/messages/m-0000", f"/groups/{group_id}")

    assert [sentence in browser.get(page).text for page in pages] == [True, True, False, False]
    assert main(["groups", "--archive", archive.root]) == 0
    assert f"\n{sentence}\n" in capsys.readouterr().out
    assert main(["groups", "--archive", archive.root, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["open_runs"] == [sentence]

    close_open_runs(archive)

    assert not any(sentence in browser.get(page).text for page in pages)
    assert main(["groups", "--archive", archive.root]) == 0
    assert "run r-1" not in capsys.readouterr().out


def test_pages_have_fifty_groups(many: Browser) -> None:
    first = many.get("/").text
    last = many.get("/?page=3").text

    assert (len(titles_of(first)), len(titles_of(last))) == (50, 20)
    assert not set(titles_of(first)) & set(titles_of(last))
    assert titles_of(many.get("/?page=99").text) == titles_of(last)
    for odd in ("0", "-1", "x", "9" * 400, "٣"):
        assert titles_of(many.get(f"/?page={odd}").text) == titles_of(first)


def test_search_filters_and_the_severest_come_first(many: Browser) -> None:
    fragment = many.get("/?q=validationerror+77%3A", headers={"hx-request": "true"}).text
    assert "<html" not in fragment
    assert titles_of(fragment) == ["g-000000004d"]
    assert titles_of(many.get("/?q=v88").text)[0] == "g-0000000058"
    assert len(titles_of(many.get("/?status=new").text)) == 40
    assert "70 of 120" not in many.get("/?status=new").text
    assert titles_of(many.get("/").text)[:40] == titles_of(many.get("/?status=new").text)
    assert "No group matches" in many.get("/?q=nothing+like+this").text
    assert "No group matches" in many.get("/?action=redrive").text
    # Words that are none count for nothing.
    assert len(titles_of(many.get("/?from=a&to=b").text)) == 50


def test_a_range_of_the_chart_keeps_the_groups_that_arrived_then(tmp_path: Path) -> None:
    early = a_group(group_id="g-0000000001", arrivals=(5, 0, 0), count=5)
    late = a_group(group_id="g-0000000002", arrivals=(0, 0, 5), count=5)
    archive = archive_from(tmp_path, some_findings(early, late), lambda *_: "{}")
    browser = opened(console_of(archive))

    assert titles_of(browser.get("/?from=2&to=2").text) == ["g-0000000002"]
    assert titles_of(browser.get("/?from=0&to=1").text) == ["g-0000000001"]


def test_similar_groups_are_one_row_with_their_parts(tmp_path: Path, capsys: Capture) -> None:
    ids = [f"g-000000000{n}" for n in range(3)]
    groups = []
    for group_id in ids:
        groups.append(a_group(group_id=group_id, title=f"E: no {group_id}", differences=()))
    findings = some_findings(*groups, similar={ids[2]: ids[0]}, group_by="code (.+)")
    archive = archive_from(tmp_path, findings, lambda *_: "{}")

    page = opened(console_of(archive)).get("/").text
    assert main(["groups", "--archive", archive.root]) == 0
    shown = capsys.readouterr().out
    assert main(["groups", "--archive", archive.root, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)

    assert titles_of(page) == [ids[0], ids[2], ids[1]]
    assert "20 in 2 similar groups" in page
    rows = re.findall(r"^ *(2 groups|g-0+1) +(\d+) +(\d+)", shown, re.MULTILINE)
    assert rows == [("2 groups", "20", "6"), (ids[1], "10", "3")]
    assert "E: no <*>" in shown
    for group_id in (ids[0], ids[2]):
        assert f"+ {group_id}, 10, leave: E: no {group_id}" in shown
    assert "errors by --group-by 'code (.+)'" in shown
    assert (answer["similar"], answer["group_by"]) == ({ids[2]: ids[0]}, "code (.+)")


@pytest.fixture
def fleet(tmp_path: Path) -> Archive:
    """Three groups of two queues, and one whose queue is not known."""
    queues = ("stock", "orders", "stock", "")
    statuses = ("known", "known", "new", "new")
    groups = []
    for place, (queue, status) in enumerate(zip(queues, statuses, strict=True)):
        group = a_group(group_id=f"g-000000000{place}", title=f"E: {place}", queue=queue)
        groups.append(replace(group, status=status, count=20 - place))
    return archive_from(tmp_path, some_findings(*groups), lambda *_: "{}")


STOCK = ["g-0000000002", "g-0000000000"]
ORDERS = ["g-0000000001"]
UNKNOWN = ["g-0000000003"]


def test_groups_are_filtered_and_sorted_by_queue(fleet: Archive) -> None:
    browser = opened(console_of(fleet))

    assert titles_of(browser.get("/?queue=stock").text) == STOCK
    assert titles_of(browser.get("/?queue=not+known").text) == UNKNOWN
    assert "No group matches" in browser.get("/?queue=nothing").text
    assert titles_of(browser.get("/").text) == [STOCK[0], *UNKNOWN, STOCK[1], *ORDERS]
    assert titles_of(browser.get("/?sort=queue").text) == [*ORDERS, *STOCK, *UNKNOWN]
    assert titles_of(browser.get("/?sort=queue&status=new").text) == [STOCK[0], *UNKNOWN]
    page = browser.get("/?queue=stock&sort=queue").text
    assert "<option selected>stock</option>" in page
    assert f'<a href="{BASE}/?queue=orders#groups">orders</a>' in page
    assert f'href="{BASE}/?queue=stock">stock</a>' in browser.get(f"/groups/{STOCK[0]}").text


def test_all_that_match_are_those_of_the_queue(fleet: Archive) -> None:
    browser = opened(console_of(fleet))
    plan_id = plan_of(fleet).plan_id
    fields = {"plan": plan_id, "decision": "redrive", "all_matching": "2", "find_queue": "stock"}

    assert browser.post("/decide", fields).status_code == 303

    redriven = [group.group_id for group in plan_of(fleet).groups if group.action == "redrive"]
    assert sorted(redriven) == sorted(STOCK)


def test_one_queue_has_no_column_and_no_filter(tmp_path: Path, capsys: Capture) -> None:
    groups = (a_group(group_id=f"g-000000000{n}", queue="orders") for n in range(2))
    archive = archive_from(tmp_path, some_findings(*groups), lambda *_: "{}")

    page = opened(console_of(archive)).get("/").text

    assert 'name="queue"' not in page
    assert "of-queue" not in page
    assert "Source queues" not in page
    assert main(["groups", "--archive", archive.root, "--queue", "orders"]) == 0
    assert not re.search("^group  +queue", capsys.readouterr().out, re.MULTILINE)
    assert main(["groups", "--archive", archive.root, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert ([group["queue"] for group in answer["groups"]], answer["queues"]) == (
        ["orders"] * 2,
        {},
    )


def test_command_lists_the_groups_of_a_queue(fleet: Archive, capsys: Capture) -> None:
    def listed(*options: str) -> list[str]:
        assert main(["groups", "--archive", fleet.root, *options]) == 0
        row = re.compile(r"^g-\d+  +(?:not known|[a-z]+) ", re.MULTILINE)
        return [" ".join(words.split()) for words in row.findall(capsys.readouterr().out)]

    of_stock = [f"{group_id} stock" for group_id in sorted(STOCK)]
    of_orders = [f"{ORDERS[0]} orders"]
    of_none = [f"{UNKNOWN[0]} not known"]
    assert listed() == [of_stock[0], *of_orders, of_stock[1], *of_none]
    assert listed("--sort", "queue") == [*of_orders, *of_stock, *of_none]
    assert listed("--queue", "stock") == of_stock
    assert listed("--queue", "not known") == of_none

    assert main(["groups", "--archive", fleet.root, "--queue", "stock", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [group["group_id"] for group in answer["groups"]] == sorted(STOCK)
    assert answer["statuses"] == {"new": 1, "known": 1}
    assert answer["queues"]["stock"] == {"messages": 38, "groups": 2, "new": 1}


def test_queue_that_no_group_is_of_is_refused(fleet: Archive, capsys: Capture) -> None:
    assert main(["groups", "--archive", fleet.root, "--queue", "stocks"]) == 2

    there_are = "there are not known, orders, stock"
    assert f"no group of this report is of it; {there_are}" in capsys.readouterr().err


def test_without_a_report_beside_it_the_plan_is_enough(tmp_path: Path) -> None:
    archive = archive_with(tmp_path, [a_dead_letter(n) for n in range(5)])
    plan = plan_of(archive)
    summary = f"reports/{plan.plan_id}/summary.json"
    for content in (b"{", b"[]", b'{"groups": 7}', None):
        if content is None:
            archive.remove(summary)
        else:
            archive.write(summary, content)
        browser = opened(console_of(archive))
        assert plan.groups[0].group_id in browser.get("/").text
        assert browser.get(f"/groups/{plan.groups[0].group_id}").status_code == 200


def test_an_archive_that_nobody_analyzed_begins_with_the_work(tmp_path: Path) -> None:
    browser = opened(console_of(open_archive(str(tmp_path))))

    page = browser.get("/")

    assert page.url.path == f"{BASE}/jobs"
    assert "This archive has not been analyzed yet" in page.text
    assert browser.get("/?plan=20251120T103000Z-ffffff").status_code == 422


def test_a_group_shows_what_people_said_and_its_history(tmp_path: Path) -> None:
    archive = archive_with(tmp_path, [a_dead_letter(n) for n in range(5)])
    group = plan_of(archive).groups[0].group_id
    browser = opened(console_of(archive))

    answers = [
        browser.post(f"/groups/{group}/say", {"text": "look at <vat>"}),
        browser.post(
            f"/groups/{group}/say",
            {"text": "look at <vat>", "text_before": "look at <vat>", "resolved": "yes"},
        ),
    ]

    assert [answer.status_code for answer in answers] == [303, 303]
    page = browser.get(f"/groups/{group}").text
    assert_page("a group that is resolved", page, archive)
    state = read_memory(archive).state(group)
    assert (state.number, state.note_in, state.resolved_at is None) == (2, 1, False)
    # The list knows it, too.
    assert "resolved since 20" in browser.get("/").text


def test_what_a_page_showed_is_not_said_again_and_a_note_has_a_bound(tmp_path: Path) -> None:
    """Somebody else may have said otherwise since."""
    archive = archive_with(tmp_path, [a_dead_letter(n) for n in range(5)])
    group = plan_of(archive).groups[0].group_id
    browser = opened(console_of(archive))
    add_statement(archive, group, Statement(NOW, "eve@desk", text="by eve"))

    form = {"text": "as shown", "text_before": "as shown"}
    resolved = browser.post(f"/groups/{group}/say", {**form, "resolved": "yes"})
    nothing = browser.post(f"/groups/{group}/say", form)
    too_long = browser.post(f"/groups/{group}/say", {"text": "x" * 2_001})

    assert [answer.status_code for answer in (resolved, nothing, too_long)] == [303, 422, 422]
    assert "2,001 characters" in too_long.text
    assert read_notes(archive, read_memory(archive), [group]) == {group: "by eve"}


def test_a_group_that_is_not_there_is_named(tmp_path: Path) -> None:
    browser = opened(console_of(archive_with(tmp_path, [a_dead_letter(0)])))
    for path in ("/groups/g-9999999999", "/groups/g-9999999999/messages", "/groups/x/edit"):
        answer = browser.get(path)
        assert answer.status_code == 422
        assert "has no group" in answer.text
    assert browser.post("/groups/g-9999999999/say", {"text": "x"}).status_code == 422


def ids_of(page: str) -> list[str]:
    return re.findall(rf'<a href="{BASE}/messages/([^"?]+)', page)


def test_messages_are_searched_and_paged(tmp_path: Path) -> None:
    archive = archive_with(tmp_path, [a_dead_letter(n) for n in range(120)])
    plan = plan_of(archive)
    group = plan.groups[0].group_id
    outcomes = {"m-0050": Disposition.SENT, "m-0051": Disposition.FAILED}
    settle(archive, plan.plan_id, outcomes, "r", NOW.timestamp())
    browser = opened(console_of(archive))

    def ids(query: str = "") -> list[str]:
        return ids_of(browser.get(f"/groups/{group}/messages?{query}").text)

    assert ids() == [f"m-{n:04}" for n in range(50)]
    assert ids("page=3") == [f"m-{n:04}" for n in range(100, 120)]
    assert ids("q=M-011") == [f"m-011{n}" for n in range(10)]
    assert ids("q=nothing") == []
    page = browser.get(f"/groups/{group}/messages?q=m-0050").text
    assert ">sent<" in page
    assert ids_of(browser.get(f"/groups/{group}/messages?q=m-0051").text) == ["m-0051"]
    assert "pending" in browser.get(f"/groups/{group}/messages?q=m-0051").text


def test_a_message_is_masked_unless_the_console_was_started_otherwise(tmp_path: Path) -> None:
    body = SECRET[:-1] + ', "name": "Ann"}'
    archive = archive_with(
        tmp_path, [a_dead_letter(0, body, error={"type": "E", "message": "a@b.example"})]
    )

    masked = opened(console_of(archive, masks=compile_masks(["body.name", "attribute.tenant"])))
    page = masked.get("/messages/m-0000").text
    for hidden in ("hunter2", "ann@example", "DE0212", "Ann", "a@b.example", "acme"):
        assert hidden not in page
    assert "***" in page
    assert "attempts_exhausted" in page

    page = opened(console_of(archive, is_unmasked=True)).get("/messages/m-0000").text
    for shown in ("hunter2", "ann@example", "Ann", "a@b.example", "acme", "shown unmasked"):
        assert shown in page


def test_a_message_shows_the_error_of_a_log_and_links_to_it(tmp_path: Path) -> None:
    archive = archive_with(tmp_path, [a_dead_letter(0, error=None)])
    logged = "found by id in <g>\nhttps://eu.console.aws.amazon.com/x\nTax.rate"
    row = {"message_id": "m-0000", "log_error_type": "NoVat", "log_error_message": "no VAT"}
    [drain_id] = drain_ids(archive)
    write_reasons(archive, "20200101T040000Z-00ff00", drain_id, [{**row, "logged": logged}])

    page = opened(console_of(archive)).get("/messages/m-0000").text

    assert "NoVat: no VAT" in page
    assert "found by id in &lt;g&gt;" in page
    assert '<a href="https://eu.console.aws.amazon.com/x" rel="noreferrer">' in page


def test_a_message_s_history_has_every_run(tmp_path: Path) -> None:
    archive = archive_with(tmp_path, [a_dead_letter(0)])
    plan = plan_of(archive)
    ledger = begin(archive, plan.plan_id, "run-7")
    claim = Claim("bob@desk", "fixed <it>", "https://q", NOW.isoformat(), ("m-0000",))
    assert ledger.claim("u", 0, claim)
    ledger.record("u", 0, [Result("m-0000", Disposition.SENT, NOW.isoformat(), "new-1")])
    browser = opened(console_of(archive))

    for message_id in ("m-0000", "first-0", "new-1"):
        page = browser.get(f"/messages/{message_id}").text
        for text in ("bob@desk", "fixed &lt;it&gt;", "run-7", "new-1", "dlq show"):
            assert text in page
    unknown = browser.get("/messages/m-9999")
    assert unknown.status_code == 422
    assert "not in the 1 drain of" in unknown.text


OUR_TAGS = {
    "dialog",
    "kbd",
    "html",
    "head",
    "meta",
    "title",
    "link",
    "script",
    "body",
    "a",
    "div",
    "header",
    "main",
    "footer",
    "nav",
    "section",
    "h1",
    "h2",
    "h3",
    "h4",
    "p",
    "b",
    "small",
    "i",
    "span",
    "mark",
    "code",
    "pre",
    "blockquote",
    "ins",
    "del",
    "time",
    "ul",
    "ol",
    "li",
    "dl",
    "dt",
    "dd",
    "table",
    "caption",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "details",
    "summary",
    "svg",
    "path",
    "rect",
    "form",
    "fieldset",
    "legend",
    "label",
    "input",
    "select",
    "option",
    "textarea",
    "button",
}


@pytest.mark.parametrize("is_unmasked", [False, True])
def test_hostile_texts_stay_texts(tmp_path: Path, is_unmasked: bool) -> None:
    """No page gets an element, an attribute or a script from a message, a difference or a note."""
    archive = hostile_archive(tmp_path)
    browser = opened(console_of(archive, is_unmasked=is_unmasked))
    groups = [group.group_id for group in plan_of(archive).groups]
    paths = [
        "/",
        *(f"/groups/{group_id}" for group_id in groups),
        *(f"/groups/{group_id}/messages?q=alert" for group_id in groups),
        # Each hostile text is the body of some of them.
        *(f"/messages/m-{n:04}" for n in range(0, 220, 4)),
        *(f"/groups/{group_id}/edit" for group_id in groups[:3]),
        *(f"/?q={text}" for text in ("<script>alert(1)</script>", '"><svg onload=alert(1)>')),
    ]
    unknown = ["/messages/<script>alert(1)</script>", "/groups/<img src=x onerror=alert(1)>"]
    ours = {"early.js", "console.js"}
    shown: dict[str, str] = {}
    for path in [*paths, *unknown]:
        answer = browser.get(path)
        assert answer.status_code == (422 if path in unknown else 200), path
        page = answer.text
        shown[path] = "\n".join(PageOutline(page).lines)
        for tag, attributes in PageOutline(page).attributes:
            assert tag in OUR_TAGS, (path, tag)
            assert not [name for name in attributes if name.startswith("on") or name == "style"]
            if tag == "script":
                source = attributes.get("src") or ""
                is_data = attributes.get("type") == "application/json"
                assert is_data or source.split("/")[-1].split("?")[0] in ours
            for name in ("href", "src", "action", "hx-get", "hx-post"):
                if (value := attributes.get(name)) is not None:
                    assert value.startswith((f"{BASE}/", "#", "data:,")), (path, value)
                    assert not value.startswith("//")

    def pages(group_id: str) -> str:
        return "\n".join(page for path, page in shown.items() if path.startswith(group_id))

    # They are there, and not hidden by a fault of the page.
    for text in HOSTILE_TEXTS:
        beginning = " ".join(visible(text).split())[:25]
        assert beginning in shown["/"]
        assert beginning in pages("/groups/")
        # No body has half a pair, JSON is indented there, and a mask takes 5,000 W for a key.
        if not text.startswith(("\ud800", "{") if is_unmasked else ("\ud800", "{", "W")):
            assert beginning in pages("/messages/")


def test_group_is_shown_as_halted_with_the_reason_until_somebody_decides_again(
    tmp_path: Path, capsys: Capture
) -> None:
    archive = archive_with(tmp_path, [a_dead_letter(n) for n in range(5)])
    (group_id,) = groups_of(plan_of(archive))
    why = "3 of 9 messages failed again, 0 allowed"
    add_statement(archive, group_id, Statement(NOW, "ada@desk", halted=why))
    browser = opened(console_of(archive))
    pages = [browser.get(path).text for path in ("/", f"/groups/{group_id}")]
    main(["groups", "--archive", archive.root])
    printed = capsys.readouterr().out
    main(["decide", "--archive", archive.root, group_id, "redrive"])

    assert_page("groups, one of them halted", pages[0], archive)
    assert_page("a group that is halted", pages[1], archive)
    assert "groups: 1 halted" in printed
    assert f"halted: {why}; decide again" in printed
    assert 'class="status halted"' in pages[0]
    groups = browser.get("/").text
    assert group_id in groups
    assert 'class="status halted"' not in groups
    after = browser.get(f"/groups/{group_id}").text
    assert_page("a group that was halted", after, archive)


def test_report_is_read_ahead_and_a_change_of_the_plan_is_still_seen(tmp_path: Path) -> None:
    archive = archive_with(tmp_path, [a_dead_letter(n) for n in range(3)])
    read_ahead(archive)
    browser = opened(console_of(archive))
    plan = plan_of(archive)
    group = plan.groups[0]
    seen = f"{group.group_id}:{entry_digest(group)}"
    fields = {"plan": plan.plan_id, "group": group.group_id, "seen": seen, "decision": "discard"}

    before = browser.get("/").text
    assert browser.post("/decide", fields).status_code == 303
    after = browser.get("/").text
    read_ahead(open_archive(str(tmp_path / "none"), creates=True))

    texts = ['<span class="action leave">leave', '<span class="action discard">discard']
    assert [text in before for text in texts] == [True, False]
    assert [text in after for text in texts] == [False, True]
