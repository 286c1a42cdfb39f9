"""The options of the ``sqs`` format. A fault names every option that is wrong."""

from collections.abc import Callable, Iterator, Mapping
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


_Reader = Callable[[str], Any]


def peek_options(options: Mapping[str, str]) -> PeekOptions:
    """Read the options of ``spark.read.format("sqs")``.

    Raises:
        InputError: some are wrong, missing or unknown; the message lists all of them.
    """
    readers = {
        "queueurl": ("queueUrl", "queue_url", _queue_url),
        "limit": ("limit", "limit", _whole(1, 1_000_000)),
        "waitseconds": ("waitSeconds", "wait_seconds", _whole(0, 20)),
        "visibilitytimeoutseconds": (
            "visibilityTimeoutSeconds",
            "visibility_timeout_seconds",
            _whole(1, 43_200),
        ),
        "giveback": ("giveBack", "gives_back", _boolean),
    }
    return PeekOptions(**_read(options, readers))


def send_options(options: Mapping[str, str]) -> SendOptions:
    """Read the options of ``df.write.format("sqs")``.

    Raises:
        InputError: some are wrong, missing or unknown; the message lists all of them.
    """
    readers = {
        "queueurl": ("queueUrl", "queue_url", _queue_url),
        "attempts": ("attempts", "attempts", _whole(1, 10)),
    }
    return SendOptions(**_read(options, readers))


def _read(
    options: Mapping[str, str], readers: Mapping[str, tuple[str, str, _Reader]]
) -> dict[str, Any]:
    values: dict[str, Any] = {}
    faults = list(_faults(options, readers, values))
    if faults:
        raise InputError(
            "format sqs: the options have faults:\n" + "\n".join(f"  {one}" for one in faults)
        )
    return values


def _faults(
    options: Mapping[str, str],
    readers: Mapping[str, tuple[str, str, _Reader]],
    values: dict[str, Any],
) -> Iterator[str]:
    known = ", ".join(written_name for written_name, _, _ in readers.values())
    for name, text in options.items():
        # Names of options are case-insensitive in Spark.
        reader = readers.get(name.lower())
        if reader is None:
            yield f"{name}: is not known; known are {known}"
            continue
        written_name, field, read = reader
        try:
            values[field] = read(str(text))
        except ValueError as error:
            yield f"{written_name}: {text!r}: {error}"
    if not any(name.lower() == "queueurl" for name in options):
        yield "queueUrl: is missing; give the queue's URL"


def _queue_url(text: str) -> str:
    QueueAddress.from_url(text)
    return text


def _whole(least: int, most: int) -> _Reader:
    def read(text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or not least <= int(text) <= most:
            raise ValueError(f"must be a whole number from {least} to {most:,}")
        return int(text)

    return read


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("must be true or false")
    return text.lower() == "true"
