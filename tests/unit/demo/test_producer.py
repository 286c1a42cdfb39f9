from dataclasses import replace
from typing import Any

from demo.identity import Content
from demo.producer import Refusal, pack, produce
from demo.workload import DemoMessage


def messages(count: int, body: str = "b") -> list[DemoMessage]:
    return [DemoMessage.of(n, Content(body)) for n in range(1, count + 1)]


class FakeSqs:
    """Refuses the ids in *refusals* as often as it says there."""

    def __init__(self, refusals: dict[str, int] | None = None) -> None:
        self.refusals = refusals or {}
        self.accepted: list[str] = []

    def send(self, entries: list[dict[str, Any]]) -> dict[str, Any]:
        failed = []
        for entry in entries:
            if self.refusals.get(entry["Id"], 0) > 0:
                self.refusals[entry["Id"]] -= 1
                failed.append({"Id": entry["Id"], "Code": "Throttled"})
            else:
                self.accepted.append(entry["Id"])
        return {"Failed": failed}


def run(sent: list[DemoMessage], sqs: FakeSqs) -> tuple[list[int], list[Refusal]]:
    steps = list(produce(sent, sqs.send, pause=lambda _: None))
    confirmed = [m.number for step in steps if isinstance(step, list) for m in step]
    return confirmed, [step for step in steps if isinstance(step, Refusal)]


def test_runs_hold_ten_messages_and_one_mebibyte() -> None:
    assert [len(run) for run in pack(messages(23))] == [10, 10, 3]
    assert [len(run) for run in pack(messages(4, "b" * 400_000))] == [2, 2]


def test_every_message_is_confirmed_once() -> None:
    sqs = FakeSqs()

    confirmed, refused = run(messages(23), sqs)

    assert confirmed == list(range(1, 24))
    assert sqs.accepted == [str(n) for n in confirmed]
    assert refused == []


def test_refused_entry_is_sent_again_and_given_up_after_three_rounds() -> None:
    sqs = FakeSqs({"2": 2, "3": 3})

    confirmed, refused = run(messages(4), sqs)

    assert sorted(confirmed) == [1, 2, 4]
    assert [(r.message.number, r.code) for r in refused] == [(3, "Throttled")]


def sent_entries(sent: list[DemoMessage]) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []

    def send(batch: list[dict[str, Any]]) -> dict[str, Any]:
        entries.extend(batch)
        return {}

    list(produce(sent, send, pause=lambda _: None))
    return entries


def test_group_and_deduplication_id_are_sent_where_there_is_a_group() -> None:
    entries = sent_entries([replace(message, group="g") for message in messages(2)])

    assert [entry["MessageGroupId"] for entry in entries] == ["g", "g"]
    assert len({entry["MessageDeduplicationId"] for entry in entries}) == 2


def test_no_group_is_sent_to_standard_queues() -> None:
    (entry,) = sent_entries(messages(1))

    assert set(entry) == {"Id", "MessageBody", "MessageAttributes"}
