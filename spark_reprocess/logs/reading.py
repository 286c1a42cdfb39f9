"""Reads log events: from CloudWatch Logs, or from a file of exported events."""

import json
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from dlq_replay.aws.sqs import describe
from spark_reprocess.errors import InputError
from spark_reprocess.logs.events import LIMIT_MINUTES, LogEvent

_BYTES = 100_000_000
"""In a minute."""

_SECONDS_BETWEEN_CALLS = 0.5

LOGS_CONFIG = Config(retries={"mode": "standard", "total_max_attempts": 10})
"""Of the client: CloudWatch Logs throttles soon."""

Spans = Callable[[], Sequence[tuple[int, int]]]
"""Returns first and last times, epoch milliseconds, in order."""


@dataclass(slots=True)
class _Left:
    """What is left of a limit; *end* is a time of the clock."""

    end: float
    bytes: int


@dataclass(slots=True)
class LogReading:
    """Reads log groups, the oldest event first, at most two requests a second.

    Attributes:
        client: boto3's for CloudWatch Logs, with ``LOGS_CONFIG``.
        limit_minutes: of reading all, with 100 MB for each; and as much again for the spans.
        read_until_ms: where the limit ended the reading of all; None while it did not.
        spans_until_ms: the same of the spans.
    """

    client: Any
    limit_minutes: int = LIMIT_MINUTES
    sleep: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.monotonic
    read_until_ms: int | None = None
    spans_until_ms: int | None = None

    def read(
        self, groups: Iterable[str], first_ms: int, last_ms: int, spans: Spans = tuple
    ) -> Iterator[LogEvent]:
        """Yield the events of these times, group by group; beyond the limit those of *spans*.

        Raises:
            InputError: a log group does not exist, or may not be read.
        """
        of_all, of_spans = self._limit(), None
        for group in groups:
            try:
                until_ms = yield from self._span(group, first_ms, last_ms, of_all)
                if until_ms is None:
                    continue
                self.read_until_ms = min(until_ms, self.read_until_ms or until_ms)
                of_spans = of_spans or self._limit()
                for first, last in spans():
                    end_ms = yield from self._span(group, max(first, until_ms), last, of_spans)
                    if end_ms is not None:
                        self.spans_until_ms = min(end_ms, self.spans_until_ms or end_ms)
                        break
            except (ClientError, BotoCoreError) as error:
                raise InputError(
                    f"--logs {group}: {describe(error)}; check the name and the Region, and that "
                    "you may call logs:FilterLogEvents on it"
                ) from error

    def _limit(self) -> _Left:
        return _Left(self.clock() + 60 * self.limit_minutes, _BYTES * self.limit_minutes)

    def _span(
        self, group: str, first_ms: int, last_ms: int, left: _Left
    ) -> Generator[LogEvent, None, int | None]:
        """Yield the events of a span; return where the limit ended it, None if it did not."""
        if first_ms > last_ms:
            return None
        pages = self.client.get_paginator("filter_log_events").paginate(
            logGroupName=group, startTime=first_ms, endTime=last_ms + 1
        )
        until_ms = first_ms
        for page in pages:
            for event in page.get("events", ()):
                text, until_ms = event.get("message", ""), event.get("timestamp", until_ms)
                left.bytes -= len(text)
                yield LogEvent(group, event.get("logStreamName", ""), until_ms, text)
            if "nextToken" in page and (self.clock() > left.end or left.bytes < 0):
                return until_ms
            self.sleep(_SECONDS_BETWEEN_CALLS)
        return None


def exported_events(text: str, name: str) -> Iterator[LogEvent]:
    """Yield the events of a file: a JSON object a line, as FilterLogEvents returns them.

    Raises:
        InputError: a line is none.
    """
    for number, line in enumerate(text.splitlines(), 1):
        try:
            event = json.loads(line)
            stream = str(event.get("logStreamName", ""))
            yield LogEvent(name, stream, int(event["timestamp"]), str(event["message"]))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(
                f"--logs {name}: line {number} is no event with timestamp (epoch ms) and message"
            ) from error
