"""``status``: what is where, counted without Spark."""

import json
from pathlib import Path
from typing import ClassVar, NoReturn

import pytest

from dlq.archive.ledger.claims import Claim, close_open_runs, timestamp
from dlq.archive.ledger.disposition import Disposition
from dlq.archive.messages.message_store import remove_messages
from dlq.archive.storage.files import MESSAGES, Archive, open_archive
from dlq.archive.storage.local import LocalArchive
from dlq.aws.clients import QueueCounts
from dlq.cli.command import main as dlq
from dlq.cli.running import main
from dlq.inspect.status import StatusOptions, count, status
from tests.integration.conftest import Capture, MakeQueue
from tests.integration.spark_world import archive_of, entry_of, parked
from tests.support.builders import NOW
from tests.support.ledgers import begin, settle

IDS = [f"m-{number:03d}" for number in range(10)]


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """Ten messages in two drains, two of them in both; two plans that dealt with some."""
    messages = [parked(n, SentTimestamp=str((NOW + n) * 1000)) for n in range(10)]
    archive_of(tmp_path, messages[:7], "d-1")
    archive = archive_of(tmp_path, messages[5:], "d-2")
    outcomes = map(Disposition, ("sent", "sent", "discarded", "failed", "unconfirmed"))
    settle(archive, "p-1", dict(zip(IDS, outcomes, strict=False)))
    dead = Claim("me@here", "why", "https://q", timestamp(NOW), (IDS[5], IDS[4]))
    begin(archive, "p-2").claim("g-1", 1, dead)
    close_open_runs(archive)
    return archive


class Erasing(LocalArchive):
    """An archive in which an erase replaces a file after it was listed and before it is read."""

    erased: ClassVar[list[str]] = []

    def list(self, folder: str) -> list[str]:
        paths = LocalArchive.list(self, folder)
        if folder == MESSAGES and not self.erased:
            self.erased.append(IDS[0])
            remove_messages(self, "d-1", IDS[:1], lambda: None)
        return paths


def test_an_erase_meanwhile_stops_no_count(archive: Archive) -> None:
    counted = count(Erasing(archive.root))

    assert (counted.messages, counted.count("sent")) == (9, 1)


def test_queue_is_counted_where_it_is_named(
    make_queue: MakeQueue, tmp_path: Path, sqs_endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", sqs_endpoint)
    source = make_queue("parked")
    source.send([entry_of(parked(n)) for n in range(3)])
    source.receive(max_messages=1, wait_seconds=0)

    result = status(StatusOptions(str(tmp_path / "new"), source.url))

    assert result.queue == QueueCounts(visible=2, in_flight=1, delayed=0)
    assert (result.messages, result.drains, result.plans) == (0, (), ())


def test_answer_names_what_to_look_at(archive: Archive, capsys: Capture) -> None:
    assert main(["status", "--archive", archive.root]) == 0

    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines[0].startswith(f"archive {archive.root} at ")
    assert lines[1:3] == [
        "messages  pending  sent  discarded  restored  unconfirmed  in progress",
        "      10        7     2          1         0            2            0",
    ]
    assert lines[3].startswith("oldest pending: parked 2023-11-14 22:13 UTC, ")
    assert lines[4:7] == [
        "drain  messages  pending",
        "d-1           7        4",
        "d-2           3        3",
    ]
    assert lines[7:10] == [
        "plan  sent  discarded  restored  unconfirmed  in progress  failed again",
        "p-1      2          1         0            0            0  ?",
        "p-2      0          0         0            2            0  -",
    ]
    assert lines[10:] == [
        "unconfirmed: they may have been sent and no answer came: m-004, m-005",
        f"  details of one: dlq show --archive {archive.root} m-004",
        f"next: dlq collect --archive {archive.root} --only analyze",
    ]


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_status_alone_counts_the_archive_of_the_environment(
    archive: Archive, capsys: Capture, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("DLQ_ARCHIVE", archive.root)

    assert dlq(["status", *words], asking_nobody) == 0

    assert archive.root in capsys.readouterr().out


def asking_nobody() -> NoReturn:
    """Make no session: a list of installations would ask AWS."""
    pytest.fail("AWS is asked")


def test_machines_get_json(archive: Archive, capsys: Capture) -> None:
    assert main(["status", "--archive", archive.root, "--json"]) == 0

    answer = json.loads(capsys.readouterr().out)
    assert (answer["version"], answer["messages"], answer["counts"]["pending"]) == (1, 10, 7)
    plan = {"plan_id": "p-2", "counts": {"unconfirmed": 2}, "returned": None, "returned_at": None}
    assert answer["plans"][1] == plan
    assert answer["oldest_pending_at"] == "2023-11-14T22:13:23+00:00"


def test_empty_archive_is_no_error_and_the_answer_says_what_to_do(
    tmp_path: Path, capsys: Capture
) -> None:
    open_archive(str(tmp_path), creates=True)

    assert main(["status", "--archive", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "the archive is empty: a drain moves messages of the parked queue into it",
        f"next: dlq collect --archive {tmp_path} --parked-queue-url URL",
    ]


@pytest.mark.parametrize("place", ["", "nonexistent"])
def test_place_where_no_drain_began_an_archive_is_named(
    tmp_path: Path, capsys: Capture, place: str
) -> None:
    location = str(tmp_path / place)

    assert main(["status", "--archive", location, "--json"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    error = json.loads(printed.err)["error"]
    assert error.startswith(f"archive {location}: nothing is archived there; ")
