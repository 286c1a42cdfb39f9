"""FIFO: a message waits behind an earlier one of its message group that stays in the archive."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from dlq.archive.storage.files import Archive
from dlq.cli.command import main
from dlq.engine import Engine
from dlq.scheduled_run import RunRequest, run
from dlq_replay.aws.sqs import SqsQueue
from dlq_replay.wire.context import FailureError
from dlq_replay.wire.message import Message
from tests.integration.conftest import MakeQueue
from tests.integration.desk import MakeDesk
from tests.integration.spark_world import (
    archive_of,
    bodies,
    executed,
    receive_all,
    recorded_as_sent,
)
from tests.support.approved_plan import planned
from tests.support.builders import context, message


def parked(number: int, error: str = "TimeoutError", group: str = "g-1", **fields: Any) -> Message:
    ours = {"reason": "attempts_exhausted", "error": FailureError(error, "it was so"), **fields}
    return message(
        f"m-{number}",
        f"body {number}",
        context(first_id=f"first-{number}", **ours),
        MessageGroupId=group,
        SequenceNumber=str(100 + number),
    )


def plan_of(archive: Archive, *titles: str, **options: Any) -> str:
    """Redrive the groups whose titles begin so, discard those after a minus."""
    path = Path(planned(archive, "leave", **options))
    content = yaml.safe_load(path.read_text())
    for group in content["groups"]:
        for title in titles:
            if group["title"].startswith(title.removeprefix("-")):
                group["action"] = "discard" if title.startswith("-") else "redrive"
    path.write_text(yaml.safe_dump(content))
    return str(path)


def sent(queue: SqsQueue) -> list[str]:
    return bodies(receive_all(queue))


def test_what_the_plan_leaves_holds_back_its_message_group_until_a_run_allows_reordering(
    make_desk: MakeDesk, capsys: pytest.CaptureFixture[str]
) -> None:
    messages = [parked(1), parked(2, "KeyError"), parked(3), parked(4), parked(5, group="g-2")]
    desk = make_desk(messages, "main.fifo")
    plan = plan_of(desk.archive, "TimeoutError")
    to = ["--to-queue-url", desk.destination.url]

    assert main(["redrive", "--archive", desk.archive.root, "--plan", plan, *to]) == 0
    printed = capsys.readouterr().out
    assert "2 waiting behind an earlier message of" in printed
    assert "[m-2]: m-3, m-4" in printed

    summary = desk.redrive(plan)

    assert [summary.count(disposition) for disposition in ("sent", "waits", "leave")] == [2, 2, 1]
    assert sorted(sent(desk.destination)) == ["body 1", "body 5"]

    reordered = desk.redrive(plan, allow_reordering=True)
    assert [reordered.count(disposition) for disposition in ("sent", "waits")] == [2, 0]
    assert sent(desk.destination) == ["body 3", "body 4"]


@pytest.mark.both_engines
@pytest.mark.parametrize("where", ["error_type = 'TimeoutError'", None])
def test_a_message_that_is_not_in_the_plan_holds_back_what_is_behind_it(
    make_desk: MakeDesk, where: str | None
) -> None:
    """Left out by the analysis' condition; or it was decided then, and is unconfirmed again."""
    desk = make_desk([parked(1, "KeyError"), parked(2), parked(3, group="g-2")], "main.fifo")
    plan = plan_of(desk.archive, "TimeoutError", where=where, chosen=("m-2", "m-3"))

    waiting = desk.redrive(plan)
    assert [waiting.count(disposition) for disposition in ("sent", "waits")] == [1, 1]
    assert sent(desk.destination) == ["body 3"]

    recorded_as_sent(desk.archive, "m-1")
    assert desk.redrive(plan).count("sent") == 1
    assert sent(desk.destination) == ["body 2"]


def test_which_earlier_message_of_its_message_group_holds_a_message_back(
    engine: Engine, make_queue: MakeQueue, tmp_path: Path
) -> None:
    """A foreign one does; one that is discarded or of another parked queue does not."""
    ours, other, destination = map(make_queue, ("parked.fifo", "parked.fifo", "main.fifo"))
    of_other_queue = parked(5, group="g-other-queue")
    archive_of(tmp_path, [of_other_queue], "20261121T021502Z-cd34ef", other.url)
    messages = [
        parked(1, reason="foreign_source", group="g-foreign"),
        parked(2, group="g-foreign"),
        parked(3, "KeyError", group="g-discarded"),
        parked(4, group="g-discarded"),
        parked(6, group="g-other-queue"),
    ]
    archive = archive_of(tmp_path, messages, drained_from=ours.url)
    plan = plan_of(archive, "TimeoutError", "-KeyError")

    summary = executed(engine, archive, plan, destination.url, parked_queue_urls=(ours.url,))

    assert sorted(sent(destination)) == ["body 4", "body 6"]
    words = ("sent", "discarded", "foreign_source", "waits", "other_parked_queue")
    assert [summary.count(disposition) for disposition in words] == [2, 1, 1, 1, 1]


@pytest.mark.usefixtures("quick_drains")
def test_status_and_a_run_name_the_message_that_others_wait_for(
    engine: Engine, make_queue: MakeQueue, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = make_queue("parked.fifo")
    messages = [parked(1), parked(2), parked(3), parked(4, group="g-2")]
    archive = archive_of(tmp_path, messages, drained_from=queue.url)

    assert main(["status", "--archive", archive.root]) == 0
    run(engine, archive, RunRequest(parked_queue_urls=(queue.url,)))

    assert "2 wait behind an earlier message of their message group: m-1 (2)" in (
        capsys.readouterr().out
    )

    written = json.loads(archive.read("status.json") or b"")
    assert written["waiting"] == 2
    assert written["blockers"] == [{"message_id": "m-1", "waiting": 2}]
