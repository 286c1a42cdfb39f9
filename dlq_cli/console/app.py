"""The console's application: routes, and what stands before them."""

from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

from dlq_cli.console import edit_pages, group_pages, one_group_pages, work_pages
from dlq_cli.console.security import ASSETS, ENTRY, Security, Sessions
from dlq_cli.console.site import Console, asset_response, environment

PAGES = (
    *group_pages.ROUTES,
    *edit_pages.ROUTES,
    *one_group_pages.ROUTES,
    *work_pages.ROUTES,
)
"""The routes of all pages; each module of pages has its own."""


def make_app(console: Console, sessions: Sessions) -> Starlette:
    """Make the application. *sessions* knows the port that it listens on."""

    async def enter(request: Request) -> Response:
        session = sessions.exchange(request.query_params.get("token", ""))
        if session is None:
            return PlainTextResponse(
                "This address was used already, or it is not of this console. Stop the console "
                "with Ctrl-C and start it again: it prints a new one.\n",
                HTTPStatus.FORBIDDEN.value,
            )
        # A page of ours, not a redirect: a browser that follows a redirect from another site's
        # link does not send a cookie that is SameSite=Strict.
        content = environment().get_template("entered.html.jinja").render()
        headers = {"set-cookie": sessions.set_cookie(session), "referrer-policy": "no-referrer"}
        return HTMLResponse(content, headers=headers)

    async def asset(request: Request) -> Response:
        found = asset_response(request.path_params["name"])
        if found is None:
            raise HTTPException(HTTPStatus.NOT_FOUND.value)
        return found

    app = Starlette(
        routes=[
            Route(ENTRY, enter),
            Route(f"{ASSETS}{{name}}", asset),
            *PAGES,
        ],
        middleware=[Middleware(Security, sessions=sessions)],
    )
    app.state.console = console
    return app
