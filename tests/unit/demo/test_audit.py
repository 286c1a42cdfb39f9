"""The demo's audit notices each promise that breaks; and what its command line and file may be."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

from demo import InputError
from demo.__main__ import main, parse_options, work_folder
from demo.audit import Account, FinalState, Journal, account
from demo.messages import CONTEXT, COUNTER, DemoMessage, read_input
from demo.shop import in_groups, invent
from demo.world import to_record

MESSAGES = {m.identity: m for m in invent(10, seed=1)}
FIFO = {m.identity: m for m in in_groups([*MESSAGES.values()])}
FIRST, SECOND = [*MESSAGES][:2]
MAIN = "arn:aws:sqs:us-east-1:123456789012:orders"
DLQ = "arn:aws:sqs:us-east-1:123456789012:dlq"


def record(message: DemoMessage, queue: str = MAIN, copy: int = 0, **more: str) -> dict[str, Any]:
    """Return a message as Lambda hands it out; *more* attributes have the names of Python."""
    sent = message.to_api()
    names = {"counter": COUNTER, "context": CONTEXT, "tenant": "tenant"}
    added = {names[n]: {"DataType": "String", "StringValue": v} for n, v in more.items()}
    received = {
        "MessageId": f"{message.identity}-{copy}",
        "ReceiptHandle": "handle",
        "Body": sent["MessageBody"],
        "Attributes": {"MessageGroupId": message.group} if message.group else {},
        "MessageAttributes": sent["MessageAttributes"] | added,
    }
    return to_record(received, queue)


def processed(messages: Mapping[str, DemoMessage], but: Collection[str] = ()) -> Journal:
    journal = Journal(messages)
    for identity, message in messages.items():
        if identity not in but:
            journal.received(record(message))
            journal.processed(message.content)
    return journal


def conclude(journal: Journal, **left: Collection[str]) -> Account:
    identities_of = {FinalState[name]: ids for name, ids in left.items()}
    empty: dict[FinalState, Collection[str]] = {FinalState.ARCHIVED: (), FinalState.PARKED: ()}
    return account(MESSAGES, journal, empty | identities_of)


def test_every_message_is_well() -> None:
    journal = processed(MESSAGES)
    journal.received(record(MESSAGES[FIRST], counter="2", copy=1))
    journal.received(record(MESSAGES[SECOND], context='{"v":1,"plan":"p"}', copy=1))

    result = conclude(journal, ARCHIVED=[SECOND])

    assert result.faults == []
    assert result.states[FIRST] is FinalState.REPLAYED
    assert result.states[SECOND] is FinalState.REDRIVEN
    assert result.counts == {
        "sent": 10,
        "processed": 10,
        "replayed": 1,
        "parked": 1,
        "redriven": 1,
        "lost": 0,
        "altered": 0,
        "duplicates": 0,
    }


def test_copy_of_a_redrive_that_comes_back_counts_once() -> None:
    journal = Journal(MESSAGES)
    redriven = '{"v":1,"plan":"p"}'
    plain = record(MESSAGES[FIRST], DLQ)
    of_redrive = record(MESSAGES[FIRST], DLQ, 1, context=redriven)
    replayed = record(MESSAGES[FIRST], DLQ, 2, context=redriven, counter="1")

    for copy in (plain, of_redrive, of_redrive, replayed):
        journal.dead_lettered(copy)

    assert journal.returned == 1


@pytest.mark.parametrize("state", ["LOST", "IN_MAIN", "IN_DLQ", "PARKED", "ARCHIVED"])
def test_message_that_was_not_processed_is_a_fault_and_lost_only_if_it_is_nowhere(
    state: str,
) -> None:
    left = {} if state == "LOST" else {state: [FIRST]}
    result = conclude(processed(MESSAGES, but=[FIRST]), **left)

    assert (result.counts["lost"], result.counts["processed"]) == (int(state == "LOST"), 9)
    assert result.faults == [f"{FinalState[state].value}: message 1."]


def test_altered_unknown_and_duplicate_messages_are_noted() -> None:
    journal = processed(MESSAGES)
    changed = record(MESSAGES[FIRST])
    changed["messageAttributes"]["signature"]["binaryValue"] = "AAAA"
    journal.received(changed)
    journal.received(record(MESSAGES[SECOND], tenant="new"))
    journal.received({**record(MESSAGES[SECOND]), "messageAttributes": {}})
    journal.processed(MESSAGES[FIRST].content)

    result = conclude(journal)

    assert (result.counts["altered"], result.counts["duplicates"]) == (3, 1)
    assert result.faults == [f"altered on the way: , {FIRST}, {SECOND}."]


def test_dead_letters_of_a_group_that_overtake_are_found() -> None:
    first = min(FIFO.values(), key=lambda message: message.number)
    others = [message for message in FIFO.values() if message.number > first.number]
    other = next(message for message in others if message.group == first.group)
    for order, broken in (((first, other), set()), ((other, first), {first.group})):
        journal = Journal(FIFO)
        for message in (first, other):
            journal.dead_lettered(record(message, DLQ))
        for message in order:
            journal.received(record(message, counter="1", copy=1))
        assert journal.broken_groups == broken

    result = account(FIFO, journal, {FinalState.ARCHIVED: (), FinalState.PARKED: ()})
    assert result.counts["out_of_order"] == 1
    assert f"dead letters came back out of order in: {first.group}." in result.faults


def test_own_messages_are_read_up_to_the_limit(tmp_path: Path) -> None:
    line = '{"body": "a", "attributes": {"n": {"DataType": "Number", "StringValue": "3"}}}'
    path = tmp_path / "own.jsonl"
    path.write_text(f"{line}\n\n" * 3)

    first, second = read_input(path, limit=2)

    assert (first.number, second.number) == (1, 3)
    assert first.content.body == second.content.body == "a"
    assert first.content.attributes["n"] == ("Number", "3")


BAD_LINES = (
    "[",
    '{"body": 1}',
    '{"body": "a", "attributes": 1}',
    '{"body": "a", "attributes": {"demo-id": "x"}}',
    '{"body": "a", "attributes": {"b": {"DataType": "Binary", "BinaryValue": "%"}}}',
    '{"body": "a", "attributes": {"b": 1}}',
    json.dumps({"body": "a", "attributes": dict.fromkeys("abcdefgh", "1")}),
)


@pytest.mark.parametrize("line", BAD_LINES)
def test_bad_line_is_refused_with_its_number(line: str, tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(f'{{"body": "first"}}\n{line}\n')

    with pytest.raises(InputError, match="line 2: must be"):
        read_input(path, limit=10)


@pytest.mark.parametrize(
    "words", [["--messages", "0"], ["--messages", "501"], ["--queue", "x"], ["y"]]
)
def test_bad_arguments_end_with_two(words: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        parse_options(words)
    assert stopped.value.code == 2


@pytest.mark.parametrize("content", [None, "\n"])
def test_file_without_a_message_ends_with_two(content: str | None, tmp_path: Path) -> None:
    path = tmp_path / "own.jsonl"
    if content is not None:
        path.write_text(content)

    assert main(["--input", str(path), "--keep", str(tmp_path / "kept")]) == 2


def test_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="must be empty"), work_folder(tmp_path):
        pass
