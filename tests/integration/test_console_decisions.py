"""Decisions and edits in the console, by two people at once: neither loses the other's."""

import html
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from dlq.archive.group_records import read_memory, read_statements
from dlq.archive.storage.files import Archive
from dlq.cli.command import main
from dlq.console.reports import change_groups, entry_digest
from dlq.errors import BusyError
from dlq.explain.signature.mask import compile_masks
from dlq.plan.changes import decide
from dlq.plan.plan import Action, PlannedGroup
from dlq.plan.plan_file import find_plan
from tests.integration.conftest import Capture
from tests.support.console_world import (
    BASE,
    Browser,
    a_dead_letter,
    archive_from,
    archive_with,
    assert_page,
    console_of,
    opened,
    plan_of,
)
from tests.support.findings_builder import many_findings

GROUPS = 60


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """Sixty groups, the first of 60 messages, the others of few."""
    return archive_from(tmp_path, many_findings(GROUPS), lambda *_: '{"zip": 1}', 1)


def browser_of(archive: Archive, who: str = "ann@desk") -> Browser:
    return opened(console_of(archive, who=who))


def group_of(archive: Archive, place: int) -> PlannedGroup:
    return plan_of(archive).groups[place]


def form_of(page: str, action: str) -> dict[str, Any]:
    """The hidden fields of the page's form to this address, as a browser would send them."""
    form = re.findall(rf'<form[^>]*action="{BASE}{action}".*?</form>', page, re.DOTALL)[0]
    fields: dict[str, Any] = {}
    for tag in re.findall(r"<input[^>]*>", form):
        attributes = dict(re.findall(r'([a-z]+)="([^"]*)"', tag))
        if attributes.get("type") == "hidden":
            fields.setdefault(attributes["name"], []).append(html.unescape(attributes["value"]))
    return fields


def decide_on_page(browser: Browser, page: str, decision: str, note: str = "", **more: Any) -> Any:
    form = {**form_of(page, "/decide"), "decision": decision, "note": note, **more}
    return browser.post("/decide", form)


def actions_of(archive: Archive) -> list[str]:
    return [group.action.value for group in plan_of(archive).groups]


def test_one_group_is_decided_with_its_note(archive: Archive) -> None:
    browser = browser_of(archive)
    group = group_of(archive, 3).group_id
    page = browser.get(f"/groups/{group}").text

    answer = decide_on_page(browser, page, "redrive", "vat is <back>")

    assert answer.status_code == 303
    assert answer.headers["location"] == f"{BASE}/groups/{group}?decided=redrive"
    assert group_of(archive, 3).action == "redrive"
    assert group_of(archive, 3).note == "vat is <back>"
    assert actions_of(archive).count("redrive") == 1
    assert read_memory(archive).state(group).action == "redrive"
    page = browser.get(f"/groups/{group}?decided=redrive").text
    assert "Nothing is sent yet" in page
    assert "vat is &lt;back&gt;" in page
    assert "decided <b>redrive</b>" in page
    assert f"dlq decide --archive {archive.root} {group} redrive --note" in html.unescape(page)


def test_all_that_match_on_every_page_are_decided_and_can_be_confirmed(tmp_path: Path) -> None:
    """The form that confirms it has two fields for each group."""
    archive = archive_from(tmp_path, many_findings(600), lambda *_: '{"zip": 1}', 1)
    browser = browser_of(archive)
    page = browser.get("/?q=ValidationError").text
    decide_on_page(browser, page, "redrive", group=[group_of(archive, 0).group_id])
    race = decide_on_page(browser, page, "discard", all_matching="600", group=[])
    assert race.status_code == 409

    answer = decide_on_page(browser, race.text, "discard")

    assert answer.headers["location"] == f"{BASE}/?decided=discard&count=600"
    assert set(actions_of(archive)) == {"discard"}


def test_all_that_match_are_not_others_than_the_page_counted(archive: Archive) -> None:
    browser = browser_of(archive)

    answer = decide_on_page(browser, browser.get("/").text, "redrive", all_matching="7")

    assert answer.status_code == 422
    assert "the list has changed" in answer.text
    assert set(actions_of(archive)) == {"leave"}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"group": []}, "choose at least one group"),
        ({"decision": "send"}, "choose one of leave, redrive, discard"),
        ({"note": "x" * 2_001}, "2,001 characters"),
        ({"plan": "no-such-plan"}, "no-such-plan"),
        ({"group": ["g-9999999999"]}, "has no group g-9999999999"),
    ],
)
def test_what_cannot_be_decided_is_said_why(
    archive: Archive, fields: dict[str, Any], why: str
) -> None:
    browser = browser_of(archive)
    form = {"group": [group_of(archive, 0).group_id], "note": "", "decision": "redrive", **fields}
    answer = browser.post("/decide", {**form_of(browser.get("/").text, "/decide"), **form})

    assert answer.status_code == 422
    assert why in html.unescape(answer.text)
    assert set(actions_of(archive)) == {"leave"}


