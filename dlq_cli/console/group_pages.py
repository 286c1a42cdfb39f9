"""Pages about groups: the list."""

from starlette.responses import Response

from dlq_cli.console.reading import read_report
from dlq_cli.console.site import Visit, page_route


def _groups(visit: Visit) -> Response:
    report = read_report(visit.console.archive, visit.query.get("plan"), visit.console.now())
    return visit.page("groups.html.jinja", plan=report.plan, groups=report.groups)


ROUTES = (page_route("/", _groups),)
