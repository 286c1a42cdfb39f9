"""The console's application: routes, and what stands before them."""

from http import HTTPStatus

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from dlq_cli.console.pages import group_pages, one_group_pages, work_pages
from dlq_cli.console.security import ASSETS, ENTRY, Security, Session
from dlq_cli.console.site import Console, asset, environment

MOST_CONNECTIONS = 100
"""At the same time: with more of them open, requests are refused. A browser makes six."""


def make_app(console: Console, session: Session) -> Starlette:
    """Make the application. *session* knows the port that it listens on."""

    async def enter(request: Request) -> Response:
        if not session.open(request.query_params.get("token", "")):
            return PlainTextResponse(
                "This address was used already, or it is not of this console. Stop the console "
                "with Ctrl-C and start it again: it prints a new one.\n",
                HTTPStatus.FORBIDDEN.value,
            )
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
            *work_pages.ROUTES,
        ],
        middleware=[Middleware(Security, session=session)],
    )
    app.state.console, app.state.csrf = console, session.csrf
    return app


def make_server(console: Console, session: Session) -> uvicorn.Server:
    """Make the server; it runs on a socket that listens on the session's port."""
    config = uvicorn.Config(
        make_app(console, session),
        http="h11",
        limit_concurrency=MOST_CONNECTIONS,
        log_level="warning",
        access_log=False,  # addresses hold ids of messages, and the token
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
    )
    return uvicorn.Server(config)
