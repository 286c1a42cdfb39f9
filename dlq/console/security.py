"""Access to the console: checks of every request, headers of every answer. No other I/O.

The console listens on the loopback interface, where every program and every web page of this
machine can reach it. So, in this order:

1. **Host** must be ours. A name that an attacker points to 127.0.0.1 (DNS rebinding) is refused.
2. **Sec-Fetch-Site**, where the browser sends it, must not say that another site asks; only to
   follow a link is allowed.
3. **Origin** of every request that may change anything must be ours, and must be there.
4. **Path**: but for the printed address, everything is below a random path; elsewhere is nothing.
   Browsers send cookies to every port of a host. Other servers of this machine do not get ours,
   because they do not know its path.
5. **Session**: the one-time token of the printed address is exchanged once for a cookie. The cookie
   is for this host and path alone, not readable by scripts, and never sent with requests of other
   sites. A second cookie of its name is of another server: then neither counts.
6. **CSRF token**: bound to the session; a header of htmx, or a field of the form.

The referrer policy is ``same-origin``, not ``no-referrer``: with the latter browsers send
``Origin: null`` with our own forms. Other sites get no referrer from either.
"""

import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus

from starlette.datastructures import FormData, Headers, MutableHeaders
from starlette.exceptions import HTTPException as Refusal
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ENTRY = "/open"
"""The path of the printed address, the only one that is not below ``Sessions.base``."""

ASSETS = "/assets/"
"""Files of the package: everybody has them, so no session is needed."""

_MOST_FIELDS = 10_000

_POLICY = (
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "form-action 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    # htmx parses the fragments that it got. The one policy, of assets/policy.js, lets it parse
    # exactly those texts, and lets nothing become a script.
    "require-trusted-types-for 'script'",
    "trusted-types default",
)
HEADERS: Mapping[str, str] = {
    "content-security-policy": "; ".join(_POLICY),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-embedder-policy": "require-corp",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), payment=(), usb=()",
}
"""Headers of every answer."""


Answer = Callable[[Request, Refusal], Response]
"""Makes the answer to a request that is refused. ``root_path`` is that of who knows the path."""


@dataclass(slots=True)
class Session:
    """The one session of a console, for the browser that opens an address first.

    Attributes:
        base: the beginning of every path but ``ENTRY``; nobody can guess it.
        cookie, key: the cookie's name and value.
        csrf: the token that each form carries.
        is_open: set once a browser has exchanged a token.
    """

    port: int
    base: str = field(default_factory=lambda: f"/{secrets.token_hex(16)}")
    cookie: str = field(default_factory=lambda: f"dlq-console-{secrets.token_hex(8)}")
    key: str = field(default_factory=partial(secrets.token_urlsafe, 32))
    csrf: str = field(default_factory=partial(secrets.token_urlsafe, 32))
    is_open: threading.Event = field(default_factory=threading.Event)
    _token: str = field(default_factory=partial(secrets.token_urlsafe, 32))

    @property
    def hosts(self) -> tuple[str, ...]:
        """The values of a ``Host`` header that are ours."""
        return (f"127.0.0.1:{self.port}", f"localhost:{self.port}")

    @property
    def address(self) -> str:
        """The address that opens the session, once."""
        return f"http://127.0.0.1:{self.port}{ENTRY}?token={self._token}"

    def open(self, token: str) -> bool:
        """Open the session if this is its token, and nobody has opened it before."""
        if self.is_open.is_set() or not _same(token, self._token):
            return False
        self.is_open.set()
        return True

    def admits(self, headers: Headers) -> bool:
        """Return whether the one cookie of our name is that of the open session."""
        keys: list[str] = []
        for cookie in ";".join(headers.getlist("cookie")).split(";"):
            name, _, value = cookie.strip().partition("=")
            if name == self.cookie:
                keys.append(value)
        return self.is_open.is_set() and len(keys) == 1 and _same(keys[0], self.key)

    def set_cookie(self) -> str:
        """Return the value of ``Set-Cookie``; the cookie ends with the browser's session."""
        return f"{self.cookie}={self.key}; HttpOnly; SameSite=Strict; Path={self.base}"


class Security:
    """ASGI middleware: passes a request on, or answers it with the reason why not.

    The form of a request that it passes on is in ``scope["form"]``: the body is read here, once.
    """

    def __init__(self, app: ASGIApp, session: Session, answer: Answer) -> None:
        self._app = app
        self._answer = answer
        self._session = session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
                headers.setdefault("referrer-policy", "same-origin")
            await send(message)

        request = Request(scope, receive)
        try:
            await self._check(request)
        except Refusal as refusal:
            await self._answer(request, refusal)(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    async def _check(self, request: Request) -> None:
        """Check a request; put the form into its scope. Raises ``HTTPException``."""
        session = self._session
        headers = request.headers
        path = request.scope["path"]
        is_safe = request.method in ("GET", "HEAD")

        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0] not in session.hosts:
            raise Refusal(HTTPStatus.MISDIRECTED_REQUEST, "This address is not the console's.")

        base = f"{session.base}/"
        if path != ENTRY and not _same(path[: len(base)], base):
            raise Refusal(HTTPStatus.NOT_FOUND, "Nothing is here.")

        site = headers.get("sec-fetch-site", "none")
        follows_a_link = is_safe and headers.get("sec-fetch-mode") == "navigate"
        if site not in ("none", "same-origin") and not follows_a_link:
            raise Refusal(HTTPStatus.FORBIDDEN, "Another site asked for this.")

        if not is_safe and headers.getlist("origin") != [f"http://{headers['host']}"]:
            raise Refusal(HTTPStatus.FORBIDDEN, "This did not come from a page of the console.")

        if path == ENTRY:
            # A program that only previews a link must not use the token up.
            if request.method != "GET" or headers.get("sec-fetch-mode", "navigate") != "navigate":
                raise Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "Open this address in a browser.")
            return

        request.scope.update(root_path=session.base, form=FormData())
        if is_safe and path.startswith(f"{session.base}{ASSETS}"):
            return
        if not session.admits(headers):
            raise Refusal(
                HTTPStatus.FORBIDDEN,
                "No session. Open the address that `dlq console` printed. Each address works once: "
                "if it was used, stop that console with Ctrl-C and start it again.",
            )

        if not is_safe:
            request.scope["form"] = await _form_of(request, session.csrf)


async def _form_of(request: Request, csrf: str) -> FormData:
    form = await request.form(max_fields=_MOST_FIELDS)
    token = request.headers.get("x-csrf-token") or str(form.get("csrf", ""))
    if not _same(token, csrf):
        raise Refusal(
            HTTPStatus.FORBIDDEN,
            "This form is not of this session. Open its page again, then send it.",
        )
    return form


def _same(given: str, secret: str) -> bool:
    """Compare in constant time."""
    return secrets.compare_digest(given.encode("utf-8", "replace"), secret.encode())
