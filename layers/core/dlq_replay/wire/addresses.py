"""A queue's account and name, from its URL or its ARN. Pure."""

import re
from functools import lru_cache
from typing import NamedTuple, Self
from urllib.parse import urlsplit

_QUEUE_NAME = re.compile(r"(?=.{1,80}\Z)[A-Za-z0-9_-]+(\.fifo)?")
"""SQSAPI, CreateQueue: at most 80 characters, with the suffix of a FIFO queue."""


@lru_cache
def is_queue_name(text: str) -> bool:
    """Return whether SQS allows *text* as the name of a queue."""
    return _QUEUE_NAME.fullmatch(text) is not None


class QueueAddress(NamedTuple):
    """The account and name of a queue. Together they identify it within a Region.

    The Region is not a part: a DLQ and its sources are in the same Region, and the URLs of local
    endpoints do not name it.
    """

    account_id: str
    name: str

    @classmethod
    @lru_cache
    def from_url(cls, url: str) -> Self:
        """Read ``https://host/account/name``, with any host; raise ValueError for another form.

        The path may have a prefix, such as LocalStack's ``/queue/us-east-1``: account and name are
        the last two parts of the path. After a prefix the account must be a number.
        """
        parts = urlsplit(url)
        is_http = parts.scheme in {"http", "https"} and parts.netloc
        path = parts.path.strip("/").split("/")
        has_form = path[-2].isdecimal() if len(path) > 2 else len(path) == 2  # noqa: PLR2004
        if not is_http or not has_form:
            raise ValueError("must be a queue URL, https://<host>/<account id>/<queue name>")
        return cls(account_id=path[-2], name=path[-1])

    @classmethod
    @lru_cache
    def from_arn(cls, arn: str) -> Self:
        """Read ``arn:partition:sqs:region:account:name``; raise ValueError for another form."""
        match arn.split(":"):
            case ["arn", _, "sqs", _, account_id, name]:
                return cls(account_id, name)
        raise ValueError("must be a queue ARN, arn:<partition>:sqs:<region>:<account id>:<name>")

    def url_beside(self, url: str) -> str:
        """Return this queue's URL at the endpoint, and so in the Region, of the queue at *url*."""
        base, _, _ = url.rstrip("/").rsplit("/", 2)
        return f"{base}/{self.account_id}/{self.name}"

    @property
    def is_fifo(self) -> bool:
        """True if it is a FIFO queue: SQS reserves the suffix for them."""
        return self.name.endswith(".fifo")
