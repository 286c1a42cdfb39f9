"""Parts of every page of the console: the archive, the request, templates and assets."""

import mimetypes
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache, partial
from hashlib import sha256
from http import HTTPStatus
from importlib.resources import files
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import Environment
from starlette.datastructures import FormData, QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from dlq.archive.storage.files import Archive
from dlq.cli.suggested import option_words
from dlq.cli.verb import PROGRAM
from dlq.console.fleet_reading import FleetReading
from dlq.console.jobs import Jobs
from dlq.console.security import ASSETS
from dlq.errors import JobError
from dlq.explain.signature.mask import Masks, compile_masks
from dlq.report import page as report_page
from dlq.report.views import quoted
from dlq_replay.aws.tagged_queues import TAG_KEY

_PACKAGES = (files("dlq.console"), report_page.REPORT)

GROUPS = "/groups/"
"""Beginning of the path of a group's page."""

PAGE_ROWS = 50
"""Rows of a long list that one page shows."""

_SCRIPTS = (
    "policy.js",
    "htmx/htmx.min.js",
    "uplot/uPlot.iife.min.js",
    "basics.js",
    "theme.js",
    "console_chart.js",
    "filters.js",
    "chart_layers.js",
    "chart.js",
    "marks.js",
    "copying.js",
    "console_list.js",
    "console.js",
    "jobs.js",
)
_STYLES = ("uplot/uPlot.min.css", "report.css", "console.css", "jobs.css")


@dataclass(frozen=True, slots=True)
class Console:
    """The archive and the settings of one console.

    Attributes:
        who: ``user@host``, for the records that it writes.
        values: the options of verbs that the stack, or the user, gave, without ``--``:
            ``parked-queue-url``, ``main-queue-url``, ``dlq-url``, ``failure-table``; of a fleet
            ``queue-tag``, ``fifo-parked-queue-url`` and ``sweep-rule``.
        given: the options that the user gave, and ``archive`` likewise: commands with ``--stack``
            need them, too.
        place: the options for Region and profile; without a stack also that for none, where the
            environment names one.
        mask_words: the ``--mask`` options that the user gave, for commands that show messages.
        masks: hide texts on every page.
        on_glue: whether jobs run on the stack's AWS Glue job.
        fleet: what was read of the members of a fleet.
    """

    archive: Archive
    now: Callable[[], datetime]
    who: str
    jobs: Jobs
    stack: str | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)
    place: tuple[str, ...] = ()
    mask_words: tuple[str, ...] = ()
    masks: Masks = field(default_factory=lambda: compile_masks(()))
    is_unmasked: bool = False
    on_glue: bool = False
    fleet: FleetReading = field(default_factory=FleetReading)

    @property
    def failure_table(self) -> str | None:
        """The table in which returns are counted; None without one."""
        return self.values.get("failure-table")

    @property
    def queue_tag(self) -> str | None:
        """Of a fleet, the value of the tag that its members carry; else None."""
        return self.values.get("queue-tag")

    @property
    def parked_queue_urls(self) -> list[str]:
        """The URLs of the parked queues that are known: of a fleet two, where it has FIFO ones."""
        urls = map(self.values.get, ("parked-queue-url", "fifo-parked-queue-url"))
        return list(filter(None, urls))

    @property
    def queues_in_words(self) -> str:
        """The name of its main queue, or that it is a fleet; empty if neither is known."""
        if self.queue_tag:
            return f"fleet {TAG_KEY}={self.queue_tag}"
        return self.values.get("main-queue-url", "").rpartition("/")[2]

    def words(self, verb: str, *words: str) -> list[str]:
        """Return the words of a command that works on this archive, ``dlq`` first.

        It gets the queues and the table that its verb takes, unless the stack gives them.
        """
        values = self.given if self.stack else {**self.values, "archive": self.archive.root}
        options: dict[str, list[str]] = {}
        for name, value in values.items():
            options.setdefault(f"--{name.removeprefix('fifo-')}", []).append(value)
        stack = ("--stack", self.stack) if self.stack else ()
        return [PROGRAM, verb, *stack, *self.place, *option_words(verb, options), *words]

    def command(self, verb: str, *words: str) -> str:
        """Format a command for the reader to copy, quoted for a shell."""
        return " ".join(map(quoted, self.words(verb, *words)))


