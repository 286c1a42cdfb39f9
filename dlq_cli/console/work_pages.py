"""Pages about long work: what there is to do, what runs, and one work with its answer."""

import importlib.util
import os
import shutil
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from starlette.responses import Response

from dlq_cli.console import work_commands
from dlq_cli.console.site import Console, Visit, fault_page, page_route, see_other
from dlq_cli.console.work import MOST_STOPS, State, Work, value_of
from dlq_cli.console.work_answers import view_of
from spark_reprocess.command_line.verb import SPARK_EXTRA
from spark_reprocess.errors import JobError
from spark_reprocess.inspect import UNDECIDED
from spark_reprocess.inspect.status import ArchiveStatus, PlanCount, StatusOptions, status
from spark_reprocess.plan.plan_file import find_plan
from spark_reprocess.plan.reading import read_plan

STOP_POLLING = 286
"""The status with which htmx takes a fragment and then asks no more."""


def _work(visit: Visit) -> Response:
    return visit.page(
        "work.html.jinja",
        works=visit.console.works.all(),
        start_id=visit.console.works.make_id(),
        lacks=lacking(visit.console),
        begins=visit.query.get("begin") == "yes",
    )


def _list(visit: Visit) -> Response:
    return visit.page("work_list.html.jinja", works=visit.console.works.all())


@dataclass(frozen=True, slots=True)
class _Counts:
    """The archive's counts, and why the queue's are missing; empty if they are not."""

    found: ArchiveStatus
    fault: str = ""


def _counts(visit: Visit) -> Response:
    counts = _count(visit.console)
    return visit.page("work_counts.html.jinja", counts=counts, UNDECIDED=UNDECIDED)


def _count(console: Console) -> _Counts:
    options = StatusOptions(
        console.archive.root,
        parked_queue_url=console.values.get("parked-queue-url"),
        failure_table=console.values.get("failure-table"),
        main_queue_url=console.values.get("main-queue-url"),
        dlq_url=console.values.get("dlq-url"),
    )
    try:
        return _Counts(status(options))
    except JobError as error:
        # A queue that cannot be asked must not hide what is in the archive.
        return _Counts(status(StatusOptions(console.archive.root)), str(error))


def _one(visit: Visit) -> Response:
    work = _found(visit)
    if work is None:
        return fault_page(visit, "There is no such work. Old ones are removed.", _NOT_FOUND)
    return _shown(visit, work, "one_work.html.jinja")


def _state(visit: Visit) -> Response:
    work = _found(visit)
    if work is None:
        return fault_page(visit, "This work was removed.", _NOT_FOUND)
    done = work.state is not State.RUNNING
    return _shown(visit, work, "work_state.html.jinja", STOP_POLLING if done else HTTPStatus.OK)


_NOT_FOUND = HTTPStatus.NOT_FOUND


def _shown(
    visit: Visit, work: Work, template: str, code: int | HTTPStatus = HTTPStatus.OK
) -> Response:
    view = view_of(work)
    is_running = work.state is State.RUNNING
    response = visit.page(
        template,
        view=view,
        work=work,
        is_running=is_running,
        titles=_titles(visit.console, value_of(work.words, "--plan")) if view.sending else {},
        seconds=((work.ended_at or visit.console.now()) - work.started_at).total_seconds(),
        start_id=visit.console.works.make_id(),
        claim_ttl=int(value_of(work.words, "--claim-ttl") or 900),
        can_send=bool(visit.console.stack or visit.console.values.get("parked-queue-url")),
    )
    response.status_code = int(code)
    return response


def _titles(console: Console, plan_id: str) -> dict[str, str]:
    """Return what failed in each group of a plan; nothing if that cannot be read now."""
    if not plan_id:
        return {}
    try:
        plan = read_plan(find_plan(console.archive, plan_id).read())
    except JobError:
        return {}
    return {group.group_id: group.title for group in plan.groups}


def _ledger(visit: Visit) -> Response:
    """Say what the ledger knows of a plan: for a work that died without an answer."""
    work = _found(visit)
    plan_id = value_of(work.words, "--plan") if work else ""
    plans = status(StatusOptions(visit.console.archive.root)).plans if plan_id else ()
    counts = next((one for one in plans if one.plan_id == plan_id), PlanCount(plan_id, {}))
    return visit.page("work_ledger.html.jinja", plan=counts)


def _drain(visit: Visit) -> Response:
    return started(visit, work_commands.drain(visit.console, visit.field))


def _analyze(visit: Visit) -> Response:
    return started(visit, work_commands.analyze(visit.console, visit.field))


def _again(visit: Visit) -> Response:
    work = _found(visit)
    if work is None:
        return fault_page(visit, "There is no such work. Old ones are removed.", _NOT_FOUND)
    return started(visit, work_commands.again(work, visit.field), work.work_id)


def _stop(visit: Visit) -> Response:
    work_id = visit.request.path_params["work_id"]
    is_second = visit.field("number") == str(MOST_STOPS)
    visit.console.works.stop(work_id, MOST_STOPS if is_second else 1)
    return see_other(f"/works/{work_id}")


def _found(visit: Visit) -> Work | None:
    return visit.console.works.get(visit.request.path_params["work_id"])


def started(visit: Visit, words: list[str], after: str = "") -> Response:
    """Start a command, and send the browser to its page.

    The form names the work that it starts: one that is sent twice starts one.
    """
    work = visit.console.works.start(visit.field("start_id"), words, after)
    return see_other(f"/works/{work.work_id}")


def lacking(console: Console) -> tuple[str, str] | None:
    """Return what long work lacks on this machine, and the command that helps; None for nothing."""
    if console.on_glue:
        return None
    if importlib.util.find_spec("pyspark") is None:
        return "Spark is not installed here", SPARK_EXTRA
    home = os.environ.get("JAVA_HOME")
    if not (Path(home, "bin", "java").is_file() if home else shutil.which("java")):
        return "Spark needs Java 17 or later, and finds none", "export JAVA_HOME=/path/to/java"
    return None


ROUTES = (
    page_route("/works", _work),
    page_route("/works/list", _list),
    page_route("/works/counts", _counts),
    page_route("/works/drain", _drain, "POST"),
    page_route("/works/analyze", _analyze, "POST"),
    page_route("/works/{work_id}", _one),
    page_route("/works/{work_id}/state", _state),
    page_route("/works/{work_id}/ledger", _ledger),
    page_route("/works/{work_id}/again", _again, "POST"),
    page_route("/works/{work_id}/stop", _stop, "POST"),
)
