from collections.abc import Callable, Mapping
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from demo.audit import Journal, Sighting
from demo.consumer import Consumer
from demo.identity import Content
from demo.workload import DemoMessage
from tests.unit.demo.records import BROKEN, MESSAGES, PAYMENT, PLAIN, event, fifo_event


class Function:
    """Stands for the sample consumer's module: works on each message but those it is told not to.

    Attributes:
        known: ids that it knows as processed.
        skipped: ids that it fails without working on them.
    """

    work: Callable[[SQSRecord], object]

    def __init__(self) -> None:
        self.known: set[str] = set()
        self.skipped: set[str] = set()

    def lambda_handler(self, event: Mapping[str, Any], _context: object) -> dict[str, Any]:
        failed = [r["messageId"] for r in event["Records"] if not self._succeeds(r)]
        return {"batchItemFailures": [{"itemIdentifier": one} for one in failed]}

    def _succeeds(self, record: dict[str, Any]) -> bool:
        if record["messageId"] in self.known | self.skipped:
            return record["messageId"] in self.known
        try:
            self.work(SQSRecord(record))
        except LookupError:
            return False
        return True


class Business:
    def __init__(self) -> None:
        self.replay_counts: list[int] = []

    def process(self, message: DemoMessage, replay_count: int = 0) -> None:
        self.replay_counts.append(replay_count)
        if message is BROKEN:
            raise LookupError("no VAT rate for HR")

    def fix(self) -> str:
        return ""


class Scene:
    """A consumer, what it told, and what was seen of it."""

    def __init__(self, followed: DemoMessage | None = None) -> None:
        self.told: list[str] = []
        self.function = Function()
        self.journal = Journal({i: m.content.fingerprint for i, m in MESSAGES.items()})
        self.business = Business()
        self.consumer = Consumer(
            self.function,
            self.business,
            self.journal,
            MESSAGES,
            self.told.append,
            frozenset({followed.identity} if followed else ()),
        )

    def handle(self, event: dict[str, Any]) -> list[str]:
        """The ids of what failed."""
        answer: Any = self.consumer(event, None)
        return [item["itemIdentifier"] for item in answer["batchItemFailures"]]

    def seen(self, message: DemoMessage) -> Sighting:
        return self.journal.sightings()[message.identity]


def test_work_is_the_business_of_the_run_and_the_answer_the_functions() -> None:
    scene = Scene()

    assert scene.handle(event(PLAIN, PAYMENT, BROKEN)) == ["copy-of-3"]
    assert scene.seen(PLAIN).processed_count == scene.seen(PAYMENT).processed_count == 1
    assert scene.seen(BROKEN).processed_count == 0


def test_journal_knows_what_was_processed_and_how_often() -> None:
    scene = Scene()
    scene.handle(event(PLAIN))
    scene.handle(event(PLAIN, replay_count=2))

    assert scene.seen(PLAIN) == Sighting(processed_count=2, replay_count=2)
    assert scene.business.replay_counts == [0, 2]


def test_copy_that_the_function_knows_has_arrived_and_is_not_processed_again() -> None:
    scene = Scene(followed=PLAIN)
    scene.function.known = {"copy-of-1"}

    assert scene.handle(event(PLAIN, replay_count=2)) == []
    assert scene.seen(PLAIN) == Sighting(processed_count=0, replay_count=2)
    assert scene.told == [
        "message 1 is back, replay 2, after 3 s, and is skipped: processed before"
    ]


def test_altered_copy_is_noticed() -> None:
    scene = Scene()
    scene.handle(event(PLAIN, body="changed"))

    assert scene.seen(PLAIN).is_altered


def test_unknown_message_is_processed_but_noted_as_a_stranger() -> None:
    scene = Scene()
    stranger = DemoMessage.of(99, Content("who?"))

    assert scene.handle(event(stranger)) == []
    assert scene.journal.strangers() == {stranger.identity}


def test_copy_after_the_redrive_began_counts_as_redriven() -> None:
    scene = Scene()
    scene.journal.begin_redrive()
    scene.handle(event(PLAIN))

    assert scene.seen(PLAIN).is_redriven


def test_followed_message_tells_its_story() -> None:
    scene = Scene(followed=BROKEN)
    scene.handle(event(PLAIN, BROKEN))
    scene.handle(event(BROKEN, replay_count=2))

    assert scene.told == [
        "message 3 arrives, and fails: LookupError: no VAT rate for HR",
        "message 3 is back, replay 2, after 3 s, and fails: LookupError: no VAT rate for HR",
    ]


@pytest.mark.parametrize(
    ("arrived", "disposition"),
    [
        (fifo_event(BROKEN, PLAIN, groups="gg"), "waits behind one of its group that failed"),
        (event(BROKEN, PLAIN), "is put off"),
    ],
)
def test_followed_message_that_is_not_worked_on_tells_so(
    arrived: dict[str, Any], disposition: str
) -> None:
    scene = Scene(followed=PLAIN)
    scene.function.skipped = {"copy-of-1"}
    scene.handle(arrived)

    assert scene.told == [f"message 1 arrives, and {disposition}"]
