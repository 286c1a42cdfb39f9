"""Runs compact the ledger when they end, so that later commands open few files of it."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from spark_reprocess.archive import files
from spark_reprocess.archive.ledgers import ledger_files
from spark_reprocess.inspect.status import StatusOptions, status
from tests.integration.desk import MakeDesk, standard
from tests.integration.spark_world import FullAtCompaction, LoggedReads
from tests.ledgers import uncompacted

PER_RUN = 150
"""Messages, in two chunks."""


@contextmanager
def ledger_reads(folder: Path) -> Iterator[Counter[str]]:
    """Count which files of the ledger the block reads, in the driver and in tasks."""
    log = folder / "reads.log"
    log.write_text("")
    found: Counter[str] = Counter()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "LocalArchive", partial(LoggedReads, log=str(log)))
        yield found
    found.update(path for path in log.read_text().splitlines() if path.startswith("ledger/"))


def test_status_and_dry_run_open_as_many_files_after_two_runs_as_after_one(
    make_desk: MakeDesk, tmp_path_factory: pytest.TempPathFactory
) -> None:
    desk = make_desk(standard(2 * PER_RUN))
    folder = tmp_path_factory.mktemp("reads")
    commands: list[Callable[[], object]] = [
        lambda: status(StatusOptions(desk.archive.root)),
        lambda: desk.redrive(execute=False),
    ]

    def opened() -> list[Counter[str]]:
        found = []
        for command in commands:
            with ledger_reads(folder) as reads:
                command()
            found.append(reads)
        return found

    desk.redrive(limit=PER_RUN)
    after_one = opened()
    desk.redrive(limit=PER_RUN)
    after_two = opened()

    assert len(uncompacted(desk.archive)) > 2
    for one, two in zip(after_one, after_two, strict=True):
        assert list(one) == ["ledger/compacted/00000001.parquet"]
        assert list(two) == ["ledger/compacted/00000002.parquet"]
        assert one.total() == two.total()


def test_compaction_that_fails_does_not_fail_the_run(
    make_desk: MakeDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = make_desk(standard(PER_RUN))

    with monkeypatch.context() as patch:
        patch.setattr(files, "LocalArchive", FullAtCompaction)
        summary = desk.redrive(limit=PER_RUN - 1)

    assert summary.count("sent") == PER_RUN - 1
    assert "the ledger was not compacted" in summary.notes[-1]
    last = desk.redrive()
    assert (last.count("sent"), last.count("sent_before")) == (1, PER_RUN - 1)
    assert ledger_files(desk.archive).others == ()
    assert desk.arrived().total() == PER_RUN
