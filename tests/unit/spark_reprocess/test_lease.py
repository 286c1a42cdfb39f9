from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.archive.lease import Lease, take_lease
from spark_reprocess.errors import ArchiveError, BusyError
from tests.builders import NOW


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return open_archive(str(tmp_path))


def take(archive: Archive, run: str, now: float = NOW) -> Lease:
    return take_lease(archive, run, f"{run}@host", now, lease_seconds=300)


def test_a_held_archive_is_refused_with_a_name_and_a_time(archive: Archive) -> None:
    take(archive, "run-1")

    with pytest.raises(BusyError, match=r"run run-1 of run-1@host .* 2023-11-14T22:18:20\.000"):
        take(archive, "run-2", NOW + 299)


def test_a_released_lease_is_free_at_once(archive: Archive) -> None:
    take(archive, "run-1").release(NOW + 1)

    assert take(archive, "run-2", NOW + 1).number == 2


def test_a_dead_holders_lease_ends_by_itself(archive: Archive) -> None:
    take(archive, "run-1")

    assert take(archive, "run-2", NOW + 300).number == 2


def test_a_renewed_lease_is_held_for_longer(archive: Archive) -> None:
    lease = take(archive, "run-1")

    assert lease.renew(NOW + 200)
    with pytest.raises(BusyError):
        take(archive, "run-2", NOW + 499)


def test_a_holder_that_was_away_too_long_learns_of_it(archive: Archive) -> None:
    late = take(archive, "run-1")
    take(archive, "run-2", NOW + 300)

    assert not late.renew(NOW + 301)
    with pytest.raises(BusyError, match="run-2"):
        take(archive, "run-3", NOW + 302)


def test_a_late_release_takes_nothing_from_the_next_holder(archive: Archive) -> None:
    late = take(archive, "run-1")
    take(archive, "run-2", NOW + 300)

    late.release(NOW + 301)

    with pytest.raises(BusyError, match="run-2"):
        take(archive, "run-3", NOW + 302)


def test_of_many_at_once_one_gets_it(archive: Archive) -> None:
    def attempt(number: int) -> bool:
        try:
            take(archive, f"run-{number}")
        except BusyError:
            return False
        return True

    with ThreadPoolExecutor(8) as executor:
        assert sum(executor.map(attempt, range(24))) == 1


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"run_id": "r", "who": "w"}'])
def test_a_lease_that_somebody_damaged_is_named(archive: Archive, content: str) -> None:
    archive.write("runs/lease-000003.json", content.encode())

    with pytest.raises(ArchiveError, match=r"runs/lease-000003\.json cannot be read"):
        take(archive, "run-1")