def test_the_second_who_decides_sees_the_first_and_a_confirmation_can_be_overtaken(
    archive: Archive,
) -> None:
    ann = browser_of(archive)
    bob = browser_of(archive, "bob@desk")
    group = group_of(archive, 1).group_id
    page = bob.get(f"/groups/{group}").text
    decide_on_page(ann, ann.get(f"/groups/{group}").text, "redrive", "ann knows")

    answer = decide_on_page(bob, page, "discard", "bob knows")

    assert answer.status_code == 409
    assert "ann knows" in answer.text
    assert group_of(archive, 1).action == "redrive"

    decide_on_page(ann, ann.get(f"/groups/{group}").text, "leave", "no, wait")
    again = bob.post("/decide", form_of(answer.text, "/decide"))
    assert again.status_code == 409
    assert "no, wait" in again.text
    assert group_of(archive, 1).action == "leave"

    confirmed = bob.post("/decide", form_of(again.text, "/decide"))
    assert confirmed.status_code == 303
    assert group_of(archive, 1).action == "discard"
    assert group_of(archive, 1).note == "bob knows"
    who = [statement.who for statement in read_statements(archive, group, 9)]
    assert who == ["bob@desk", "ann@desk", "ann@desk"]


def test_of_many_groups_none_is_decided_if_one_was_changed(archive: Archive) -> None:
    ann = browser_of(archive)
    bob = browser_of(archive, "bob@desk")
    ids = [group_of(archive, place).group_id for place in (1, 2, 3)]
    page = bob.get("/").text
    decide_on_page(ann, ann.get("/").text, "discard", group=[ids[1]])

    answer = decide_on_page(bob, page, "redrive", group=ids)

    assert answer.status_code == 409
    assert actions_of(archive)[1:4] == ["leave", "discard", "leave"]
    assert bob.post("/decide", form_of(answer.text, "/decide")).status_code == 303
    assert actions_of(archive)[1:4] == ["redrive"] * 3
    assert len(read_memory(archive).states) == 3


def test_who_says_the_same_need_not_confirm(archive: Archive) -> None:
    ann = browser_of(archive)
    bob = browser_of(archive, "bob@desk")
    group = group_of(archive, 1).group_id
    page = bob.get(f"/groups/{group}").text
    decide_on_page(ann, ann.get(f"/groups/{group}").text, "redrive")

    assert decide_on_page(bob, page, "redrive").status_code == 303
    assert [statement.who for statement in read_statements(archive, group, 9)] == [
        "bob@desk",
        "ann@desk",
    ]


def test_a_form_that_shows_nothing_of_a_group_decides_nothing(archive: Archive) -> None:
    group = group_of(archive, 0).group_id
    plan = plan_of(archive).plan_id
    form = {"plan": plan, "group": group, "decision": "redrive"}

    assert browser_of(archive).post("/decide", form).status_code == 409
    assert group_of(archive, 0).action == "leave"


def test_a_race_in_the_middle_is_read_again(archive: Archive) -> None:
    """Between reading and writing somebody else writes: both decisions are in the plan."""
    file = find_plan(archive, None)
    first = group_of(archive, 1)
    second = group_of(archive, 2)
    races = iter([1, 1, 0, 0, 0])

    def overtaken(text: str) -> str:
        new = decide(text, [second.group_id], Action.REDRIVE)
        if next(races, 0):
            now = file.read()
            other = Action.DISCARD if "discard" not in now else Action.LEAVE
            assert file.replace(now, decide(now, [first.group_id], other, "by another"))
        return new

    seen = {second.group_id: entry_digest(second)}
    change_groups(console_of(archive), plan_of(archive).plan_id, seen, overtaken, Action.REDRIVE)

    assert group_of(archive, 1).note == "by another"
    assert group_of(archive, 2).action == "redrive"


