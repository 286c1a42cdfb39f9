from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from spark_reprocess.errors import InputError
from spark_reprocess.logs import reading as reading_module
from spark_reprocess.logs.events import LIMIT_MINUTES
from spark_reprocess.logs.reading import LogReading, exported_events

_EVENT = '{"logStreamName": "s", "timestamp": 7, "message": "m"}'


class FakeLogs:
    """CloudWatch Logs with stubbed answers, and a clock; each event takes a second to work off."""

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
        events = [{"logStreamName": "s", "timestamp": ms, "message": "text"} for ms in times_ms]
        wanted: dict[str, Any] = {"logGroupName": group, "startTime": 0, "endTime": 10}
        wanted |= {"nextToken": asked} if asked else {}
        answer = {"events": events, **({"nextToken": token} if token else {})}
        self.answers.add_response("filter_log_events", answer, wanted)

    def read(self, *groups: str) -> tuple[list[tuple[str, int]], int | None]:
        """Return the events, and where a limit ended the reading."""
        reading = LogReading(self.client, sleep=self.sleeps.append, clock=lambda: self.seconds)
        found = []
        for event in reading.read(groups, 0, 9):
            found.append((event.group, event.time_ms))
            self.seconds += LIMIT_MINUTES * 60 / 2
        return found, reading.read_until_ms


def test_every_page_is_read_twice_a_second() -> None:
    logs = FakeLogs()
    logs.page("g", 1, token="a")
    logs.page("g", asked="a", token="b")
    logs.page("g", 2, asked="b")
    logs.page("h", 3)

    assert logs.read("g", "h") == ([("g", 1), ("g", 2), ("h", 3)], None)
    assert logs.sleeps == [0.5] * 4


@pytest.mark.parametrize(("times_ms", "bytes_a_minute"), [((1, 2), 0), ((1, 2, 2), 1000)])
def test_a_limit_of_size_or_time_ends_with_the_time_that_was_reached(
    times_ms: tuple[int, ...], bytes_a_minute: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = FakeLogs()
    monkeypatch.setattr(reading_module, "_BYTES", bytes_a_minute)
    logs.page("g", *times_ms, token="a")

    assert logs.read("g") == ([("g", ms) for ms in times_ms], 2)


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
    [found] = exported_events(f"{_EVENT}\n", "f.jsonl")

    assert (found.group, found.stream, found.time_ms, found.text) == ("f.jsonl", "s", 7, "m")


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

    def paginate(self, *, startTime: int, endTime: int, **_: str) -> Iterator[Any]:  # noqa: N803
        self.spans.append((startTime, endTime - 1))
        events: list[dict[str, Any]] = [
            {"timestamp": n * 60_000, "message": str(n)} for n in range(self.minutes)
        ]
        asked = [one for one in events if startTime <= one["timestamp"] < endTime]
        for number, event in enumerate(asked, 1):
            yield {"events": [event], **({"nextToken": "x"} if number < len(asked) else {})}

    def sleep(self, seconds: float) -> None:
        self.passed_seconds += seconds


def test_beyond_the_limit_a_log_is_read_around_some_messages_with_a_limit_of_its_own() -> None:
    log = _Log(minutes=900)
    reading = LogReading(log, 1, log.sleep, lambda: log.passed_seconds)
    spans = [(0, 60_000), (7_200_000, 7_320_000), (18_000_000, 53_940_000)]

    texts = [event.text for event in reading.read(["a"], 0, 53_940_000, lambda: spans)]

    # Two requests a second.
    assert texts == list(map(str, (*range(122), 121, 122, *range(300, 420))))
    assert reading.read_until_ms == 121 * 60_000
    assert reading.spans_until_ms == 419 * 60_000
    assert log.spans == [(0, 53_940_000), (121 * 60_000, 7_320_000), spans[2]]
