import itertools
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError

from spark_reprocess.errors import InputError
from spark_reprocess.logs.reading import LIMIT_SECONDS, LogReading, exported_events

_EVENT = '{"logStreamName": "s", "timestamp": 7, "message": "m"}'
Answer = Mapping[str, Any] | str


class FakeLogs:
    """Answers in turn; a text is an error's code. Each call takes a tenth of a second."""

    def __init__(self, answers: Iterable[Answer]) -> None:
        self.answers = list(answers)
        self.calls: list[tuple[float, dict[str, Any]]] = []
        self.seconds = 0.0

    def filter_log_events(self, **wanted: Any) -> Mapping[str, Any]:
        self.calls.append((self.seconds, wanted))
        self.seconds += 0.1
        answer = self.answers.pop(0)
        if isinstance(answer, str):
            raise ClientError({"Error": {"Code": answer, "Message": "no"}}, "FilterLogEvents")
        return answer

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def reading(self, **limits: Any) -> LogReading:
        return LogReading(self, sleep=self.sleep, clock=lambda: self.seconds, **limits)


def page(*times_ms: int, token: str | None = None) -> Mapping[str, Any]:
    events = [{"logStreamName": "s", "timestamp": ms, "message": f"at {ms}"} for ms in times_ms]
    return {"events": events, **({"nextToken": token} if token else {})}


def test_every_page_is_read_also_behind_a_throttled_call_twice_a_second() -> None:
    logs = FakeLogs([page(1, token="a"), "ThrottlingException", page(token="b"), page(2), page(3)])
    reading = logs.reading()

    events = list(reading.read(["g", "h"], 0, 9))

    assert [(one.group, one.time_ms) for one in events] == [("g", 1), ("g", 2), ("h", 3)]
    assert [wanted.get("nextToken") for _, wanted in logs.calls] == [None, "a", "a", "b", None]
    assert {(wanted["startTime"], wanted["endTime"]) for _, wanted in logs.calls} == {(0, 10)}
    began = [seconds for seconds, _ in logs.calls]
    assert all(later - earlier >= 0.499 for earlier, later in itertools.pairwise(began))
    assert reading.read_until_ms is None


def test_a_limit_of_size_ends_with_the_time_that_was_reached() -> None:
    reading = FakeLogs([page(1, 2, token="a"), page(3)]).reading(bytes_left=5)

    assert [one.time_ms for one in reading.read(["g"], 0, 9)] == [1, 2]
    assert reading.read_until_ms == 2


def test_a_limit_of_time_ends_a_log_that_is_always_throttled() -> None:
    logs = FakeLogs(["ThrottlingException"] * LIMIT_SECONDS * 3)
    reading = logs.reading()

    assert list(reading.read(["g"], 7, 9)) == []
    assert reading.read_until_ms == 7
    assert len(logs.calls) <= 2 * LIMIT_SECONDS + 1


@pytest.mark.parametrize(
    ("code", "part"),
    [
        ("ResourceNotFoundException", "check the name"),
        ("AccessDeniedException", "logs:FilterLogEvents"),
    ],
)
def test_a_log_group_that_is_not_there_or_denied_is_named(code: str, part: str) -> None:
    with pytest.raises(InputError, match=f"/shop/orders: .*{part}"):
        list(FakeLogs([code]).reading().read(["/shop/orders"], 0, 9))


def test_a_file_has_an_event_on_each_line() -> None:
    [found] = exported_events(f"{_EVENT}\n", "f.jsonl")

    assert (found.group, found.stream, found.time_ms, found.text) == ("f.jsonl", "s", 7, "m")


@pytest.mark.parametrize("line", ["no JSON", '{"message": "x"}', "[]", '{"timestamp": 1}'])
def test_a_line_that_is_no_event_is_named(line: str) -> None:
    with pytest.raises(InputError, match="line 2 is no event"):
        list(exported_events(f"{_EVENT}\n{line}", "f.jsonl"))
