from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from spark_reprocess.errors import InputError
from spark_reprocess.logs.reading import LIMIT_SECONDS, LogReading, exported_events

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

    def read(self, *groups: str, **limits: Any) -> tuple[list[tuple[str, int]], int | None]:
        """Return the events, and where a limit ended the reading."""
        reading = LogReading(self.client, self.sleeps.append, lambda: self.seconds, **limits)
        found = []
        for event in reading.read(groups, 0, 9):
            found.append((event.group, event.time_ms))
            self.seconds += LIMIT_SECONDS / 2
        return found, reading.read_until_ms


@pytest.fixture
def logs() -> FakeLogs:
    return FakeLogs()


def test_every_page_is_read_twice_a_second(logs: FakeLogs) -> None:
    logs.page("g", 1, token="a")
    logs.page("g", asked="a", token="b")
    logs.page("g", 2, asked="b")
    logs.page("h", 3)

    assert logs.read("g", "h") == ([("g", 1), ("g", 2), ("h", 3)], None)
    assert logs.sleeps == [0.5] * 4


@pytest.mark.parametrize(("times_ms", "limits"), [((1, 2), {"bytes_left": 5}), ((1, 2, 2), {})])
def test_a_limit_of_size_or_time_ends_with_the_time_that_was_reached(
    logs: FakeLogs, times_ms: tuple[int, ...], limits: dict[str, int]
) -> None:
    logs.page("g", *times_ms, token="a")

    assert logs.read("g", **limits) == ([("g", ms) for ms in times_ms], 2)


@pytest.mark.parametrize(
    ("code", "part"),
    [
        ("ResourceNotFoundException", "check the name"),
        ("AccessDeniedException", "logs:FilterLogEvents"),
    ],
)
def test_a_log_group_that_is_not_there_or_denied_is_named(
    logs: FakeLogs, code: str, part: str
) -> None:
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
