import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.archive.lease import take_lease
from spark_reprocess.errors import InputError
from spark_reprocess.run.lease_keeper import LeaseKeeper, lease_held
from tests.builders import NOW


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return open_archive(str(tmp_path))


def test_a_run_keeps_others_away_until_it_is_over(archive: Archive) -> None:
    with (
        lease_held(archive, "run-1", "me"),
        pytest.raises(InputError, match="run-1 of me is at work"),
        lease_held(archive, "run-2", "you"),
    ):
        raise AssertionError

    with lease_held(archive, "run-3", "you") as keeper:
        keeper.require()


def test_a_run_that_fails_gives_the_archive_up(archive: Archive) -> None:
    with pytest.raises(ZeroDivisionError), lease_held(archive, "run-1", "me"):
        _ = 1 / 0

    with lease_held(archive, "run-2", "you"):
        pass


def test_a_long_run_renews_its_lease(archive: Archive) -> None:
    ticks = itertools.count(NOW)

    with lease_held(archive, "run-1", "me", lease_seconds=0.05, now_seconds=lambda: next(ticks)):
        wait_until(lambda: held_until(archive) > NOW + 5)


def held_until(archive: Archive) -> float:
    content = archive.read("runs/lease-000001.json")
    assert content is not None
    return float(json.loads(content)["until_seconds"])


def wait_until(is_so: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < give_up_at
        time.sleep(0.01)


def test_a_run_that_was_overtaken_stops_at_its_next_step(archive: Archive) -> None:
    lease = take_lease(archive, "run-1", "me", NOW, lease_seconds=0.01)
    keeper = LeaseKeeper(lease, time.time)
    take_lease(archive, "run-2", "you", NOW + 1, 600)

    keeper.keep()

    with pytest.raises(InputError, match=r"run-1 was out of touch .* another run has taken over"):
        keeper.require()
