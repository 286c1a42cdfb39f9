"""Pages about one group: what the analysis found, its messages, and what people say about it."""

from starlette.responses import Response

from dlq_cli.console.members import SORTS, WantedMessages, group_messages
from dlq_cli.console.reading import Group, read_plan_now, read_report
from dlq_cli.console.shown import Shown
from dlq_cli.console.site import GROUPS, Visit, done_of, page_route, see_other
from spark_reprocess.archive.group_records import add_statement, read_notes, read_statements
from spark_reprocess.editing.json_text import INDENTED
from spark_reprocess.errors import InputError
from spark_reprocess.plan.plan import Action
from spark_reprocess.report.views import group_view, shown_samples
from spark_reprocess.triage import Statement, is_group_id, note_of

_MOST_STATEMENTS = 50
"""Of a group's history, the newest."""


def _group(visit: Visit) -> Response:
    console = visit.console
    group_id = visit.request.path_params["group_id"]
    report = read_report(console.archive, visit.query.get("plan"))
    group = report.group(group_id)
    state = report.memory.state(group_id)
    notes = read_notes(console.archive, report.memory, [group_id])
    found, findings = group.found, report.findings
    view = None
    if found is not None and findings is not None:
        (samples,) = shown_samples([found])
        view = group_view(findings, found, group.rank, samples)
    return visit.page(
        "one_group.html.jinja",
        report=report,
        group=group,
        place=report.place,
        view=view,
        findings=findings,
        state=state,
        history=read_statements(console.archive, group_id, _MOST_STATEMENTS),
        note=notes.get(group_id, ""),
        edit_digest=group.planned.edit.digest if group.planned.edit else "",
        done=done_of(visit),
        actions=[one.value for one in Action],
        operations=_operations(group),
        edited=visit.query.get("edited") == "1",
    )


def _operations(group: Group) -> list[str]:
    patch = group.planned.edit.patch if group.planned.edit else None
    return [INDENTED.write(dict(one)) for one in patch.operations] if patch else []


def _messages(visit: Visit) -> Response:
    """A page of the group's messages, as a fragment or on a page of its own."""
    console, now = visit.console, visit.console.now()
    group_id = visit.request.path_params["group_id"]
    plan = read_plan_now(console.archive, visit.query.get("plan"))
    group = plan.groups[plan.index(group_id)]
    wanted = WantedMessages.of(visit.query)
    shown = Shown(console.masks, console.is_unmasked)
    page = group_messages(console.archive, plan, group_id, wanted, now, shown.text)
    values = {"group_id": group_id, "wanted": wanted, "page": page, "sorts": SORTS}
    values |= {"place": visit.query.get("plan", ""), "planned": group}
    name = "messages_list.html.jinja" if visit.is_fragment else "messages.html.jinja"
    return visit.page(name, **values)


def _say(visit: Visit) -> Response:
    """Write down what a person says about a group: a note, or that it is resolved or is not."""
    console = visit.console
    group_id = visit.request.path_params["group_id"]
    plan = read_plan_now(console.archive, visit.field("shown_plan") or None)
    plan.index(group_id)
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
    return see_other(f"{GROUPS}{group_id}", plan=visit.field("shown_plan"))


ROUTES = (
    page_route(f"{GROUPS}{{group_id}}", _group),
    page_route(f"{GROUPS}{{group_id}}/messages", _messages),
    page_route(f"{GROUPS}{{group_id}}/say", _say, "POST"),
)
