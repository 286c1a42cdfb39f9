"""What a heartbeat makes of each answer to its calls: a client that answers as it is told to."""

from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from dlq_replay.consumer.errors import VisibilityLostError
from dlq_replay.consumer.heartbeat import Heartbeat
from local_sqs.clock import VirtualClock
from tests.simulation.ticking import VirtualTicker


class Client:
    """Confirms everything, but for the first call.

    Attributes:
        entries: those of each call.
    """

    def __init__(self, first_answer: Any) -> None:
        self.first_answer = first_answer
        self.entries: list[list[Any]] = []

    def change_message_visibility_batch(self, **request: Any) -> Any:
        self.entries.append(request["Entries"])
        if len(self.entries) == 1:
            if isinstance(self.first_answer, Exception):
                raise self.first_answer
            return self.first_answer
        return {"Successful": [{"Id": entry["Id"]} for entry in request["Entries"]]}


class Work:
    """Two messages, ``m-0`` and ``m-1``, whose first extension gets that answer."""

    def __init__(self, answer: Any) -> None:
        clock = VirtualClock()
        self.ticker = VirtualTicker(clock)
        self.client = Client(answer)
        messages = [{"MessageId": f"m-{n}", "ReceiptHandle": f"r-{n}"} for n in range(2)]
        client: Any = self.client
        self.beat = Heartbeat(client, "url", messages, now=clock.time, ticker=self.ticker)

    def asked(self) -> list[list[str]]:
        """Receipt handles, call by call."""
        return [[entry["ReceiptHandle"] for entry in entries] for entries in self.client.entries]


def failed(number: int, code: str) -> dict[str, Any]:
    return {"Id": str(number), "Code": code, "SenderFault": True}


def test_each_entry_has_its_own_answer_in_any_order() -> None:
    answer = {"Failed": [failed(0, "ReceiptHandleIsInvalid")], "Successful": [{"Id": "1"}]}
    work = Work(answer)
    with work.beat as beat:
        with pytest.raises(VisibilityLostError, match="ReceiptHandleIsInvalid"):
            beat.check("m-0")
        assert beat.seconds_left("m-1") == 120
        work.ticker.pass_time(60)

    assert work.asked() == [["r-0", "r-1"], ["r-1"]]


@pytest.mark.parametrize(
    ("code", "is_lost"),
    [
        ("AWS.SimpleQueueService.MessageNotInflight", True),
        ("InvalidParameterValue", True),
        ("InternalError", False),
        ("RequestThrottled", False),
        ("NeverHeardOf", False),
    ],
)
def test_only_a_handle_that_is_void_is_not_tried_again(code: str, *, is_lost: bool) -> None:
    work = Work({"Failed": [failed(0, code), failed(1, code)]})
    with work.beat as beat:
        assert beat.is_safe("m-0") is not is_lost
        work.ticker.pass_time(29)
        assert beat.is_safe("m-0") is not is_lost

    assert work.asked() == ([["r-0", "r-1"]] if is_lost else [["r-0", "r-1"]] * 2)


def test_entry_that_the_answer_does_not_name_is_tried_again() -> None:
    work = Work({"Successful": [{"Id": "1"}]})
    with work.beat as beat:
        assert beat.is_safe("m-0")
        work.ticker.pass_time(29)
        assert beat.is_safe("m-0")

    assert work.asked() == [["r-0", "r-1"], ["r-0"]]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ClientError({"Error": {"Code": "AccessDenied"}}, "x"), "AccessDenied"),
        (ClientError({"Error": {"Code": "InvalidParameterValue"}}, "x"), "InvalidParameterValue"),
        (EndpointConnectionError(endpoint_url="http://secret"), "EndpointConnectionError"),
        (RuntimeError("cannot schedule new futures after shutdown"), "RuntimeError"),
    ],
)
def test_call_that_raises_is_tried_again_for_all_its_entries(
    error: Exception, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    work = Work(error)
    with work.beat as beat:
        beat.check()
        work.ticker.pass_time(29)
        beat.check()

    assert work.asked() == [["r-0", "r-1"]] * 2
    assert [record.getMessage() for record in caplog.records] == [f"not extended: {code}: m-0, m-1"]
