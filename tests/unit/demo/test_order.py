from typing import Any

from demo.identity import COUNTER
from demo.order import OrderBook

MAIN = "arn:aws:sqs:us-east-1:1:orders.fifo"
DLQ = "arn:aws:sqs:us-east-1:1:orders-dlq.fifo"


class World:
    """Shows copies, spelled ``identity`` or ``identity+replay count``, to the watched functions."""

    def __init__(self) -> None:
        self.book = OrderBook()
        self.calls = 0
        self._watched = {
            MAIN: self.book.watch_main(self._count),
            DLQ: self.book.watch_dlq(self._count),
        }

    def _count(self, event: Any, context: object) -> str:
        self.calls += 1
        return "answer"

    def main(self, *copies: str, group: str = "g") -> None:
        self._show(MAIN, copies, group)

    def dlq(self, *copies: str, group: str = "g") -> None:
        self._show(DLQ, copies, group)

    def broken(self) -> set[str]:
        return set(self.book.broken_groups())

    def _show(self, arn: str, copies: tuple[str, ...], group: str) -> None:
        records = [_record(arn, copy, group) for copy in copies]
        assert self._watched[arn]({"Records": records}, None) == "answer"


def _record(arn: str, copy: str, group: str) -> dict[str, Any]:
    identity, _, count = copy.partition("+")
    counter = {COUNTER: {"dataType": "Number", "stringValue": count}} if count else {}
    own = {"demo-id": {"dataType": "String", "stringValue": identity}}
    return {
        "messageId": f"id-of-{copy}",
        "body": "b",
        "attributes": {"MessageGroupId": group},
        "messageAttributes": {**own, **counter},
        "eventSourceARN": arn,
    }


def test_dead_letters_that_come_back_as_they_came_keep_their_order() -> None:
    world = World()
    world.main("a", "b", "c")
    world.dlq("a", "b")
    world.dlq("b", "c")
    world.main("a+1", "b+1")
    world.main("a+1", "b+1", "c+1")

    assert world.broken() == set()
    assert world.calls == 5


def test_one_that_overtakes_breaks_its_group_and_no_other() -> None:
    world = World()
    world.dlq("a", "b")
    world.dlq("x", "y", group="other")
    world.main("b+1", "a+1")
    world.main("x+1", "y+1", group="other")

    assert world.broken() == {"g"}


def test_later_rounds_are_judged_by_the_later_arrival() -> None:
    world = World()
    world.dlq("a", "b")
    world.main("a+1")
    world.dlq("a+1")
    world.main("b+1", "a+2")
    assert world.broken() == set()

    world.dlq("b+1", "a+2")
    world.main("a+3", "b+2")
    assert world.broken() == {"g"}


def test_redriven_messages_have_an_order_of_their_own() -> None:
    world = World()
    world.dlq("a", "b", "c")
    world.main("c+1")
    world.main("a", "b")
    assert world.broken() == set()

    late = World()
    late.dlq("a", "b", "c")
    late.main("c+1")
    late.main("b", "a")
    assert late.broken() == {"g"}


def test_canaries_are_in_order_with_what_is_redriven_and_not_with_replays() -> None:
    world = World()
    world.dlq("a", "b", "c")
    world.main("c+1")
    world.main("a+1000000", "b+1000000")
    world.dlq("a+1000000", "b+1000000")
    world.main("a", "b")
    assert world.broken() == set()

    late = World()
    late.dlq("a", "b")
    late.main("b+1000000", "a+1000000")
    assert late.broken() == {"g"}


def test_first_copies_and_further_looks_say_nothing() -> None:
    world = World()
    world.main("b", "a")
    world.dlq("a")
    world.dlq("b", "a")
    world.main("a+1", "b+1")
    world.main("a+1")

    assert world.broken() == set()


def test_message_that_comes_back_in_another_group_breaks_its_own() -> None:
    world = World()
    world.dlq("a")
    world.main("a+1", group="stray")

    assert world.broken() == {"g"}
