from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from dlq.errors import InputError
from dlq.explain.logs import log_reading
from dlq.explain.logs.events import LIMIT_MINUTES
from dlq.explain.logs.log_reading import LogReading, exported_events, reads_backwards

_EVENT = '{"logStreamName": "s", "timestamp": 7, "message": "m"}'


_FROM_MS = 1_795_000_000_000
"""The first time that is asked for."""


class FakeLogs:
    """CloudWatch Logs with stubbed answers, and a clock; each call takes half of the limit."""

    def __init__(self) -> None:
        self.client = boto3.client("logs", region_name="eu-west-1")
        self.answers = Stubber(self.client)
        self.answers.activate()
        self.sleeps: list[float] = []
        self.seconds = 0.0

    def page(
        self, group: str, *times_ms: int, asked: str | None = None, token: str | None = None
    ) -> None:
        """Answer a call for *group* with the token *asked*, and name *token* for the next one."""
        events = []
        for time_ms in times_ms:
            event = {"logStreamName": "s", "timestamp": _FROM_MS + time_ms, "message": "text"}
            events.append(event)

        wanted: dict[str, Any] = {
            "logGroupName": group,
            "startTime": _FROM_MS,
            "endTime": _FROM_MS + 10,
            "startFromHead": False,
        }
        wanted |= {"nextToken": asked} if asked else {}
        answer = {"events": events, **({"nextToken": token} if token else {})}
        self.answers.add_response("filter_log_events", answer, wanted)

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.seconds += LIMIT_MINUTES * 60 / 2

    def read(self, *groups: str) -> tuple[list[tuple[str, int]], int | None]:
        """Return the events, and where a limit ended the reading."""
        reading = LogReading(self.client, sleep=self.sleep, clock=lambda: self.seconds)
        events = []
        for event in reading.read(groups, _FROM_MS, _FROM_MS + 9):
            events.append((event.group, event.time_ms - _FROM_MS))

        reached_ms = reading.reached_ms
        return events, None if reached_ms is None else reached_ms - _FROM_MS


def test_this_boto3_reads_backwards() -> None:
    assert reads_backwards(boto3.client("logs", region_name="eu-west-1"))


def test_every_page_is_read_twice_a_second_and_what_was_read_last_comes_first() -> None:
    logs = FakeLogs()
    logs.page("g", 6, 5, token="a")
    logs.page("g", asked="a", token="b")
    logs.page("g", 2, 1, asked="b")
    logs.page("h", 3)

    events, reached_ms = logs.read("g", "h")

    assert (events, reached_ms) == ([("g", 1), ("g", 2), ("g", 5), ("g", 6), ("h", 3)], None)
    assert logs.sleeps == [0.5] * 4


def test_a_limit_of_time_ends_with_the_oldest_time_that_was_reached() -> None:
    logs = FakeLogs()
    for asked, token, time_ms in ((None, "a", 9), ("a", "b", 8), ("b", "c", 7), ("c", "d", 6)):
        logs.page("g", time_ms, asked=asked, token=token)

    assert logs.read("g") == ([("g", 6), ("g", 7), ("g", 8), ("g", 9)], 6)


def test_a_limit_of_size_ends_with_the_oldest_time_that_was_reached(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logs = FakeLogs()
    monkeypatch.setattr(log_reading, "_BYTES", 1)
    logs.page("g", 9, 8, 8, token="a")

    assert logs.read("g") == ([("g", 8), ("g", 8), ("g", 9)], 8)


@pytest.mark.parametrize(
    ("code", "part"),
    [
        ("ResourceNotFoundException", "check the name"),
        ("AccessDeniedException", "logs:FilterLogEvents"),
    ],
)
def test_a_log_group_that_is_not_there_or_denied_is_named(code: str, part: str) -> None:
    logs = FakeLogs()
    logs.answers.add_client_error("filter_log_events", code)

    with pytest.raises(InputError, match=f"/shop/orders: .*{part}"):
        logs.read("/shop/orders")


def test_a_file_has_an_event_on_each_line() -> None:
    [event] = exported_events(f"{_EVENT}\n", "f.jsonl")

    assert (event.group, event.stream, event.time_ms, event.text) == ("f.jsonl", "s", 7, "m")


@pytest.mark.parametrize("line", ["no JSON", '{"message": "x"}', "[]", '{"timestamp": 1}'])
def test_a_line_that_is_no_event_is_named(line: str) -> None:
    with pytest.raises(InputError, match="line 2 is no event"):
        list(exported_events(f"{_EVENT}\n{line}", "f.jsonl"))


@dataclass
class _Log:
    """CloudWatch Logs with an event a minute, one in each page; *spans* are those asked for."""

    minutes: int
    spans: list[tuple[int, int]] = field(default_factory=list)
    passed_seconds: float = 0

    def get_paginator(self, _: str) -> "_Log":
        return self

    def paginate(
        self,
        *,
        startTime: int,  # noqa: N803
        endTime: int,  # noqa: N803
        startFromHead: bool = True,  # noqa: N803
        **_: str,
    ) -> Iterator[Any]:
        self.spans.append((_minutes(startTime), _minutes(endTime - 1)))
        times_ms = [_FROM_MS + minute * 60_000 for minute in range(self.minutes)]
        asked_ms = [time_ms for time_ms in times_ms if startTime <= time_ms < endTime]
        if not startFromHead:
            asked_ms.reverse()
        for number, time_ms in enumerate(asked_ms, 1):
            event = {"timestamp": time_ms, "message": str(_minutes(time_ms))}
            yield {"events": [event], **({"nextToken": "x"} if number < len(asked_ms) else {})}

    def sleep(self, seconds: float) -> None:
        self.passed_seconds += seconds


def _minutes(time_ms: int) -> int:
    return (time_ms - _FROM_MS) // 60_000


def _ms(minute: int) -> int:
    return _FROM_MS + minute * 60_000


@pytest.mark.parametrize(
    ("newest_first", "minutes", "reached", "spans_reached", "asked"),
    [
        (
            True,
            [*range(778, 900), *range(480, 601), 420],
            778,
            420,
            [(0, 899), (480, 600), (300, 420)],
        ),
        (
            False,
            [*range(122), *range(121, 123), *range(300, 420)],
            121,
            419,
            [(0, 899), (121, 122), (300, 420)],
        ),
    ],
)
def test_beyond_the_limit_a_log_is_read_around_some_messages_with_a_limit_of_its_own(
    *,
    newest_first: bool,
    minutes: list[int],
    reached: int,
    spans_reached: int,
    asked: list[tuple[int, int]],
) -> None:
    log = _Log(minutes=900)
    reading = LogReading(log, 1, newest_first, log.sleep, lambda: log.passed_seconds)
    spans = [(_ms(0), _ms(1)), (_ms(120), _ms(122)), (_ms(300), _ms(420)), (_ms(480), _ms(600))]

    events = list(reading.read(["a"], _ms(0), _ms(899), lambda: spans))

    # Two requests a second.
    assert sorted(int(event.text) for event in events) == sorted(minutes)
    assert reading.reached_ms == _ms(reached)
    assert reading.spans_reached_ms == _ms(spans_reached)
    assert log.spans == asked
