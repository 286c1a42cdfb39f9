"""Pages that send or erase: redrive, restore, erase. Each begins with a dry run."""

from collections.abc import Callable
from http import HTTPStatus

from starlette.responses import Response

from dlq_cli.console import work_commands
from dlq_cli.console.reading import read_plan_now
from dlq_cli.console.site import Visit, fault_page, page_route
from dlq_cli.console.work import Work
from dlq_cli.console.work_commands import WHOLE_PLAN, ChangedError
from dlq_cli.console.work_pages import lacking, started
from spark_reprocess.plan.plan import Action


def _redrive(visit: Visit) -> Response:
    _, plan = read_plan_now(visit.console.archive, visit.query.get("plan"))
    chosen = visit.query.get("group", "")
    return visit.page(
        "redrive.html.jinja",
        plan=plan,
        redriven=[one for one in plan.groups if one.action is Action.REDRIVE],
        discarded=[one for one in plan.groups if one.action is Action.DISCARD],
        chosen=chosen,
        WHOLE_PLAN=WHOLE_PLAN,
        start_id=visit.console.works.make_id(),
        lacks=lacking(visit.console),
    )


def _preview_redrive(visit: Visit) -> Response:
    return started(visit, work_commands.preview(visit.console, visit.field))


def _execute_redrive(visit: Visit) -> Response:
    return _after_dry_run(
        visit, lambda dry_run: work_commands.redrive(visit.console, dry_run, visit.field)
    )


def _restore(visit: Visit) -> Response:
    return _form(visit, "restore.html.jinja")


def _preview_restore(visit: Visit) -> Response:
    return started(visit, work_commands.restore_preview(visit.console, visit.field))


def _execute_restore(visit: Visit) -> Response:
    return _after_dry_run(visit, lambda dry_run: work_commands.restore(dry_run, visit.field))


def _erase(visit: Visit) -> Response:
    return _form(visit, "erase.html.jinja")


def _preview_erase(visit: Visit) -> Response:
    return started(visit, work_commands.erase_preview(visit.console, visit.field))


def _execute_erase(visit: Visit) -> Response:
    return _after_dry_run(visit, lambda dry_run: work_commands.erase(dry_run, visit.field))


def _form(visit: Visit, template: str) -> Response:
    start_id = visit.console.works.make_id()
    return visit.page(template, start_id=start_id, lacks=lacking(visit.console))


def _after_dry_run(visit: Visit, command: Callable[[Work], list[str]]) -> Response:
    dry_run = visit.console.works.get(visit.field("after"))
    if dry_run is None:
        return fault_page(visit, "This dry run is gone: make it again.", HTTPStatus.NOT_FOUND)
    try:
        words = command(dry_run)
    except ChangedError as error:
        return fault_page(visit, str(error), HTTPStatus.CONFLICT)
    return started(visit, words, dry_run.work_id)


ROUTES = (
    page_route("/redrive", _redrive),
    page_route("/redrive", _preview_redrive, "POST"),
    page_route("/redrive/execute", _execute_redrive, "POST"),
    page_route("/restore", _restore),
    page_route("/restore", _preview_restore, "POST"),
    page_route("/restore/execute", _execute_restore, "POST"),
    page_route("/erase", _erase),
    page_route("/erase", _preview_erase, "POST"),
    page_route("/erase/execute", _execute_erase, "POST"),
)
