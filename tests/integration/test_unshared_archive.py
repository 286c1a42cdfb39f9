"""An archive in a folder that each machine has for itself: no verb may delete or send."""

from pathlib import Path

import pytest

from dlq.archive.ledger.claims import attempt_names
from dlq.archive.storage.local import LocalArchive
from dlq.cli.running import main
from tests.integration.conftest import Capture, MakeQueue
from tests.integration.spark_world import Spark, archive_of, bodies, entry_of, parked, receive_all
from tests.support.approved_plan import planned
from tests.support.small_jobs import DRAIN


@pytest.fixture
def other_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where tasks find a folder of the archive's name: what travels to them opens this one."""
    disk = tmp_path / "disk of the executors"
    monkeypatch.setattr(LocalArchive, "__reduce__", lambda _: (LocalArchive, (str(disk),)))
    return disk


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def test_drain_deletes_nothing_from_the_queue(
    spark: Spark, make_queue: MakeQueue, tmp_path: Path, other_disk: Path, capsys: Capture
) -> None:
    source = make_queue("parked")
    sent = [parked(n) for n in range(5)]
    source.send([entry_of(message) for message in sent])
    place = ["--archive", str(tmp_path / "archive"), "--parked-queue-url", source.url]

    exit_code = main([*DRAIN, *place, "--wait-seconds", "0", "--tasks", "2"])

    assert exit_code == 2
    left = receive_all(source)
    assert sorted(bodies(left)) == sorted(bodies(sent))
    assert {message.system["ApproximateReceiveCount"] for message in left} == {"1"}
    assert files_below(other_disk) == []
    shown = capsys.readouterr().err
    assert f"archive {other_disk}: an executor does not see the file proofs/" in shown
    assert "all executors must share the archive: give s3://BUCKET/PREFIX" in shown


@pytest.mark.parametrize("verb", ["redrive", "restore"])
def test_no_message_is_sent_and_nothing_is_claimed(
    spark: Spark,
    make_queue: MakeQueue,
    tmp_path: Path,
    request: pytest.FixtureRequest,
    capsys: Capture,
    verb: str,
) -> None:
    queue = make_queue("destination")
    messages = [parked(2 * n) for n in range(4)]
    archive = archive_of(tmp_path / "archive", messages, drained_from=queue.url)
    plan = planned(archive)
    other_disk: Path = request.getfixturevalue("other_disk")
    to = {
        "redrive": ["--plan", plan, "--to-queue-url", queue.url],
        "restore": ["--parked-queue-url", queue.url],
    }
    execution = ["--execute", "--reason", "it is fixed"]

    exit_code = main([verb, "--archive", archive.root, *to[verb], *execution])

    assert exit_code == 2
    assert receive_all(queue) == []
    assert files_below(other_disk) == []
    assert attempt_names(archive) == []
    assert "an executor does not see the file ledger/runs/" in capsys.readouterr().err
