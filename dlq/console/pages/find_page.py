"""The page of a search: the messages that have a value."""

from starlette.responses import Response

from dlq.console.site import Visit, page_route
from dlq.inspect.find import find_in_archive
from dlq.inspect.matching import Wanted
from dlq.local_engine import LocalEngine

_SHOWN = 50
"""Messages that a page shows, the newest."""


def _find(visit: Visit) -> Response:
    value = visit.query.get("value", "").strip()
    is_pattern = visit.query.get("regex") == "yes"
    if not value:
        return visit.page("find.html.jinja", value="", is_pattern=is_pattern, result=None)

    console = visit.console
    result = find_in_archive(
        LocalEngine(),
        console.archive,
        Wanted(value, is_pattern=is_pattern),
        _SHOWN,
        masks=None if console.is_unmasked else console.masks,
        failure_table=console.failure_table,
    )
    words = [value, "--regex"] if is_pattern else [value]
    return visit.page(
        "find.html.jinja",
        value=value,
        is_pattern=is_pattern,
        result=result,
        command=console.command("find", *words),
    )


ROUTES = [page_route("/find", _find)]
