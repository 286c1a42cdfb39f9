"""Pages about one group: its messages, its notes and history, its edit; and about one message.

While a person types a JSON Patch, the page shows the changes in twenty messages. A dry run counts
over the whole group.
"""

from functools import partial
from http import HTTPStatus
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from starlette.responses import Response

from dlq.archive.group_records import add_statement, read_notes, read_statements
from dlq.archive.ledger.open_set import planned_states
from dlq.archive.messages.dead_letter_schema import from_row
from dlq.archive.messages.message_index import Member, member_rows
from dlq.console import reports
from dlq.console.body_fields import body_fields
from dlq.console.site import GROUPS, PAGE_ROWS, Visit, page_route
from dlq.engine import CHANGES
from dlq.errors import InputError
from dlq.explain.findings import Sample
from dlq.explain.triage import Statement, is_group_id, note_of
from dlq.inspect.outcomes import read_returns
from dlq.inspect.show import (
    ArchivedCopy,
    ShowOptions,
    differing_words,
    group_members,
    show,
)
from dlq.plan.changes import with_patch
from dlq.plan.edit import Edit, EditError, read_patch
from dlq.plan.json_text import write_indented, write_json
from dlq.plan.plan import Action, Plan, PlannedGroup
from dlq.redrive.resolving.editor import Editor, edit_sample
from dlq.report.views import View, group_view, shown_sample
from dlq_replay.replaying.returns import Returns

_MOST_STATEMENTS = 50
"""Statements of a group's history that are shown, the newest."""

PREVIEW_MESSAGES = 20


def _content(copy: ArchivedCopy) -> tuple[View, str]:
    """Return body and attributes of a copy as a sample, and its recorded error."""
    attributes: dict[str, str] = {}
    for name, value in (copy.values or {}).items():
        attributes[f"{name} ({copy.attributes[name]})"] = value
    sample = shown_sample(Sample(copy.message_id, copy.sent_at, copy.body or "", attributes))
    error = filter(None, (copy.error_type, copy.error_code, copy.error_message))
    return sample, ": ".join(error)


def _planned(visit: Visit, plan_id: str | None) -> tuple[Plan, PlannedGroup]:
    plan = reports.find_report(visit.console.archive, plan_id).plan()
    return plan, plan.groups[plan.index(visit.request.path_params["group_id"])]


def _group(visit: Visit) -> Response:
    archive = visit.console.archive
    group_id = visit.request.path_params["group_id"]
    report = reports.read_report(visit.console, visit.query.get("plan"))
    group = report.groups[report.plan.index(group_id)]
    edit = group.planned.edit
    operations = edit.patch.operations if edit and edit.patch else ()

    return visit.page(
        "one_group.html.jinja",
        report=report,
        group=group,
        address_plan=report.address_plan,
        queues=report.findings.queues if report.findings else {},
        view=group_view(group.finding, group.rank) if group.finding else None,
        state=report.memory.state(group_id),
        history=read_statements(archive, group_id, _MOST_STATEMENTS),
        note=read_notes(archive, report.memory, [group_id]).get(group_id, ""),
        actions=[action.value for action in Action],
        start_id=visit.console.jobs.make_id(),
        operations=[write_indented(dict(operation)) for operation in operations],
        may_differ="<*>" in group.planned.title,
    )


def _words(visit: Visit) -> Response:
    """Show the words at each ``<*>`` of the group's title, as a fragment or a page of its own."""
    console = visit.console
    plan, group = _planned(visit, visit.query.get("plan"))
    members = group_members(console.archive, plan, group.group_id)
    mask = str if console.is_unmasked else console.masks.text
    words, words_of = differing_words(console.archive, group.group_id, members, mask)
    return visit.page(
        "words_list.html.jinja" if visit.is_fragment else "words.html.jinja",
        group_id=group.group_id,
        planned=group,
        address_plan=visit.query.get("plan", ""),
        words=words,
        words_of=words_of,
    )


def _messages(visit: Visit) -> Response:
    """Show the group's messages, the oldest first, as a fragment or on a page of its own.

    The table of the plan has all values, so no file of messages is opened.
    """
    archive = visit.console.archive
    plan, group = _planned(visit, visit.query.get("plan"))
    group_id = group.group_id
    members = group_members(archive, plan, group_id)
    total = members.num_rows

    text = visit.query.get("q", "").strip()
    if text:
        is_match = pc.match_substring(members["message_id"], text, ignore_case=True)
        members = members.filter(is_match)
    matching = members.num_rows

    number, pages = visit.page_number(matching)
    sort_keys: Any = [("sent_at", "ascending"), ("message_id", "ascending")]
    in_order = pc.sort_indices(members, sort_keys=sort_keys)
    shown = members.take(in_order[(number - 1) * PAGE_ROWS :][:PAGE_ROWS])
    states = planned_states(archive, plan.plan_id, shown["message_id"])
    returns = read_returns(archive, plan.plan_id, [group_id], visit.console.failure_table)
    return visit.page(
        "messages_list.html.jinja" if visit.is_fragment else "messages.html.jinja",
        rows=shown.append_column("state", states).to_pylist(),
        group_id=group_id,
        planned=group,
        address_plan=visit.query.get("plan", ""),
        text=text,
        matching=matching,
        total=total,
        number=number,
        pages=pages,
        returns=returns.get(group_id, Returns()),
    )


