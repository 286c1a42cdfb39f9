from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from dlq_replay.consumer.visibility import Change, Verdict, change_visibility


class Client:
    """Answers every call alike."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.entries: list[Any] = []

    def change_message_visibility_batch(self, **request: Any) -> Any:
        self.entries = request["Entries"]
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def change(answer: Any) -> list[Change]:
    client: Any = Client(answer)
    return change_visibility(client, "url", [("r-0", 5), ("r-1", 6)])


def test_each_entry_has_its_own_result_in_the_order_asked() -> None:
    failed = {"Id": "0", "Code": "ReceiptHandleIsInvalid", "SenderFault": True}

    assert change({"Failed": [failed], "Successful": [{"Id": "1"}]}) == [
        Change(Verdict.REFUSED, "ReceiptHandleIsInvalid"),
        Change(Verdict.CONFIRMED),
    ]


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        ("AWS.SimpleQueueService.MessageNotInflight", Verdict.REFUSED),
        ("InvalidParameterValue", Verdict.REFUSED),
        ("InternalError", Verdict.FAILED),
        ("RequestThrottled", Verdict.FAILED),
        ("NeverHeardOf", Verdict.FAILED),
    ],
)
def test_only_a_handle_that_is_void_is_not_tried_again(code: str, verdict: Verdict) -> None:
    entries = [{"Id": str(n), "Code": code, "SenderFault": True} for n in range(2)]

    assert [one.verdict for one in change({"Failed": entries})] == [verdict] * 2


def test_entry_that_the_answer_does_not_name_failed() -> None:
    assert change({"Successful": [{"Id": "1"}]})[0].verdict is Verdict.FAILED


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ClientError({"Error": {"Code": "AccessDenied"}}, "x"), "AccessDenied"),
        (EndpointConnectionError(endpoint_url="http://secret"), "EndpointConnectionError"),
        (RuntimeError("cannot schedule new futures after shutdown"), "RuntimeError"),
    ],
)
def test_call_that_raises_fails_all_its_entries(error: Exception, code: str) -> None:
    assert change(error) == [Change(Verdict.FAILED, code)] * 2