def test_endless_races_end(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dlq.plan.plan_file.PlanFile.replace", lambda *_: False)
    plan = plan_of(archive)
    group = group_of(archive, 1)
    seen = {group.group_id: entry_digest(group)}

    with pytest.raises(BusyError, match="others change it all the time"):
        change_groups(console_of(archive), plan.plan_id, seen, lambda text: f"{text}\n")


EDITED = '{"zip": 1, "iban": "DE02120300000000202051", "name": "<b>Ann</b>"}'


@pytest.fixture
def world(tmp_path: Path) -> Archive:
    """One group of 30 messages; three are no JSON, and two have no zip."""
    bodies = {3: "not json", 13: "{", 23: "", 7: "{}", 8: '{"zap": 1}'}
    return archive_with(tmp_path, [a_dead_letter(n, bodies.get(n, EDITED)) for n in range(30)])


def patch_of(archive: Archive) -> str:
    edit = plan_of(archive).groups[0].edit
    assert edit is not None
    assert edit.patch is not None
    return edit.patch.text


def edit_path(archive: Archive, rest: str = "") -> str:
    return f"/groups/{plan_of(archive).groups[0].group_id}/edit{rest}"


def edit_form(browser: Browser, archive: Archive, **fields: Any) -> dict[str, Any]:
    page = browser.get(edit_path(archive)).text
    return {**form_of(page, edit_path(archive)), **fields}


ZIP = {"patch": '[{"op": "replace", "path": "/zip", "value": "10115"}]'}


def test_an_edit_is_typed_saved_and_taken_away_by_an_empty_form(world: Archive) -> None:
    browser = browser_of(world)

    answer = browser.post(edit_path(world), edit_form(browser, world, **ZIP))

    assert answer.status_code == 303
    assert patch_of(world) == '[{"op":"replace","path":"/zip","value":"10115"}]'
    page = browser.get(edit_path(world)).text
    assert f"[\n  {html.escape(patch_of(world)[1:-1])}\n]".replace("&quot;", "&#34;") in page
    group = plan_of(world).groups[0].group_id
    assert "edited" in browser.get(f"/groups/{group}?edited=1").text

    assert browser.post(edit_path(world), edit_form(browser, world, patch=" ")).status_code == 303
    assert plan_of(world).groups[0].edit is None


def test_the_command_beside_an_edit_writes_the_same(world: Archive, capsys: Capture) -> None:
    browser = browser_of(world)
    path = edit_path(world)
    before = plan_of(world).groups[0]
    fragment = browser.post(f"{path}/preview", edit_form(browser, world, **ZIP)).text
    [command] = re.findall(r"<code>(dlq decide .*?)</code>", fragment)

    assert main(shlex.split(html.unescape(command))[1:]) == 0

    assert (
        f"{before.group_id}: {before.action} -> {before.action}, edited" in capsys.readouterr().out
    )
    assert browser.post(path, edit_form(browser, world, **ZIP)).status_code == 303
    assert patch_of(world) == '[{"op":"replace","path":"/zip","value":"10115"}]'


@pytest.mark.parametrize(
    ("patch", "why"),
    [
        (
            '[{"op": "replace", "path": "/zip", "value": 1}, {"op": "add"}]',
            "operation 2: Operation must have",
        ),
        ("[{", "the text"),
        ("{}", "must be a list"),
    ],
)
def test_a_faulty_edit_is_explained_and_not_saved(world: Archive, patch: str, why: str) -> None:
    browser = browser_of(world)
    form = edit_form(browser, world, patch=patch)

    for path in (edit_path(world), edit_path(world, "/preview")):
        assert why in html.unescape(browser.post(path, form).text)
    assert plan_of(world).groups[0].edit is None


def test_the_preview_shows_twenty_messages_and_whom_it_does_not_fit(world: Archive) -> None:
    browser = browser_of(world)

    page = browser.post(edit_path(world, "/preview"), edit_form(browser, world, **ZIP)).text

    assert page.count('class="sample"') == 16
    assert_page("the preview of an edit", page, world)
    assert plan_of(world).groups[0].edit is None


def test_what_a_mask_hides_stays_hidden(world: Archive) -> None:
    browser = opened(console_of(world, masks=compile_masks(["body.name"])))
    values = {"/iban": "DE99", "/name": "Secret", "/zip": 2}
    patch = json.dumps([{"op": "replace", "path": p, "value": v} for p, v in values.items()])

    page = browser.post(edit_path(world, "/preview"), edit_form(browser, world, patch=patch)).text

    patches = page.split('class="patches"')[1]
    for hidden in ("DE99", "DE0212", "Secret", "Ann"):
        assert hidden not in patches
    assert_page("a preview with masks", page, world)


def test_an_edit_that_was_overtaken_is_confirmed(world: Archive) -> None:
    ann = browser_of(world)
    bob = browser_of(world, "bob@desk")
    of_ann, of_bob = (ZIP["patch"].replace("10115", name) for name in ("ann", "bob"))
    mine = edit_form(bob, world, patch=of_bob)
    ann.post(edit_path(world), edit_form(ann, world, patch=of_ann))

    answer = bob.post(edit_path(world), mine)

    assert answer.status_code == 409
    assert "&#34;ann&#34;" in answer.text
    assert "&#34;bob&#34;" in answer.text
    assert "ann" in patch_of(world)

    again = {**form_of(answer.text, edit_path(world)), "patch": of_bob}
    assert bob.post(edit_path(world), again).status_code == 303
    assert "bob" in patch_of(world)


def test_attributes_that_the_plan_sets_are_shown_and_stay(world: Archive) -> None:
    file = find_plan(world, None)
    text = file.read()
    attribute = "  set_attributes:\n    tenant: upper('<b>')\n"
    with_attribute = text.replace("- action: leave\n", f"- action: leave\n{attribute}")
    assert file.replace(text, with_attribute)
    browser = browser_of(world)
    page = browser.get(edit_path(world)).text

    assert "upper(&#39;&lt;b&gt;&#39;)" in page
    assert browser.post(edit_path(world), edit_form(browser, world, **ZIP)).status_code == 303
    edit = plan_of(world).groups[0].edit
    assert edit is not None
    assert edit.set_attributes == (("tenant", "upper('<b>')"),)
