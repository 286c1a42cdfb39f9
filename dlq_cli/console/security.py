"""Who may use the console: checks of every request, and headers of every answer. No other I/O.

The console listens on the loopback interface, where every program and every web page of this
machine can reach it. So, in this order:

1. **Host** must be ours. A name that an attacker points to 127.0.0.1 (DNS rebinding) is refused.
2. **Sec-Fetch-Site**, where the browser sends it, must not say that another site asks; only to
   follow a link is allowed.
3. **Origin** of every request that may change anything must be ours, and must be there.
4. **Session**: the one-time token of the printed address is exchanged once for a cookie. The cookie
   is for this host alone, not readable by scripts, and never sent with requests of other sites. Its
   name has the port, because browsers do not separate cookies by port.
5. **CSRF token**: bound to the session; a header of htmx, or a field of the form.

The referrer policy is ``same-origin``, not ``no-referrer``: with the latter browsers send
``Origin: null`` with our own forms. Other sites get no referrer from either.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from starlette.datastructures import FormData, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ENTRY = "/open"
"""The path of the printed address."""

ASSETS = "/assets/"
"""Files of the package: everybody has them, so no session is needed."""

CSRF_FIELD = "csrf"
CSRF_HEADER = "x-csrf-token"

MOST_BODY_BYTES = 1024 * 1024
_FORM = "application/x-www-form-urlencoded"
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
"""Of every answer."""


@dataclass(frozen=True, slots=True)
class Session:
    """One browser that has exchanged the token.

    Attributes:
        key: the cookie's value.
        csrf: the token that each of its forms carries.
    """

    key: str
    csrf: str


@dataclass(slots=True)
class Sessions:
    """The sessions of one console, and the token that is not used yet.

    Attributes:
        port: that the console listens on.
        token: of the printed address; None once it was exchanged.
    """

    port: int
    token: str | None = field(default_factory=lambda: secrets.token_urlsafe(32))
    _by_key: dict[str, Session] = field(default_factory=dict)

    @property
    def cookie(self) -> str:
        """The cookie's name."""
        return f"dlq-console-{self.port}"

    @property
    def hosts(self) -> tuple[str, ...]:
        """The values of ``Host`` that are ours."""
        return (f"127.0.0.1:{self.port}", f"localhost:{self.port}")

    def address(self) -> str:
        """Return the address to print."""
        return f"http://127.0.0.1:{self.port}{ENTRY}?token={self.token}"

    def exchange(self, token: str) -> Session | None:
        """Return a new session for the token, which is dead then; None for another token."""
        if self.token is None or not _same(token, self.token):
            return None
        self.token = None
        session = Session(secrets.token_urlsafe(32), secrets.token_urlsafe(32))
        self._by_key[session.key] = session
        return session

    def find(self, cookies: Mapping[str, str]) -> Session | None:
        """Return the session that the cookies name."""
        given = cookies.get(self.cookie, "")
        return next((one for key, one in self._by_key.items() if _same(key, given)), None)

    def set_cookie(self, session: Session) -> str:
        """Return the value of ``Set-Cookie`` for a session; it ends with the browser's."""
        return f"{self.cookie}={session.key}; HttpOnly; SameSite=Strict; Path=/"


class Security:
    """ASGI middleware: lets a request through, or answers it with nothing but why not.

    What it lets through has its session in ``scope["session"]``, and its form in ``scope["form"]``:
    the body is read here, once.
    """

    def __init__(self, app: ASGIApp, sessions: Sessions) -> None:
        self._app = app
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            # There is no websocket here; whoever asks for one gets no answer.
            await send({"type": "websocket.close", "code": 1008})
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
                headers.setdefault("referrer-policy", "same-origin")
            await send(message)

        try:
            await self._check(Request(scope, _bounded(receive)))
        except HTTPException as refusal:
            answer = PlainTextResponse(f"{refusal.detail}\n", refusal.status_code)
            await answer(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    async def _check(self, request: Request) -> None:
        """Check a request; put session and form into its scope. Raises HTTPException."""
        headers, sessions, path = request.headers, self._sessions, request.scope["path"]
        is_safe = request.method in ("GET", "HEAD")
        if headers.getlist("host") not in [[one] for one in sessions.hosts]:
            raise _refusal(HTTPStatus.MISDIRECTED_REQUEST, "This address is not the console's.")
        site = headers.get("sec-fetch-site", "none")
        follows_a_link = is_safe and headers.get("sec-fetch-mode") == "navigate"
        if site not in ("none", "same-origin") and not follows_a_link:
            raise _refusal(HTTPStatus.FORBIDDEN, "Another site asked for this.")
        if not is_safe and headers.getlist("origin") != [f"http://{headers['host']}"]:
            raise _refusal(HTTPStatus.FORBIDDEN, "This did not come from a page of the console.")
        session = sessions.find(request.cookies)
        request.scope.update(session=session, form=FormData())
        if is_safe and (path == ENTRY or path.startswith(ASSETS)):
            return
        if session is None:
            raise _refusal(
                HTTPStatus.FORBIDDEN,
                "No session. Open the address that `dlq console` printed. Each address works once: "
                "if it was used, stop that console with Ctrl-C and start it again.",
            )
        if not is_safe:
            request.scope["form"] = await _form_of(request, session)


async def _form_of(request: Request, session: Session) -> FormData:
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != _FORM:
        raise _refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"A form must be {_FORM}.")
    try:
        form = await request.form(max_fields=_MOST_FIELDS)
    except ClientDisconnect as error:
        raise _refusal(HTTPStatus.BAD_REQUEST, "The request ended too early.") from error
    if not _same(request.headers.get(CSRF_HEADER) or str(form.get(CSRF_FIELD, "")), session.csrf):
        raise _refusal(
            HTTPStatus.FORBIDDEN,
            "This form is not of this session. Open its page again, then send it.",
        )
    return form


def _bounded(receive: Receive) -> Receive:
    """Return a *receive* that raises HTTPException once a body is too long."""
    length = 0

    async def receive_bounded() -> Message:
        nonlocal length
        message = await receive()
        length += len(message.get("body", b""))
        if length > MOST_BODY_BYTES:
            why = f"A form has {MOST_BODY_BYTES:,} bytes at most."
            raise _refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, why)
        return message

    return receive_bounded


def _same(one: str, other: str) -> bool:
    return secrets.compare_digest(one.encode("utf-8", "replace"), other.encode())


def _refusal(status: HTTPStatus, why: str) -> HTTPException:
    return HTTPException(status.value, why)