def _say(visit: Visit) -> Response:
    """Record a statement of a person about a group: a note, or that it is resolved or is not."""
    console = visit.console
    group_id = visit.request.path_params["group_id"]
    reports.find_report(console.archive, visit.field("shown_plan") or None).plan().index(group_id)
    if not is_group_id(group_id):
        raise InputError(f"{group_id}: is no id of a group as analyses make it")

    text: str | None = note_of(visit.field("text").strip())
    if text == visit.field("text_before"):
        # The text that the page showed is not recorded again: another person may have changed it.
        text = None
    is_resolved = {"yes": True, "no": False}.get(visit.field("resolved"))
    if text is None and is_resolved is None:
        raise InputError("change the note")

    statement = Statement(console.now(), console.who, text=text, is_resolved=is_resolved)
    add_statement(console.archive, group_id, statement)
    return visit.see_other(f"{GROUPS}{group_id}", plan=visit.field("shown_plan"))


def _message(visit: Visit) -> Response:
    console = visit.console
    message_id = visit.request.path_params["message_id"]
    options = ShowOptions(
        archive=console.archive.root,
        message_id=message_id,
        has_body=True,
        is_unmasked=console.is_unmasked,
    )
    history = show(options, console.archive, console.masks)
    words = ["--unmasked"] if console.is_unmasked else ["--body", *console.mask_words]
    return visit.page(
        "message.html.jinja",
        history=history,
        copies=[(copy, *_content(copy)) for copy in history.copies],
        group_id=visit.query.get("group", ""),
        shown_plan=visit.query.get("plan", ""),
        command=console.command("show", message_id, *words),
    )


def patch_lines(edit: Edit | None) -> str:
    """Format the patch of an edit with a line for each operation; empty without one."""
    if edit is None or edit.patch is None:
        return ""
    lines = [f"  {write_json(dict(operation))}" for operation in edit.patch.operations]
    return "[\n" + ",\n".join(lines) + "\n]"


def _edit(visit: Visit) -> Response:
    plan, group = _planned(visit, visit.query.get("plan"))
    return _page(visit, plan, group, patch_lines(group.edit))


def _page(
    visit: Visit,
    plan: Plan,
    group: PlannedGroup,
    text: str,
    meanwhile: PlannedGroup | None = None,
) -> Response:
    values = _preview_values(visit, plan, group, text)
    example = values["example"]
    return visit.page(
        "edit.html.jinja",
        HTTPStatus.CONFLICT if meanwhile else HTTPStatus.OK,
        plan=plan,
        seen=reports.entry_digest(meanwhile or group),
        meanwhile=meanwhile,
        meanwhile_text=patch_lines(meanwhile.edit) if meanwhile else "",
        shown_plan=visit.query.get("plan", visit.field("shown_plan")),
        attributes=group.edit.set_attributes if group.edit else (),
        fields=body_fields(example.body, visit.console.masks) if example else [],
        **values,
        dry_run=visit.console.command("redrive", "--group", group.group_id),
    )


def _preview_values(visit: Visit, plan: Plan, group: PlannedGroup, text: str) -> dict[str, Any]:
    archive = visit.console.archive
    group_id = group.group_id
    patch, faults = read_patch(text)
    members = group_members(archive, plan, group_id)

    samples = []
    misfits = []
    rows = list(member_rows(archive, _preview_members(members)))
    if patch:
        # A queue may have a lower limit, which the dry run knows.
        editor = Editor({group_id: Edit(patch)}, plan.plan_id)
        for row in rows:
            before = from_row(row)
            try:
                after = editor.message({**row, "group_id": group_id, CHANGES: None})
            except EditError as error:
                misfits.append((before.message_id, str(error)))
            else:
                samples.append(edit_sample(group_id, before, after, visit.console.masks))

    words = (group.action.value, "--edit", patch.text if patch else "[]")
    return {
        "group": group,
        "text": text,
        "patch": patch,
        "faults": faults,
        "total": members.num_rows,
        "samples": samples,
        "misfits": misfits,
        "example": from_row(rows[0]) if rows else None,
        "command": visit.console.command("decide", group_id, *words),
    }


def _preview_members(members: pa.Table) -> list[Member]:
    """Return messages of few files, the oldest first."""
    by_file = pc.sort_indices(members["file"].cast(pa.string()))
    rows = members.take(by_file[:PREVIEW_MESSAGES]).sort_by("sent_at").to_pylist()
    return [Member(row["message_id"], row["file"]) for row in rows]


def _preview(visit: Visit) -> Response:
    """Show the changes that the form would make now; a fragment. Writes nothing."""
    plan, group = _planned(visit, visit.field("plan"))
    values = _preview_values(visit, plan, group, visit.field("patch"))
    return visit.page("edit_preview.html.jinja", **values)


def _save(visit: Visit) -> Response:
    plan, group = _planned(visit, visit.field("plan"))
    text = visit.field("patch")
    patch, faults = read_patch(text)
    if faults:
        return _page(visit, plan, group, text)

    seen = {group.group_id: visit.field("seen")}
    change = partial(with_patch, group_id=group.group_id, patch=patch)
    try:
        reports.change_groups(visit.console, plan.plan_id, seen, change)
    except reports.MeanwhileError as error:
        return _page(visit, error.plan, group, text, error.groups[0])

    shown_plan = visit.field("shown_plan")
    return visit.see_other(f"{GROUPS}{group.group_id}", plan=shown_plan, edited="1")


_ONE = f"{GROUPS}{{group_id}}"
ROUTES = (
    page_route(_ONE, _group),
    page_route(f"{_ONE}/messages", _messages),
    page_route(f"{_ONE}/words", _words),
    page_route(f"{_ONE}/say", _say, "POST"),
    page_route(f"{_ONE}/edit", _edit),
    page_route(f"{_ONE}/edit", _save, "POST"),
    page_route(f"{_ONE}/edit/preview", _preview, "POST"),
    page_route("/messages/{message_id:path}", _message),
)
