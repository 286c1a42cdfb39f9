"""Read log events: from CloudWatch Logs, or from a file of exported events."""

import json
import pickle
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from dlq.errors import InputError
from dlq.explain.logs.events import LIMIT_MINUTES, LogEvent
from dlq_replay.aws.sqs import describe

_BYTES = 100_000_000
"""Limit for each minute of the time limit."""

_SECONDS_BETWEEN_CALLS = 0.5

_EARLIEST_MS = 1_704_067_200_000
"""1 January 2024: CloudWatch Logs refuses to read backwards to before it."""

LOGS_CONFIG = Config(retries={"mode": "standard", "total_max_attempts": 10})
"""Configuration of the client: CloudWatch Logs throttles soon."""

Spans = Callable[[], Sequence[tuple[int, int]]]
"""Returns first and last times, epoch milliseconds, in order."""


@dataclass(slots=True)
class _Left:
    """The rest of a limit; *end* is a time of the clock."""

    end: float
    bytes: int


def reads_backwards(client: Any) -> bool:  # noqa: ANN401 - boto3 makes the type at run time
    """Return whether this version of boto3 can ask CloudWatch Logs for the newest events first."""
    operation = client.meta.service_model.operation_model("FilterLogEvents")
    return "startFromHead" in operation.input_shape.members


@dataclass(slots=True)
class LogReading:
    """Reads log groups within a limit, at most two requests a second.

    The newest events are read first, since most people ask about the last hours. They are yielded
    in the order of time: until a limit or the first time is reached, they wait in an unnamed file.

    Attributes:
        client: boto3's for CloudWatch Logs, with ``LOGS_CONFIG``.
        limit_minutes: of reading all, with 100 MB for each; and as much again for the spans.
        newest_first: False reads the oldest events first, for a client that cannot read backwards.
        reached_ms: the time at which the limit ended the reading of all; None while it did not.
        spans_reached_ms: the same of the spans.
    """

    client: Any
    limit_minutes: int = LIMIT_MINUTES
    newest_first: bool = True
    sleep: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.monotonic
    reached_ms: int | None = None
    spans_reached_ms: int | None = None

    def read(
        self, groups: Iterable[str], first_ms: int, last_ms: int, spans: Spans = tuple
    ) -> Iterator[LogEvent]:
        """Yield the events of these times, group by group; beyond the limit those of *spans*.

        Raises:
            InputError: a log group does not exist, or may not be read.
        """
        left_for_all = self._limit()
        left_for_spans: _Left | None = None
        for group in groups:
            try:
                reached_ms = yield from self._span(group, first_ms, last_ms, left_for_all)
                if reached_ms is None:
                    continue
                self.reached_ms = self._nearer(self.reached_ms, reached_ms)

                left_for_spans = left_for_spans or self._limit()
                spans_reached_ms = yield from self._spans(
                    group, spans(), reached_ms, left_for_spans
                )
                if spans_reached_ms is not None:
                    self.spans_reached_ms = self._nearer(self.spans_reached_ms, spans_reached_ms)
            except (ClientError, BotoCoreError) as error:
                raise InputError(
                    f"--logs {group}: {describe(error)}; check the name and the Region, and that "
                    "you may call logs:FilterLogEvents on it"
                ) from error

    def _limit(self) -> _Left:
        return _Left(
            end=self.clock() + 60 * self.limit_minutes,
            bytes=_BYTES * self.limit_minutes,
        )

    def _nearer(self, former_ms: int | None, reached_ms: int) -> int:
        """Return the time up to which all log groups were read."""
        if former_ms is None:
            return reached_ms
        return max(former_ms, reached_ms) if self.newest_first else min(former_ms, reached_ms)

    def _spans(
        self, group: str, spans: Sequence[tuple[int, int]], reached_ms: int, left: _Left
    ) -> Generator[LogEvent, None, int | None]:
        """Yield events of *spans* that the reading of all did not reach; return as ``_span``."""
        in_order = reversed(spans) if self.newest_first else spans
        for first_ms, last_ms in in_order:
            if self.newest_first:
                end_ms = yield from self._span(group, first_ms, min(last_ms, reached_ms), left)
            else:
                end_ms = yield from self._span(group, max(first_ms, reached_ms), last_ms, left)
            if end_ms is not None:
                return end_ms
        return None

    def _span(
        self, group: str, first_ms: int, last_ms: int, left: _Left
    ) -> Generator[LogEvent, None, int | None]:
        """Yield the events of a span; return where the limit ended it, None if it did not."""
        if self.newest_first:
            first_ms = max(first_ms, _EARLIEST_MS)
        if first_ms > last_ms:
            return None
        direction = {"startFromHead": False} if self.newest_first else {}
        pages = self.client.get_paginator("filter_log_events").paginate(
            logGroupName=group, startTime=first_ms, endTime=last_ms + 1, **direction
        )

        reached_ms = last_ms if self.newest_first else first_ms
        ended_at_ms = None
        with tempfile.TemporaryFile() as waiting:
            offsets = []
            for page in pages:
                events = []
                for event in page.get("events", ()):
                    reached_ms = event.get("timestamp", reached_ms)
                    stream = event.get("logStreamName", "")
                    message = event.get("message", "")
                    left.bytes -= len(message)
                    events.append(LogEvent(group, stream, reached_ms, message))

                if self.newest_first:
                    offsets.append(waiting.tell())
                    pickle.dump(events, waiting)
                else:
                    yield from events

                if "nextToken" in page and (self.clock() > left.end or left.bytes < 0):
                    ended_at_ms = reached_ms
                    break
                self.sleep(_SECONDS_BETWEEN_CALLS)

            for offset in reversed(offsets):
                waiting.seek(offset)
                newest_first: list[LogEvent] = pickle.load(waiting)  # noqa: S301 - written above
                yield from reversed(newest_first)
        return ended_at_ms


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
