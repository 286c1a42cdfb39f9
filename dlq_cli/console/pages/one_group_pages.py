"""Pages about one group, its messages, what people say about it; and about one message."""

from typing import Any

import pyarrow.compute as pc
from starlette.responses import Response

from dlq_cli.console.reading import find_report, read_report
from dlq_cli.console.site import GROUPS, PAGE_ROWS, Console, Visit, page_route
from dlq_replay.replaying.returns import Returns
from spark_reprocess.analysis.groups.mask import excerpt
from spark_reprocess.archive.group_records import add_statement, read_notes, read_statements
from spark_reprocess.archive.ledger.open_set import planned_states
from spark_reprocess.editing.json_text import write_indented
from spark_reprocess.errors import InputError
from spark_reprocess.groups.findings import Sample
from spark_reprocess.groups.triage import Statement, is_group_id, note_of
from spark_reprocess.inspect.outcomes import read_returns
from spark_reprocess.inspect.show import ArchivedCopy, ShowOptions, group_members, show
from spark_reprocess.plan.plan import Action
from spark_reprocess.report.views import View, group_view, shown_sample

_MOST_STATEMENTS = 50
"""Of a group's history, the newest."""

_BODY_CHARACTERS = 8_000
"""Of a body at most; ``dlq show`` has all of it."""


def _masked(console: Console, copy: ArchivedCopy) -> tuple[View, str]:
    """Return body and attributes of a copy, and its recorded error, as a reader may see them."""
    body, error, values = copy.body or "", copy.error_message or "", copy.values or {}
    if not console.is_unmasked:
        masks = console.masks
        body, error = excerpt(body, masks, _BODY_CHARACTERS), masks.text(error)
        values = {name: masks.value(f"attribute.{name}", value) for name, value in values.items()}
    attributes = {f"{name} ({copy.attributes[name]})": one for name, one in values.items()}
    sample = shown_sample(Sample(copy.message_id, copy.sent_at, body, attributes))
    return sample, ": ".join(filter(None, (copy.error_type, copy.error_code, error)))


def _group(visit: Visit) -> Response:
    console = visit.console
    archive, group_id = console.archive, visit.request.path_params["group_id"]
    report = read_report(archive, visit.query.get("plan"), console.now(), console.failure_table)
    group = report.groups[report.plan.index(group_id)]
    edit = group.planned.edit
    operations = edit.patch.operations if edit and edit.patch else ()
    return visit.page(
        "one_group.html.jinja",
        report=report,
        group=group,
        place=report.place,
        view=group_view(group.found, group.rank) if group.found else None,
        state=report.memory.state(group_id),
        history=read_statements(archive, group_id, _MOST_STATEMENTS),
        note=read_notes(archive, report.memory, [group_id]).get(group_id, ""),
        actions=[one.value for one in Action],
        operations=[write_indented(dict(one)) for one in operations],
    )


def _messages(visit: Visit) -> Response:
    """A page of the group's messages, the oldest first, as a fragment or on a page of its own.

    The table of the plan has what it needs, so no file of messages is opened.
    """
    console, query = visit.console, visit.query
    archive, group_id = console.archive, visit.request.path_params["group_id"]
    plan = find_report(archive, query.get("plan")).plan()
    group = plan.groups[plan.index(group_id)]
    text = query.get("q", "").strip()
    members = group_members(archive, plan, group_id)
    total = members.num_rows
    if text:
        is_in = pc.match_substring(members["message_id"], text, ignore_case=True)
        members = members.filter(is_in)
    matching = members.num_rows
    number, pages = visit.page_number(matching)
    keys: Any = [("sent_at", "ascending"), ("message_id", "ascending")]
    places = pc.sort_indices(members, sort_keys=keys)[(number - 1) * PAGE_ROWS :][:PAGE_ROWS]
    shown = members.take(places)
    now_seconds = console.now().timestamp()
    states = planned_states(archive, plan.plan_id, shown["message_id"], now_seconds)
    returns = read_returns(archive, plan.plan_id, [group_id], console.failure_table)
    return visit.page(
        "messages_list.html.jinja" if visit.is_fragment else "messages.html.jinja",
        rows=shown.append_column("state", states).to_pylist(),
        group_id=group_id,
        planned=group,
        place=query.get("plan", ""),
        text=text,
        matching=matching,
        total=total,
        number=number,
        pages=pages,
        returns=returns.get(group_id, Returns()),
    )


def _say(visit: Visit) -> Response:
    """Write down what a person says about a group: a note, or that it is resolved or is not."""
    console = visit.console
    group_id = visit.request.path_params["group_id"]
    find_report(console.archive, visit.field("shown_plan") or None).plan().index(group_id)
    if not is_group_id(group_id):
        raise InputError(f"{group_id}: is no id of a group as analyses make it")
    text: str | None = note_of(visit.field("text").strip())
    if text == visit.field("text_before"):
        # What the page showed is not said again: it may be another person's by now.
        text = None
    is_resolved = {"yes": True, "no": False}.get(visit.field("resolved"))
    if text is None and is_resolved is None:
        raise InputError("change the note")
    said = Statement(console.now(), console.who, text=text, is_resolved=is_resolved)
    add_statement(console.archive, group_id, said)
    return visit.see_other(f"{GROUPS}{group_id}", plan=visit.field("shown_plan"))


def _message(visit: Visit) -> Response:
    console, message_id = visit.console, visit.request.path_params["message_id"]
    # Read as it is, and masked here as samples are: fields by their names, too.
    options = ShowOptions(console.archive.root, message_id, is_unmasked=True)
    history = show(options, console.archive)
    words = ["--unmasked"] if console.is_unmasked else ["--body"]
    return visit.page(
        "message.html.jinja",
        history=history,
        copies=[(one, *_masked(console, one)) for one in history.copies],
        group_id=visit.query.get("group", ""),
        shown_plan=visit.query.get("plan", ""),
        command=console.command("show", message_id, *words),
    )


ROUTES = (
    page_route(f"{GROUPS}{{group_id}}", _group),
    page_route(f"{GROUPS}{{group_id}}/messages", _messages),
    page_route(f"{GROUPS}{{group_id}}/say", _say, "POST"),
    page_route("/messages/{message_id:path}", _message),
)
