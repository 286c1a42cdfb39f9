"""``find``: where a value is, and what happened to its messages."""

import json
from pathlib import Path
from typing import Any

import pytest

from dlq.archive.ledger.disposition import Disposition
from dlq.archive.storage.files import Archive
from dlq.cli.command import main as dlq
from dlq.cli.verb import BAD_INPUT
from dlq_replay.wire.message import SendEntry
from tests.integration.conftest import Capture, MakeQueue
from tests.integration.spark_world import archive_of
from tests.support.builders import NOW, message
from tests.support.ledgers import settle
from tests.support.parked_orders import plan_of
from tests.support.sqs_driver import visible_count

ORDERS = 12


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """Twelve orders in two drains that share one of them; a plan; the first was sent."""
    messages = []
    for number in range(ORDERS):
        body = json.dumps({"order": 4700 + number % 6})
        sent_at = str((NOW + number) * 1000)
        messages.append(message(f"m-{number:03d}", body=body, SentTimestamp=sent_at))
    archive_of(tmp_path, messages[:7], "d-1")
    archive = archive_of(tmp_path, messages[6:], "d-2")
    plan_of(archive)
    settle(archive, "p-1", {"m-000": Disposition.SENT})
    return archive


def find(capsys: Capture, *words: str) -> dict[str, Any]:
    assert dlq(["find", *words, "--json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer


def test_newest_comes_first_with_state_group_and_place(archive: Archive, capsys: Capture) -> None:
    archived = find(capsys, "4700", "--archive", archive.root)["archived"]

    assert (archived["searched"], archived["matching"]) == (ORDERS + 1, 2)
    assert [match["copy"]["message_id"] for match in archived["newest"]] == ["m-006", "m-000"]
    assert [match["copy"]["state"] for match in archived["newest"]] == ["pending", "sent"]
    assert [match["places"] for match in archived["newest"]] == [["body.order"]] * 2
    assert all(match["group_id"].startswith("g-") for match in archived["newest"])
    assert [len(match["copy"]["entries"]) for match in archived["newest"]] == [0, 1]


def test_limit_bounds_what_is_shown_and_not_what_is_counted(
    archive: Archive, capsys: Capture
) -> None:
    archived = find(capsys, "47[0-9]+", "--regex", "--archive", archive.root, "--limit", "3")[
        "archived"
    ]

    assert archived["matching"] == ORDERS
    assert [match["copy"]["message_id"] for match in archived["newest"]] == [
        "m-011",
        "m-010",
        "m-009",
    ]


def test_answer_for_people(archive: Archive, capsys: Capture) -> None:
    assert dlq(["find", "4700", "--archive", archive.root]) == 0

    printed = capsys.readouterr().out
    assert "m-006: pending  body.order" in printed
    assert "archive: 2 messages of 13" in printed
    assert f"next: dlq show --archive {archive.root} m-006" in printed


def test_nothing_is_an_answer_too(archive: Archive, capsys: Capture) -> None:
    answer = find(capsys, "nowhere", "--archive", archive.root)

    assert answer["archived"]["newest"] == []


def test_queue_is_searched_and_keeps_its_messages(
    make_queue: MakeQueue, sqs_endpoint: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", sqs_endpoint)
    queue = make_queue("orders-dlq")
    for number in range(10):
        queue.send([SendEntry(f'{{"order": {number}}}')])

    answer = find(capsys, "7", "--queue", queue.url)

    assert [match["places"] for match in answer["queued"]] == [["body.order"]]
    assert answer["received"]["given_back"] == 10
    assert visible_count(queue) == 10


def test_a_place_to_look_is_needed(capsys: Capture) -> None:
    assert dlq(["find", "4711"]) == BAD_INPUT

    assert "--archive PLACE, --stack NAME or --queue QUEUE" in capsys.readouterr().err
