"""The console's application: its routes and its middleware."""

import asyncio
from http import HTTPStatus

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from dlq.console.pages import find_page, fleet_page, group_pages, job_pages, one_group_pages
from dlq.console.security import ASSETS, ENTRY, Security, Session
from dlq.console.site import Console, Visit, asset, asset_address, environment

MOST_CONNECTIONS = 100
"""Connections at the same time; with more of them, requests are refused. A browser makes six."""

HEAD_SECONDS = 10.0
"""Time for the head of a request, from the connection or the last answer on. Without a limit, a
program that opens ``MOST_CONNECTIONS`` and sends nothing keeps all others out."""


class PromptProtocol(H11Protocol):
    """HTTP that closes a connection on which no request has begun in ``HEAD_SECONDS``.

    uvicorn has no such limit: its ``timeout_keep_alive`` begins after an answer, and ends with the
    first byte of the next request.
    """

    _head_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._wait_for_head()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        self._wait_for_head()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        super().connection_lost(exc)
        self._stop_waiting()

    def close_without_request(self) -> None:
        """Close the connection, unless a request is being answered."""
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if not is_answering:
            self.transport.close()

    def _wait_for_head(self) -> None:
        self._stop_waiting()
        self._head_timer = self.loop.call_later(HEAD_SECONDS, self.close_without_request)

    def _stop_waiting(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()


def refusal(request: Request, error: HTTPException) -> Response:
    """Answer a request that is refused: a browser with a page, all else with a line of text.

    Who knows the path of the console gets the page in its style.
    """
    if not _wants_page(request):
        return PlainTextResponse(f"{error.detail}\n", error.status_code)

    base = str(request.scope["root_path"])
    content = (
        environment()
        .get_template("refused.html.jinja")
        .render(
            heading=HTTPStatus(error.status_code).phrase,
            why=error.detail,
            stylesheet=asset_address(base, "console.css") if base else "",
        )
    )
    return HTMLResponse(content, error.status_code)


def _wants_page(request: Request) -> bool:
    headers = request.headers
    return "text/html" in headers.get("accept", "") and headers.get("hx-request") != "true"


def _not_there(request: Request, error: Exception) -> Response:
    """Answer a request with a session for which there is no page."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    why = HTTPStatus(status).phrase
    if not _wants_page(request):
        return PlainTextResponse(why, status)
    return Visit(request).page("fault.html.jinja", HTTPStatus(status), why=why)


def make_app(console: Console, session: Session) -> Starlette:
    """Make the application. *session* knows the port that it listens on."""

    async def enter(request: Request) -> Response:
        if not session.open(request.query_params.get("token", "")):
            why = (
                "This address was used already, or it is not of this console. Stop the console "
                "with Ctrl-C and start it again: it prints a new one."
            )
            return refusal(request, HTTPException(HTTPStatus.FORBIDDEN.value, why))
        # A page of ours, not a redirect: a browser that follows a redirect from another site's
        # link does not send a cookie that is SameSite=Strict.
        content = environment().get_template("entered.html.jinja").render(base=session.base)
        headers = {"set-cookie": session.set_cookie(), "referrer-policy": "no-referrer"}
        return HTMLResponse(content, headers=headers)

    app = Starlette(
        routes=[
            Route(ENTRY, enter),
            Route(f"{ASSETS}{{name}}", asset),
            *group_pages.ROUTES,
            *one_group_pages.ROUTES,
            *job_pages.ROUTES,
            *find_page.ROUTES,
            *fleet_page.ROUTES,
        ],
        middleware=[Middleware(Security, session=session, answer=refusal)],
        exception_handlers={HTTPException: _not_there},
    )
    app.state.console = console
    app.state.csrf = session.csrf
    return app


def make_server(console: Console, session: Session) -> uvicorn.Server:
    """Make the server; it runs on a socket that listens on the session's port."""
    config = uvicorn.Config(
        make_app(console, session),
        http=PromptProtocol,
        limit_concurrency=MOST_CONNECTIONS,
        log_level="warning",
        access_log=False,  # addresses hold ids of messages, and the token
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
    )
    return uvicorn.Server(config)
