"""Reads log events: from CloudWatch Logs, or from a file of exported events."""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from dlq_replay.sqs import describe
from spark_reprocess.errors import InputError
from spark_reprocess.logs.events import LogEvent

LIMIT_BYTES = 1_000_000_000
LIMIT_SECONDS = 600
_SECONDS_BETWEEN_CALLS = 0.5
_THROTTLED = ("ThrottlingException", "LimitExceededException", "ServiceUnavailableException")


@dataclass(slots=True)
class LogReading:
    """Reads log groups, the oldest event first, at most two requests a second.

    Attributes:
        client: boto3's for CloudWatch Logs.
        events: how many were read.
        size_bytes: of their texts.
        read_until_ms: where a limit ended the reading of a log group; None for none.
    """

    client: Any
    sleep: Callable[[float], object] = time.sleep
    clock: Callable[[], float] = time.monotonic
    limit_bytes: int = LIMIT_BYTES
    events: int = 0
    size_bytes: int = 0
    read_until_ms: int | None = None

    def read(self, groups: Iterable[str], first_ms: int, last_ms: int) -> Iterator[LogEvent]:
        """Yield the events of these times, group by group. A throttled call is repeated.

        Raises:
            InputError: a log group does not exist, or may not be read.
        """
        end = self.clock() + LIMIT_SECONDS
        for group in groups:
            wanted: dict[str, Any] = {"startTime": first_ms, "endTime": last_ms + 1}
            wanted["logGroupName"] = group
            until_ms = first_ms
            while True:
                if self.clock() > end or self.size_bytes > self.limit_bytes:
                    self.read_until_ms = min(until_ms, self.read_until_ms or until_ms)
                    break
                began = self.clock()
                answer = self._page(group, wanted)
                for event in answer.get("events", ()):
                    text, until_ms = event.get("message", ""), event.get("timestamp", until_ms)
                    self.events += 1
                    self.size_bytes += len(text)
                    yield LogEvent(group, event.get("logStreamName", ""), until_ms, text)
                if answer and "nextToken" not in answer:
                    break
                wanted["nextToken"] = answer.get("nextToken", wanted.get("nextToken"))
                if wanted["nextToken"] is None:
                    del wanted["nextToken"]
                self.sleep(max(0.0, began + _SECONDS_BETWEEN_CALLS - self.clock()))

    def _page(self, group: str, wanted: dict[str, Any]) -> dict[str, Any]:
        """Return an answer; an empty one where it was throttled."""
        try:
            return dict(self.client.filter_log_events(**wanted))
        except ClientError as error:
            code = error.response.get("Error", {}).get("Code", "")
            if code in _THROTTLED:
                return {}
            if code == "ResourceNotFoundException":
                raise InputError(
                    f"--logs {group}: no such log group in this account and Region"
                ) from error
            raise InputError(
                f"--logs {group}: {describe(error)}; you need logs:FilterLogEvents on it"
            ) from error
        except BotoCoreError as error:
            raise InputError(f"--logs {group}: {describe(error)}") from error


def is_file(location: str) -> bool:
    """Whether *location* names a file of events, not a log group."""
    return location.endswith(".jsonl")


def exported_events(text: str, name: str) -> Iterator[LogEvent]:
    """Yield the events of a file: a JSON object a line, as FilterLogEvents returns them.

    Raises:
        InputError: a line is none.
    """
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
            stream = str(event.get("logStreamName", ""))
            yield LogEvent(name, stream, int(event["timestamp"]), str(event["message"]))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(
                f"--logs {name}: line {number} is no event with timestamp (epoch ms) and message"
            ) from error
