"""A run leaves one file of results, so that later commands open few files of the ledger."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from dlq.archive.ledger.claims import plan_folder
from dlq.archive.ledger.open_set import OPEN_SET
from dlq.archive.ledger.run_results import ledger_files
from dlq.archive.storage import files
from dlq.inspect.status import StatusOptions, status
from tests.integration.desk import MakeDesk, standard
from tests.integration.spark_world import LoggedReads
from tests.support.ledgers import attempts_of

PER_RUN = 150
"""Messages, in two chunks."""


def ledger_reads(folder: Path, command: Callable[[], object]) -> set[str]:
    """Return which files of the ledger the command reads, in the driver and in tasks."""
    log = folder / "reads.log"
    log.write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "LocalArchive", partial(LoggedReads, log=str(log)))
        command()
    return {path for path in log.read_text().splitlines() if path.startswith("ledger/")}


def test_status_and_dry_run_open_a_file_for_each_run(
    make_desk: MakeDesk, tmp_path_factory: pytest.TempPathFactory
) -> None:
    desk = make_desk(standard(2 * PER_RUN))
    folder = tmp_path_factory.mktemp("reads")
    # What opens its archive itself opens one that logs; what is given one is given one.
    logged = replace(desk, archive=LoggedReads(desk.archive.root, str(folder / "reads.log")))
    commands: list[Callable[[], object]] = [
        lambda: status(StatusOptions(desk.archive.root)),
        lambda: logged.redrive(execute=False),
    ]

    for number in (1, 2):
        desk.redrive(limit=PER_RUN)
        for command in commands:
            reads = ledger_reads(folder, command)

            known_file = f"{plan_folder(Path(desk.plan).parent.name)}/known.parquet"
            opened = {path for path in reads if path.endswith(".parquet")} - {OPEN_SET, known_file}
            assert opened == set(ledger_files(desk.archive)[0])
            assert len(opened) == number
            assert not any("/chunk-" in path for path in reads)

    for attempt in attempts_of(desk.archive):
        assert set(attempt.claim.drain_ids) == {"20231121T031502Z-ab12cd"}
