from typing import Any

import pytest

from dlq_replay.errors import MalformedEventError
from dlq_replay.wire.events import UnreadableRecord, read_event
from tests.support.builders import lambda_record, message


def test_event_of_an_event_source_mapping_is_read_in_order() -> None:
    letters = [message("a"), message("b")]

    assert letters == read_event({"Records": [lambda_record(one) for one in letters]})


def test_bare_array_of_a_pipe_is_read() -> None:
    assert [message("a")] == read_event([lambda_record(message("a"))])


@pytest.mark.parametrize("event", [{"Records": []}, []])
def test_empty_event_is_an_empty_batch(event: object) -> None:
    assert read_event(event) == []


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


def test_unknown_field_is_ignored() -> None:
    assert [message("a")] == read_event([{**lambda_record(message("a")), "later": {"x": 1}}])


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