@dataclass(frozen=True, slots=True)
class Visit:
    """One request for a page."""

    request: Request

    @property
    def console(self) -> Console:
        """The console of the page."""
        console: Console = self.request.app.state.console
        return console

    @property
    def query(self) -> QueryParams:
        """The fields behind the ``?`` of the address."""
        return self.request.query_params

    @property
    def base(self) -> str:
        """Beginning of every path of this console."""
        return str(self.request.scope["root_path"])

    def address(self, path: str, **query: object) -> str:
        """Return an address of the console; empty fields of the query are left out.

        Half a pair of surrogates, which no address can hold, becomes a question mark.
        """
        fields = {name: value for name, value in query.items() if value not in (None, "")}
        address = quote(self.base + path, errors="replace")
        return f"{address}?{urlencode(fields, errors='replace')}" if fields else address

    def see_other(self, path: str, **query: str) -> Response:
        """Send the browser on after a form has done its work, so that a reload repeats nothing."""
        return RedirectResponse(self.address(path, **query), HTTPStatus.SEE_OTHER.value)

    @property
    def is_fragment(self) -> bool:
        """True if htmx asks, to put the answer into a page that is there."""
        return self.request.headers.get("hx-request") == "true"

    def fields(self, name: str) -> list[str]:
        """Return all values of a field of the form."""
        form: FormData = self.request.scope["form"]
        return [value for value in form.getlist(name) if isinstance(value, str)]

    def field(self, name: str) -> str:
        """Return the last value of a field of the form; empty where it is missing."""
        return (self.fields(name) or [""])[-1]

    def page(
        self,
        template: str,
        status: HTTPStatus = HTTPStatus.OK,
        **values: Any,  # noqa: ANN401
    ) -> Response:
        """Render a page, or a fragment: a template has these names, and the *values*."""
        names = {
            "console": self.console,
            "csrf": self.request.app.state.csrf,
            "base": self.base,
            "path": self.request.url.path,
            "query": self.query,
            "asset": partial(asset_address, self.base),
            "now": self.console.now(),
            "address": self.address,
        }
        content = environment().get_template(template).render(names | values)
        return HTMLResponse(content, status.value)

    def page_number(self, rows: int) -> tuple[int, int]:
        """Return the number of the wanted page of a list, from 1, and the number of pages."""
        pages = max(1, -(-rows // PAGE_ROWS))
        wanted = max(1, number_of(self.query.get("page", "")))
        return min(wanted, pages), pages


Handler = Callable[[Visit], Response]


def page_route(path: str, handler: Handler, *methods: str) -> Route:
    """Return a route whose *handler* runs in a thread. Without *methods* it answers GET.

    A ``JobError`` of the handler is shown as a page, or as a fragment, with its sentence.
    """

    def endpoint(request: Request) -> Response:
        visit = Visit(request)
        try:
            return handler(visit)
        except JobError as error:
            reason = str(error)
            status = HTTPStatus.UNPROCESSABLE_ENTITY
        except Exception:  # noqa: BLE001 - a fault of ours: the other pages go on
            traceback.print_exc()
            reason = "The console failed. The terminal in which it runs says why."
            status = HTTPStatus.INTERNAL_SERVER_ERROR

        template = "fault_part.html.jinja" if visit.is_fragment else "fault.html.jinja"
        return visit.page(template, status, why=reason)

    return Route(path, endpoint, methods=list(methods or ("GET",)))


def number_of(text: str, otherwise: int = 0) -> int:
    """Return the number in a field, of nine digits at most; *otherwise* if it has none."""
    is_number = text.isascii() and text.isdecimal() and len(text) < 10  # noqa: PLR2004
    return int(text) if is_number else otherwise


@cache
def environment() -> Environment:
    """Return the engine of the console's templates; the report's are found, too."""
    engine = report_page.make_environment(_PACKAGES)
    # Jinja's own raises for half a pair of surrogates.
    engine.filters["urlencode"] = partial(quote, errors="replace")
    return engine


@cache
def assets() -> Mapping[str, bytes]:
    """Return the files that pages load, by name."""
    return {
        "early.js": report_page.asset("early.js").encode(),
        "console.js": report_page.bundled(_SCRIPTS, _PACKAGES).encode(),
        "console.css": report_page.joined(_STYLES, _PACKAGES).encode(),
    }


def asset_address(base: str, name: str) -> str:
    """Return the address of an asset; it changes with its content."""
    digest = sha256(assets()[name]).hexdigest()[:16]
    return f"{base}{ASSETS}{name}?{digest}"


async def asset(request: Request) -> Response:
    """Answer with an asset. Raises HTTPException where there is none of this name."""
    name = request.path_params["name"]
    content = assets().get(name)
    if content is None:
        raise HTTPException(HTTPStatus.NOT_FOUND.value)
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    headers = {"cache-control": "private, max-age=31536000, immutable"}
    return Response(content, media_type=kind, headers=headers)
