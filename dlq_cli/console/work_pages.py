"""Pages about long work: what there is to do, what runs, and one work with its answer.

What sends begins with a dry run. An answer may be damaged. Templates show it as it is:
where that fails, the page is shown without the answer.
"""

import importlib.util
import os
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from jinja2 import UndefinedError
from starlette.responses import Response

from dlq_cli.console import work_commands as commands
from dlq_cli.console.reading import read_plan_now
from dlq_cli.console.site import Console, Handler, RefusalError, Visit, page_route
from dlq_cli.console.work import MOST_STOPS, State, Work, value_of, without_json
from dlq_cli.console.work_commands import WHOLE_PLAN, Fields
from spark_reprocess.archive.ledger.disposition import CLAIM_TTL_SECONDS, Disposition
from spark_reprocess.archive.ledger.message_state import PENDING
from spark_reprocess.archive.storage.records import DAMAGE
from spark_reprocess.clients import sqs_client
from spark_reprocess.command_line.outcomes import columns, problem_sentence
from spark_reprocess.command_line.verb import (
    INTERRUPTED,
    NOT_ALL_SENT,
    PROGRAM,
    SPARK_INSTALL,
    STOPPED,
)
from spark_reprocess.errors import JobError
from spark_reprocess.inspect.outcomes import read_outcomes
from spark_reprocess.inspect.status import PlanCount, StatusOptions, status
from spark_reprocess.plan.plan import Action
from spark_reprocess.redrive.redrive_values import Tally
from spark_reprocess.report.texts import quoted

STOP_POLLING = 286
"""The status with which htmx takes a fragment and then asks no more."""

_SHOWN_GROUPS = 50
"""Those of which most came back."""

_OURS = (f"{PROGRAM}: ", f"{PROGRAM} ")
_UNFINISHED = {NOT_ALL_SENT, STOPPED, INTERRUPTED}
"""Exit codes after which the same command goes on with what is left."""

_ACTED_ON = (Disposition.SEND, Disposition.SENT, Disposition.DISCARDED)


def _work(visit: Visit) -> Response:
    return visit.page(
        "work.html.jinja",
        works=visit.console.works.all(),
        start_id=visit.console.works.make_id(),
        lacks=_lacking(visit.console),
        begins=visit.query.get("begin") == "yes",
    )


def _list(visit: Visit) -> Response:
    return visit.page("work_list.html.jinja", works=visit.console.works.all())


def _counts(visit: Visit) -> Response:
    console, fault = visit.console, ""
    options = StatusOptions(
        console.archive.root,
        parked_queue_url=console.values.get("parked-queue-url"),
        failure_table=console.failure_table,
        main_queue_url=console.values.get("main-queue-url"),
        dlq_url=console.values.get("dlq-url"),
    )
    try:
        found = status(options)
    except JobError as error:
        # A queue that cannot be asked must not hide what is in the archive.
        found, fault = status(StatusOptions(console.archive.root)), str(error)
    return visit.page("work_counts.html.jinja", found=found, fault=fault, PENDING=PENDING)


def _state(visit: Visit) -> Response:
    work = _found(visit)
    response = _shown(visit, work, "work_state.html.jinja")
    if work.state is not State.RUNNING:
        response.status_code = STOP_POLLING
    return response


def _shown(visit: Visit, work: Work, template: str) -> Response:
    try:
        answer = work.answer() if work.state is State.ENDED else None
        return _page_of(visit, work, answer, template)
    except (UndefinedError, *DAMAGE):
        # The answer is damaged.
        return _page_of(visit, work, None, template)


def _page_of(visit: Visit, work: Work, answer: Mapping[str, Any] | None, template: str) -> Response:
    """Render a work with its *answer*. ``sentences`` are for people, ``log`` is the other output.

    Raises one of ``DAMAGE``, or an ``UndefinedError``, for an answer of another shape.
    """
    lines = work.errors().splitlines()
    sending = _sending(answer) if answer and work.verb == "redrive" else None
    is_dry_run = work.verb == "redrive" and "--execute" not in work.words
    return visit.page(
        template,
        work=work,
        command=" ".join(map(quoted, [PROGRAM, *without_json(work.words)])),
        sentences=[one.removeprefix(f"{PROGRAM}: ") for one in lines if one.startswith(_OURS)],
        log="\n".join(one for one in lines if not one.startswith(_OURS)),
        answer=answer,
        sending=sending,
        is_dry_run=is_dry_run,
        goes_on=work.state is State.DIED or work.exit_code in _UNFINISHED,
        is_running=work.state is State.RUNNING,
        titles=_titles(visit.console, value_of(work.words, "--plan")) if sending else {},
        seconds=((work.ended_at or visit.console.now()) - work.started_at).total_seconds(),
        start_id=visit.console.works.make_id(),
        group=value_of(work.words, "--group"),
        claim_ttl=int(value_of(work.words, "--claim-ttl") or CLAIM_TTL_SECONDS),
    )


