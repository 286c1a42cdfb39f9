from typing import Any

import pytest

from dlq_replay.errors import MalformedEventError
from dlq_replay.wire.message import UnreadableRecord, read_event
from tests.support.builders import lambda_record, message

LETTERS = [message("a"), message("b")]
RECORDS = [lambda_record(letter) for letter in LETTERS]


@pytest.mark.parametrize(
    ("event", "letters"),
    [
        ({"Records": RECORDS}, LETTERS),
        # The bare array of a pipe.
        (RECORDS, LETTERS),
        ({"Records": []}, []),
        ([], []),
        ([{**RECORDS[0], "later": {"x": 1}}], LETTERS[:1]),
    ],
)
def test_event_of_a_mapping_or_a_pipe_is_read_in_order(event: object, letters: list[Any]) -> None:
    assert read_event(event) == letters


def test_unreadable_record_keeps_its_place_and_its_group() -> None:
    bad = {**lambda_record(message("b", MessageGroupId="g")), "body": None}
    read = read_event({"Records": [lambda_record(message("a")), bad]})

    assert read == [
        message("a"),
        UnreadableRecord("b", "body: must be text of at least one character", "g"),
    ]


@pytest.mark.parametrize("system", ["none", {"MessageGroupId": 7}, None])
def test_unreadable_record_without_a_readable_group_has_none(system: object) -> None:
    bad = {**lambda_record(message("b")), "body": None, "attributes": system}

    (read,) = read_event([bad])

    assert read.message_group_id is None


@pytest.mark.parametrize(
    "event",
    [
        None,
        "text",
        {},
        {"Records": None},
        {"detail-type": "Scheduled Event"},
        {"Records": [{"Sns": {}, "EventSource": "aws:sns"}]},
        {"Records": ["text"]},
        {"Records": [{**lambda_record(message()), "messageId": ""}]},
    ],
)
def test_event_that_is_not_from_sqs_says_so(event: Any) -> None:
    with pytest.raises(MalformedEventError, match="not an SQS event"):
        read_event(event)
