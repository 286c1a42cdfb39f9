"""Reads log events: from CloudWatch Logs, or from a file of exported events."""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from dlq_replay.aws.sqs import describe
from spark_reprocess.errors import InputError
from spark_reprocess.logs.events import LogEvent

LIMIT_BYTES = 1_000_000_000
LIMIT_SECONDS = 600
_SECONDS_BETWEEN_CALLS = 0.5

LOGS_CONFIG = Config(retries={"mode": "standard", "total_max_attempts": 10})
"""Of the client: CloudWatch Logs throttles soon."""


@dataclass(slots=True)
class LogReading:
    """Reads log groups, the oldest event first, at most two requests a second.

    Attributes:
        client: boto3's for CloudWatch Logs, with ``LOGS_CONFIG``.
        read_until_ms: where a limit ended the reading; None while none did.
    """

    client: Any
    sleep: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.monotonic
    bytes_left: int = LIMIT_BYTES
    read_until_ms: int | None = None

    def read(self, groups: Iterable[str], first_ms: int, last_ms: int) -> Iterator[LogEvent]:
        """Yield the events of these times, group by group.

        Raises:
            InputError: a log group does not exist, or may not be read.
        """
        end = self.clock() + LIMIT_SECONDS
        for group in groups:
            try:
                yield from self._group(group, first_ms, last_ms, end)
            except (ClientError, BotoCoreError) as error:
                raise InputError(
                    f"--logs {group}: {describe(error)}; check the name and the Region, and that "
                    "you may call logs:FilterLogEvents on it"
                ) from error

    def _group(self, group: str, first_ms: int, last_ms: int, end: float) -> Iterator[LogEvent]:
        until_ms = first_ms
        pages = self.client.get_paginator("filter_log_events").paginate(
            logGroupName=group, startTime=first_ms, endTime=last_ms + 1
        )
        for page in pages:
            for event in page.get("events", ()):
                text, until_ms = event.get("message", ""), event.get("timestamp", until_ms)
                self.bytes_left -= len(text)
                yield LogEvent(group, event.get("logStreamName", ""), until_ms, text)
            if "nextToken" in page and (self.clock() > end or self.bytes_left < 0):
                self.read_until_ms = min(until_ms, self.read_until_ms or until_ms)
                return
            self.sleep(_SECONDS_BETWEEN_CALLS)


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
