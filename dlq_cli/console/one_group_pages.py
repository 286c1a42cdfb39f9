"""Pages about one group: what the analysis found, its messages, and what people say about it."""

from argparse import ArgumentTypeError
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from starlette.responses import Response

from dlq_cli.console.members import SORTS, WantedMessages, group_messages
from dlq_cli.console.reading import Group, read_plan_now, read_report
from dlq_cli.console.shown import Shown
from dlq_cli.console.site import GROUPS, Visit, done_of, page_route, see_other
from spark_reprocess.archive.group_events import add_event, read_texts
from spark_reprocess.command_line.arguments import duration, moment
from spark_reprocess.command_line.group_events import NAME_CHARACTERS, TEXT_CHARACTERS
from spark_reprocess.editing.json_text import INDENTED
from spark_reprocess.errors import InputError
from spark_reprocess.plan.plan import Action
from spark_reprocess.report.views import group_view, shown_samples
from spark_reprocess.triage.events import EventKind, GroupEvent, is_group_id
from spark_reprocess.triage.status import VERSION_CHARACTERS, is_version

_MOST_EVENTS = 50
"""Of a group's history, the newest."""


def _group(visit: Visit) -> Response:
    console, now = visit.console, visit.console.now()
    group_id = visit.request.path_params["group_id"]
    report = read_report(console.archive, visit.query.get("plan"), now)
    group = report.group(group_id)
    state = report.memory.state(group_id)
    events = report.memory.events.get(group_id, ())
    history = read_texts(console.archive, list(reversed(events))[:_MOST_EVENTS])
    said = [one.text for one in history if one.has_text]
    found, findings = group.found, report.findings
    view = None
    if found is not None and findings is not None:
        (samples,) = shown_samples([found])
        view = group_view(findings, found, group.rank, samples)
    version = state.resolved_in
    return visit.page(
        "one_group.html.jinja",
        report=report,
        group=group,
        place=report.place,
        view=view,
        findings=findings,
        state=state,
        snoozed_until=state.snoozed_until if state.is_snoozed(now) else None,
        failed_since=report.memory.failed_since(group_id, version) if version else (),
        history=history,
        events=len(events),
        note=next((text for text in said if text), "") if said else "",
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


def _say(say: Callable[[Visit, datetime], GroupEvent], visit: Visit) -> Response:
    """Write down what a person says about a group: note, owner, ticket, snooze or version."""
    console, now = visit.console, visit.console.now()
    group_id = visit.request.path_params["group_id"]
    plan = read_plan_now(console.archive, visit.field("shown_plan") or None)
    plan.index(group_id)
    if not is_group_id(group_id):
        raise InputError(f"{group_id}: is no id of a group as analyses make it")
    event = say(visit, now)
    add_event(console.archive, replace(event, group_id=group_id, time=now, who=console.who))
    return see_other(f"{GROUPS}{group_id}", plan=visit.field("shown_plan"))


def _note(visit: Visit, _: datetime) -> GroupEvent:
    limits = {"text": TEXT_CHARACTERS, "owner": NAME_CHARACTERS, "ticket": NAME_CHARACTERS}
    said = {name: visit.field(name).strip() for name in limits}
    for name, most in limits.items():
        if len(said[name]) > most:
            raise InputError(f"{name}: has {len(said[name]):,} characters; at most {most:,}")
    # What the page showed is not said again: it may be another person's by now.
    new = {name: said[name] for name in limits if said[name] != visit.field(f"{name}_before")}
    if not new:
        raise InputError("change the note, the owner or the ticket")
    return _event(EventKind.NOTED, **new)


def _snooze(visit: Visit, now: datetime) -> GroupEvent:
    length, until = visit.field("length"), visit.field("until").strip()
    if length == "end":
        return _event(EventKind.SNOOZED, until=None)
    try:
        end = moment(until) if until else (now + duration(length)).replace(microsecond=0)
    except ArgumentTypeError as error:
        raise InputError(str(error)) from error
    except OverflowError as error:
        raise InputError("the snooze ends after the year 9999") from error
    if end <= now:
        raise InputError("the end of a snooze must be in the future")
    return _event(EventKind.SNOOZED, until=end)


def _resolve(visit: Visit, _: datetime) -> GroupEvent:
    version = visit.field("version").strip()
    if not is_version(version):
        raise InputError(
            f"{version!r}: must be a version of 1 to {VERSION_CHARACTERS} printable characters; "
            "$LATEST is none, because its code changes"
        )
    return _event(EventKind.RESOLVED, version=version)


def _event(kind: EventKind, **values: Any) -> GroupEvent:  # noqa: ANN401 - of GroupEvent
    return GroupEvent("", kind, datetime.now(UTC), "", **values)


ROUTES = (
    page_route(f"{GROUPS}{{group_id}}", _group),
    page_route(f"{GROUPS}{{group_id}}/messages", _messages),
    page_route(f"{GROUPS}{{group_id}}/note", partial(_say, _note), "POST"),
    page_route(f"{GROUPS}{{group_id}}/snooze", partial(_say, _snooze), "POST"),
    page_route(f"{GROUPS}{{group_id}}/resolve", partial(_say, _resolve), "POST"),
)