def _sending(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer of a redrive, with its table and its problems as sentences.

    A row is an id, its action, and a number for each column.
    """
    groups: Sequence[Mapping[str, Any]] = answer["groups"]
    counts = sum((Counter[str](group["counts"]) for group in groups), Counter[str]())
    named = columns(counts)
    problems = answer["problems"]
    return {
        **answer,
        "columns": list(named),
        "rows": [
            (
                group["group_id"],
                f"{group['action']}, edited" if group["is_edited"] else group["action"],
                [sum(group["counts"].get(word, 0) for word in of) for of in named.values()],
            )
            for group in groups
            # A plan of a thousand groups acts on a few.
            if group["action"] != "leave" or any(group["counts"].get(one) for one in _ACTED_ON)
        ],
        "planned": counts[Disposition.SEND],
        "done": counts[Disposition.SENT],
        "problems": [problem_sentence(Tally(**one)) for one in problems],
        "has_doubt": any(one["word"] == Disposition.IN_DOUBT for one in problems),
    }


def _titles(console: Console, plan_id: str) -> dict[str, str]:
    """Return what failed in each group of a plan; nothing if that cannot be read now."""
    if not plan_id:
        return {}
    try:
        plan = read_plan_now(console.archive, plan_id)
    except JobError:
        return {}
    return {group.group_id: group.title for group in plan.groups}


def _ledger(visit: Visit) -> Response:
    """Say what the ledger knows of a plan: for a work that died without an answer."""
    plan_id = value_of(_found(visit).words, "--plan")
    plans = status(StatusOptions(visit.console.archive.root)).plans if plan_id else ()
    counts = next((one for one in plans if one.plan_id == plan_id), PlanCount(plan_id, {}))
    return visit.page("work_ledger.html.jinja", plan=counts)


def _outcomes(visit: Visit) -> Response:
    """Say of each group of a plan what came back, until every failure would have."""
    console, group = visit.console, visit.query.get("group")
    plan = read_plan_now(console.archive, visit.query.get("plan"))
    plan = plan.only(group) if group else plan
    found = read_outcomes(console.archive, plan, console.failure_table, make_client=sqs_client)
    sent = [one for one in (found or {}).values() if one.sent]
    sent.sort(key=lambda one: -(one.returned or 0))
    response = visit.page(
        "outcomes.html.jinja",
        has_ids=not group,
        plan_id=plan.plan_id,
        outcomes=sent[:_SHOWN_GROUPS],
        more=max(0, len(sent) - _SHOWN_GROUPS),
    )
    if all(one.is_known(console.now().timestamp()) for one in sent):
        response.status_code = STOP_POLLING
    return response


def _again(visit: Visit) -> Response:
    work = _found(visit)
    return _started(visit, commands.again(work, visit.field))


def _stop(visit: Visit) -> Response:
    work_id = visit.request.path_params["work_id"]
    is_second = visit.field("number") == str(MOST_STOPS)
    visit.console.works.stop(work_id, MOST_STOPS if is_second else 1)
    return visit.see_other(f"/works/{work_id}")


def _found(visit: Visit) -> Work:
    work = visit.console.works.get(visit.request.path_params["work_id"])
    if work is None:
        why = "There is no such work. Old ones are removed."
        raise RefusalError(why, HTTPStatus.NOT_FOUND)
    return work


def _started(visit: Visit, words: list[str]) -> Response:
    """Start a command, and send the browser to its page.

    The form names the work that it starts: one that is sent twice starts one.
    """
    work = visit.console.works.start(visit.field("start_id"), words)
    return visit.see_other(f"/works/{work.work_id}")


def _start(command: Callable[[Console, Fields], list[str]]) -> Handler:
    return lambda visit: _started(visit, command(visit.console, visit.field))


def _redrive(visit: Visit) -> Response:
    plan = read_plan_now(visit.console.archive, visit.query.get("plan"))
    chosen = visit.query.get("group", "")
    return visit.page(
        "redrive.html.jinja",
        plan=plan,
        redriven=[one for one in plan.groups if one.action is Action.REDRIVE],
        discarded=[one for one in plan.groups if one.action is Action.DISCARD],
        chosen=chosen,
        WHOLE_PLAN=WHOLE_PLAN,
        start_id=visit.console.works.make_id(),
        lacks=_lacking(visit.console),
    )


def _execute(visit: Visit) -> Response:
    dry_run = visit.console.works.get(visit.field("after"))
    if dry_run is None:
        raise RefusalError("This dry run is gone: make it again.", HTTPStatus.NOT_FOUND)
    return _started(visit, commands.redrive(visit.console, dry_run, visit.field))


def _lacking(console: Console) -> tuple[str, str] | None:
    """Return what long work lacks on this machine, and the command that helps; None for nothing."""
    if console.on_glue:
        return None
    if importlib.util.find_spec("pyspark") is None:
        return "Spark is not installed here", SPARK_INSTALL
    home = os.environ.get("JAVA_HOME")
    if not (Path(home, "bin", "java").is_file() if home else shutil.which("java")):
        return "Spark needs Java 17 or later, and finds none", "export JAVA_HOME=/path/to/java"
    return None


ROUTES = (
    page_route("/works", _work),
    page_route("/works/list", _list),
    page_route("/works/counts", _counts),
    page_route("/works/collect", _start(commands.collect), "POST"),
    page_route("/works/{work_id}", lambda one: _shown(one, _found(one), "one_work.html.jinja")),
    page_route("/works/{work_id}/state", _state),
    page_route("/works/{work_id}/ledger", _ledger),
    page_route("/outcomes", _outcomes),
    page_route("/works/{work_id}/again", _again, "POST"),
    page_route("/works/{work_id}/stop", _stop, "POST"),
    page_route("/redrive", _redrive),
    page_route("/redrive", _start(commands.preview), "POST"),
    page_route("/redrive/execute", _execute, "POST"),
)
