"""``restore`` against an SQS server over HTTP."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from dlq.archive.ledger.open_set import first_rows_of
from dlq.archive.ledger.run_results import ledger_files
from dlq.cli.command import main
from dlq.engine import Engine
from dlq.redrive import restore as restore_module
from dlq.redrive.request import RestoreRequest
from dlq.redrive.restore import restore
from dlq.redrive.summary import RedriveSummary
from dlq_replay.wire.message import Message
from tests.integration.conftest import MakeQueue
from tests.integration.spark_world import analyzed, archive_of, executed, parked, receive_all
from tests.support.approved_plan import planned

if TYPE_CHECKING:
    from dlq.archive.storage.files import Archive


def restored(engine: Engine, archive: "Archive", url: str, **options: object) -> RedriveSummary:
    fixed: dict[str, object] = {"execute": True, "reason": "look again", **options}
    return restore(engine, archive, RestoreRequest((url,), **fixed))  # type: ignore[arg-type]


def contents(messages: list[Message]) -> list[tuple[str, object]]:
    return sorted((message.body, sorted(message.attributes.items())) for message in messages)


def test_message_goes_back_as_it_was_archived_and_only_once(
    engine: Engine, make_queue: MakeQueue, tmp_path: Path
) -> None:
    queue = make_queue("parked")
    sources = [parked(n) for n in range(4)]
    archive = archive_of(tmp_path, sources, drained_from=queue.url)

    first = restored(engine, archive, queue.url, limit=3)
    rest = restored(engine, archive, queue.url)
    again = restored(engine, archive, queue.url)

    assert [first.count(disposition) for disposition in ("restored", "over_limit")] == [3, 1]
    assert [rest.count(disposition) for disposition in ("restored", "restored_before")] == [1, 3]
    assert [again.count(disposition) for disposition in ("restored", "restored_before")] == [0, 4]
    assert contents(receive_all(queue)) == contents(sources)
    assert analyzed(engine, archive).messages == 0
    assert list(ledger_files(archive)[1]) == []


def test_what_was_sent_or_discarded_stays_away(
    engine: Engine, make_queue: MakeQueue, tmp_path: Path
) -> None:
    queue = make_queue("parked")
    main_queue = make_queue("main")
    archive = archive_of(tmp_path, [parked(n) for n in range(4)], drained_from=queue.url)
    sent = planned(archive)
    discarded = planned(archive, "discard")
    executed(engine, archive, sent, main_queue.url, where="message_id < 'm-002'")
    executed(engine, archive, discarded, main_queue.url)

    without = restored(engine, archive, queue.url)
    undone = restored(engine, archive, queue.url, include_discarded=True)
    redriven = executed(engine, archive, sent, main_queue.url)

    assert [without.count(w) for w in ("restored", "sent_before", "discarded_before")] == [0, 2, 2]
    assert [undone.count(w) for w in ("restored", "sent_before")] == [2, 2]
    assert [redriven.count(w) for w in ("sent", "restored_before")] == [0, 2]
    assert len(receive_all(queue)) == 2


@pytest.mark.both_engines
def test_fifo_groups_go_back_in_order(
    engine: Engine, make_queue: MakeQueue, tmp_path: Path
) -> None:
    queue = make_queue("parked.fifo")
    archive = archive_of(
        tmp_path,
        [parked(n, MessageGroupId=f"g-{n % 2}", SequenceNumber=str(100 - n)) for n in range(6)],
        drained_from=queue.url,
    )

    assert restored(engine, archive, queue.url).count("restored") == 6
    arrived = [message.body for message in receive_all(queue) if message.message_group_id == "g-0"]
    assert arrived == [parked(n).body for n in (4, 2, 0)]


@pytest.mark.both_engines
def test_messages_that_are_drained_meanwhile_go_once_with_this_restore_or_the_next(
    engine: Engine, make_queue: MakeQueue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one divides more messages into more chunks."""
    queue = make_queue("parked")
    sources = [parked(n) for n in range(150)]
    archive = archive_of(tmp_path, sources[:1], drained_from=queue.url)

    def drain_and_read(*arguments: Any) -> pa.Table:
        archive_of(tmp_path, sources[1:9], drained_from=queue.url)
        return first_rows_of(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(restore_module, "first_rows_of", drain_and_read)
        assert restored(engine, archive, queue.url, limit=5).count("restored") == 5
    archive_of(tmp_path, sources[9:], drained_from=queue.url)

    assert restored(engine, archive, queue.url).count("restored") == 145
    assert contents(receive_all(queue)) == contents(sources)


@pytest.mark.both_engines
def test_dry_run_says_what_would_go_back_and_sends_nothing(
    engine: Engine, make_queue: MakeQueue, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    queue = make_queue("parked")
    archive = archive_of(tmp_path, [parked(n) for n in range(3)], drained_from=queue.url)
    place = ["--archive", archive.root, "--engine", engine.name]
    argv = ["restore", *place, "--parked-queue-url", queue.url]

    assert main([*argv, "--where", "message_id > 'm-000'"]) == 0

    assert "dry run: nothing was sent. 2 would go to" in capsys.readouterr().out
    assert receive_all(queue) == []
    assert archive.list("ledger") == []
