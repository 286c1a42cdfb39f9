"""The page of a fleet: a line for each member DLQ, as ``dlq status`` of a fleet has it.

The page comes at once. Its list asks AWS about all members, and comes by a request of its own.
"""

from collections.abc import Mapping

from starlette.responses import Response

from dlq.console.site import PAGE_ROWS, Console, Visit, page_route
from dlq.errors import InputError
from dlq.inspect.status import StatusOptions
from dlq.stack.fleet_rows import FleetRow, Need

_NAMED = 10
"""Sources of a DLQ, and facts that are not known, that a page names at most."""

_FIELDS = ("q", "need")
"""Fields of an address that select the listed members."""


def _fleet(visit: Visit) -> Response:
    console = visit.console
    if not console.queue_tag:
        raise InputError("this console is not of a fleet: dlq console --stack FLEET is")

    wanted = {name: visit.query.get(name, "") for name in _FIELDS}
    if not visit.is_fragment:
        return visit.page("fleet.html.jinja", wanted=wanted, needs=list(Need))

    now_seconds = int(console.now().timestamp())
    fleet = console.fleet.read(_options(console), now_seconds)
    rows = [row for row in fleet.queues if _matches(row, wanted)]
    number, pages = visit.page_number(len(rows))
    return visit.page(
        "fleet_list.html.jinja",
        fleet=fleet,
        rows=rows[(number - 1) * PAGE_ROWS : number * PAGE_ROWS],
        matching=len(rows),
        number=number,
        pages=pages,
        wanted=wanted,
        most_named=_NAMED,
    )


def _options(console: Console) -> StatusOptions:
    values = console.values
    return StatusOptions(
        archive=console.archive.root,
        failure_table=console.failure_table,
        parked_queue_url=values.get("parked-queue-url"),
        fifo_parked_queue_url=values.get("fifo-parked-queue-url"),
        queue_tag=console.queue_tag,
        sweep_rule=values.get("sweep-rule"),
    )


def _matches(row: FleetRow, wanted: Mapping[str, str]) -> bool:
    """Return whether a member has all words of a search in the names of its queues, and a need."""
    names = "\n".join([row.queue, *row.sources]).lower()
    has_words = all(word in names for word in wanted["q"].lower().split())
    return has_words and wanted["need"] in ("", row.need)


ROUTES = [page_route("/fleet", _fleet)]
