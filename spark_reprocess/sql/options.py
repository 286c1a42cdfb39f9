"""The options of the ``sqs`` format. A fault names every option that is wrong."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dlq_replay.addresses import QueueAddress
from spark_reprocess.errors import InputError


@dataclass(frozen=True, slots=True)
class PeekOptions:
    """Options of a read.

    Attributes:
        queue_url: the queue.
        limit: messages at most, at least 1.
        wait_seconds: of one long poll, 0 to 20.
        visibility_timeout_seconds: how long a message stays hidden from other consumers at most;
            1 to 43,200.
        gives_back: whether to make messages visible again when the read ends.
    """

    queue_url: str
    limit: int = 1000
    wait_seconds: int = 2
    visibility_timeout_seconds: int = 60
    gives_back: bool = True


@dataclass(frozen=True, slots=True)
class SendOptions:
    """Options of a write.

    Attributes:
        queue_url: the queue.
        attempts: how often an unconfirmed entry is sent in total, 1 to 10.
    """

    queue_url: str
    attempts: int = 3

    @property
    def is_fifo(self) -> bool:
        """Whether the queue is a FIFO queue."""
        return QueueAddress.from_url(self.queue_url).is_fifo


_Option = tuple[str, str, Callable[[str], object]]
"""An option's name, the field that it sets, and what reads its text; that raises ValueError."""


def peek_options(options: Mapping[str, str]) -> PeekOptions:
    """Read the options of ``spark.read.format("sqs")``.

    Raises:
        InputError: some are wrong, missing or unknown; the message lists all of them.
    """
    visibility = ("visibilityTimeoutSeconds", "visibility_timeout_seconds", _whole(1, 43_200))
    values = _read(
        options,
        ("queueUrl", "queue_url", _queue_url),
        ("limit", "limit", _whole(1, 1_000_000)),
        ("waitSeconds", "wait_seconds", _whole(0, 20)),
        visibility,
        ("giveBack", "gives_back", _boolean),
    )
    return PeekOptions(**values)


def send_options(options: Mapping[str, str]) -> SendOptions:
    """Read the options of ``df.write.format("sqs")``.

    Raises:
        InputError: some are wrong, missing or unknown; the message lists all of them.
    """
    attempts = ("attempts", "attempts", _whole(1, 10))
    return SendOptions(**_read(options, ("queueUrl", "queue_url", _queue_url), attempts))


def _read(options: Mapping[str, str], *known: _Option) -> dict[str, Any]:
    # Names of options are case-insensitive in Spark.
    by_name = {name.lower(): (name, field, read) for name, field, read in known}
    values: dict[str, Any] = {}
    faults: list[str] = []
    for given, text in options.items():
        if given.lower() not in by_name:
            names = ", ".join(name for name, _, _ in known)
            faults.append(f"{given}: is not known; known are {names}")
            continue
        name, field, read = by_name[given.lower()]
        try:
            values[field] = read(str(text))
        except ValueError as error:
            faults.append(f"{name}: {text!r}: {error}")
    if not any(given.lower() == "queueurl" for given in options):
        faults.append("queueUrl: is missing; give the queue's URL")
    if faults:
        lines = "\n".join(f"  {one}" for one in faults)
        raise InputError(f"format sqs: the options have faults:\n{lines}")
    return values


def _queue_url(text: str) -> str:
    QueueAddress.from_url(text)
    return text


def _whole(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or not least <= int(text) <= most:
            raise ValueError(f"must be a whole number from {least} to {most:,}")
        return int(text)

    return read


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.lower() == "true"
