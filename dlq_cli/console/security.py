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
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
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

    def find(self, cookies: Iterable[str]) -> Session | None:
        """Return the session that the ``Cookie`` headers name."""
        for header in cookies:
            try:
                morsel = SimpleCookie(header).get(self.cookie)
            except CookieError:
                continue
            if morsel is not None:
                found = (one for key, one in self._by_key.items() if _same(key, morsel.value))
                return next(found, None)
        return None

    def set_cookie(self, session: Session) -> str:
        """Return the value of ``Set-Cookie`` for a session; it ends with the browser's."""
        return f"{self.cookie}={session.key}; HttpOnly; SameSite=Strict; Path=/"


@dataclass(frozen=True, slots=True)
class Refusal(Exception):  # noqa: N818 - it is an answer, not a fault of ours
    """A request that is answered with nothing but why it is refused."""

    status: HTTPStatus
    why: str


class Security:
    """ASGI middleware: lets a request through, with its session in ``scope["session"]``, or not."""

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
            receive = await self._checked(scope, receive)
        except Refusal as refusal:
            await _refuse(refusal, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    async def _checked(self, scope: Scope, receive: Receive) -> Receive:
        """Check a request; return what its body is read from. Raises Refusal."""
        headers, sessions = Headers(scope=scope), self._sessions
        is_safe = scope["method"] in ("GET", "HEAD")
        if headers.getlist("host") not in [[one] for one in sessions.hosts]:
            raise Refusal(HTTPStatus.MISDIRECTED_REQUEST, "This address is not the console's.")
        site = headers.get("sec-fetch-site", "none")
        follows_a_link = is_safe and headers.get("sec-fetch-mode") == "navigate"
        if site not in ("none", "same-origin") and not follows_a_link:
            raise Refusal(HTTPStatus.FORBIDDEN, "Another site asked for this.")
        if not is_safe and headers.getlist("origin") != [f"http://{headers['host']}"]:
            raise Refusal(HTTPStatus.FORBIDDEN, "This did not come from a page of the console.")
        session = sessions.find(headers.getlist("cookie"))
        scope["session"] = session
        if is_safe and (scope["path"] == ENTRY or scope["path"].startswith(ASSETS)):
            return receive
        if session is None:
            raise Refusal(
                HTTPStatus.FORBIDDEN,
                "No session. Open the address that `dlq console` printed. Each address works once: "
                "if it was used, stop that console with Ctrl-C and start it again.",
            )
        if is_safe:
            return receive
        return await _with_csrf_token(headers, receive, session)


async def _with_csrf_token(headers: Headers, receive: Receive, session: Session) -> Receive:
    if headers.get("content-type", "").split(";")[0].strip().lower() != _FORM:
        raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"A form must be {_FORM}.")
    body = await _body(receive)
    given = headers.get(CSRF_HEADER) or _field(body)
    if not _same(given, session.csrf):
        raise Refusal(
            HTTPStatus.FORBIDDEN,
            "This form is not of this session. Open its page again, then send it.",
        )

    async def replay() -> Message:
        nonlocal body
        if body is None:
            return await receive()
        message = {"type": "http.request", "body": body, "more_body": False}
        body = None
        return message

    return replay


async def _body(receive: Receive) -> bytes | None:
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise Refusal(HTTPStatus.BAD_REQUEST, "The request ended too early.")
        parts.append(message.get("body", b""))
        if sum(map(len, parts)) > MOST_BODY_BYTES:
            raise Refusal(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"A form has {MOST_BODY_BYTES:,} bytes at most.",
            )
        if not message.get("more_body"):
            return b"".join(parts)


def _field(body: bytes | None) -> str:
    try:
        fields = parse_qs((body or b"").decode("ascii"), max_num_fields=_MOST_FIELDS)
    except ValueError as error:
        raise Refusal(HTTPStatus.BAD_REQUEST, "The form cannot be read.") from error
    return fields.get(CSRF_FIELD, [""])[0]


def _same(one: str, other: str) -> bool:
    return secrets.compare_digest(one.encode("utf-8", "replace"), other.encode())


async def _refuse(refusal: Refusal, send: Send) -> None:
    content = f"{refusal.why}\n".encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(content)).encode()),
    ]
    await send({"type": "http.response.start", "status": refusal.status.value, "headers": headers})
    await send({"type": "http.response.body", "body": content})
