from collections.abc import Mapping
from typing import Any

from demo.functions import delivering_twice
from tests.unit.demo.records import BROKEN, PAYMENT, PLAIN, event


def test_one_message_comes_once_more_and_no_other() -> None:
    told: list[str] = []
    handled: list[list[str]] = []

    def handler(event: Mapping[str, Any], _context: object) -> str:
        handled.append([record["messageId"] for record in event["Records"]])
        return f"answer {len(handled)}"

    function = delivering_twice(handler, PAYMENT, told.append)

    assert function(event(PLAIN), None) == "answer 1"
    assert function(event(BROKEN, PAYMENT), None) == "answer 2"
    assert function(event(PAYMENT), None) == "answer 4"
    assert handled == [["copy-of-1"], ["copy-of-3", "copy-of-2"], ["copy-of-2"], ["copy-of-2"]]
    assert told == ["SQS delivers message 2 to the replay Lambda twice, as it may"]
