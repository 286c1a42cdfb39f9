"""Signature Version 4 of the few requests that are sent thousands of times. Pure.

botocore signs any request, and takes several times as long as these need, which differ in time,
target and body alone: docs/decisions/0003-direct-calls.md. Its signature is the same, to the byte.
"""

import hmac
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Protocol
from urllib.parse import quote, urlsplit

_ALGORITHM = "AWS4-HMAC-SHA256"
_DEFAULT_PORTS = {"http": 80, "https": 443}


class FrozenCredentials(Protocol):
    """A moment's credentials, as botocore has them; *token* is empty or None for lasting ones."""

    @property
    def access_key(self) -> str:
        """Names the secret."""

    @property
    def secret_key(self) -> str:
        """What only the owner and AWS know."""

    @property
    def token(self) -> str | None:
        """Of a session."""


def can_sign(url: str) -> bool:
    """Whether a ``Signer`` knows how *url* is signed: a plain path, and no query."""
    place = urlsplit(url)
    is_plain = "//" not in place.path and not {".", ".."}.intersection(place.path.split("/"))
    return is_plain and not place.query


class Signer:
    """Signs POSTs to SQS, as "Create a signed AWS API request" in the IAM User Guide says."""

    def __init__(self, url: str, region_name: str) -> None:
        """Work out what all requests share. See ``can_sign`` for *url*."""
        place = urlsplit(url)
        host = place.hostname or ""
        host = f"[{host}]" if ":" in host else host
        is_usual = place.port in (None, _DEFAULT_PORTS.get(place.scheme))
        self._host = host if is_usual else f"{host}:{place.port}"
        self._path = quote(place.path or "/", safe="/~")
        self._scope = f"{region_name}/sqs/aws4_request"
        self._known_key = ("", "", b"")

    def headers(
        self,
        own: Mapping[str, str],
        body: bytes,
        credentials: FrozenCredentials,
        now: datetime,
    ) -> dict[str, str]:
        """Return *own* with what makes them a signed request at *now*, which is UTC.

        Names are in lower case, and those in *own* must be; values have no blanks at either end.
        All of them are signed.
        """
        time = now.strftime("%Y%m%dT%H%M%SZ")
        fields = {**own, "host": self._host, "x-amz-date": time}
        if credentials.token:
            # Pasted tokens bring line ends along; AWS does not sign them.
            fields["x-amz-security-token"] = " ".join(credentials.token.split())
        names = sorted(fields)
        signed_names = ";".join(names)
        lines = [f"{name}:{fields[name]}" for name in names]
        request = "\n".join(
            ["POST", self._path, "", *lines, "", signed_names, sha256(body).hexdigest()]
        )
        scope = f"{time[:8]}/{self._scope}"
        text = f"{_ALGORITHM}\n{time}\n{scope}\n{sha256(request.encode()).hexdigest()}"
        key = self._key(credentials.secret_key, time[:8])
        fields["authorization"] = (
            f"{_ALGORITHM} Credential={credentials.access_key}/{scope}, "
            f"SignedHeaders={signed_names}, Signature={_hmac(key, text).hex()}"
        )
        return fields

    def _key(self, secret_key: str, date: str) -> bytes:
        """The key of a day; the last one is kept."""
        known_secret, known_date, key = self._known_key
        if (known_secret, known_date) != (secret_key, date):
            key = _hmac(f"AWS4{secret_key}".encode(), date)
            for part in self._scope.split("/"):
                key = _hmac(key, part)
            # One assignment: threads may come by here together.
            self._known_key = (secret_key, date, key)
        return key


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
