import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier, Thread

import pytest

from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.archive.local import LocalArchive
from spark_reprocess.archive.turns import Run, Turn, others_alive, taking_turns
from spark_reprocess.errors import ArchiveError, BusyError

TTL = 900.0


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return open_archive(str(tmp_path))


@pytest.fixture
def clock() -> Clock:
    return Clock()


def run(run_id: str, claims: str) -> Run:
    return Run(run_id, claims, f"plan {claims}", "me@here")


def test_runs_that_share_their_claims_go_side_by_side(archive: Archive, clock: Clock) -> None:
    with (
        taking_turns(archive, run("r-1", "p-1"), TTL, clock),
        taking_turns(archive, run("r-2", "p-1"), TTL, clock),
    ):
        pass


def test_run_with_other_claims_has_to_wait(archive: Archive, clock: Clock) -> None:
    with (
        taking_turns(archive, run("r-1", "p-1"), TTL, clock),
        pytest.raises(BusyError, match=r"plan p-1 is being carried out by me@here since 2023"),
    ):
        taking_turns(archive, run("r-2", "p-2"), TTL, clock).__enter__()


def test_run_that_was_sent_away_is_in_nobodys_way(archive: Archive, clock: Clock) -> None:
    with (
        taking_turns(archive, run("r-1", "p-1"), TTL, clock),
        pytest.raises(BusyError),
    ):
        taking_turns(archive, run("r-2", "p-2"), TTL, clock).__enter__()

    with taking_turns(archive, run("r-3", "p-3"), TTL, clock):
        pass


def test_turn_ends_with_the_run_even_if_it_fails(archive: Archive, clock: Clock) -> None:
    with pytest.raises(ZeroDivisionError), taking_turns(archive, run("r-1", "p-1"), TTL, clock):
        raise ZeroDivisionError

    with taking_turns(archive, run("r-2", "p-2"), TTL, clock):
        pass


def test_killed_run_counts_as_alive_until_its_time_is_up(archive: Archive, clock: Clock) -> None:
    Turn(archive, run("r-1", "p-1"), TTL, clock).announce()

    clock.now += TTL - 1
    assert [one.run.run_id for one in others_alive(archive, run("r-2", "p-2"), clock())] == ["r-1"]
    clock.now += 1
    assert others_alive(archive, run("r-2", "p-2"), clock()) == []


def test_run_that_renews_its_time_stays_alive(archive: Archive, clock: Clock) -> None:
    turn = Turn(archive, run("r-1", "p-1"), TTL, clock)
    for _ in range(5):
        turn.announce()
        clock.now += TTL - 1

    assert others_alive(archive, run("r-2", "p-2"), clock())


def test_of_two_that_start_at_the_same_moment_at_most_one_goes_on(
    tmp_path: Path, clock: Clock
) -> None:
    both = Barrier(2)

    def starts(archive: Archive, name: str) -> bool:
        both.wait()
        try:
            with taking_turns(archive, run(f"r-{name}", name), TTL, clock):
                both.wait()
                return True
        except BusyError:
            both.wait()
            return False

    with ThreadPoolExecutor(2) as executor:
        for attempt in range(20):
            archive = open_archive(str(tmp_path / str(attempt)))
            assert sum(executor.map(partial(starts, archive), "ab")) <= 1


def test_run_that_cannot_renew_its_time_learns_of_it(archive: Archive, clock: Clock) -> None:
    turn = Turn(archive, run("r-1", "p-1"), TTL, clock)
    turn.announce()

    clock.now += TTL / 2 - 1
    assert turn.trouble() == ""
    clock.now += 1
    assert turn.trouble().startswith("turns/r-1.json was not renewed for 450 s")


def test_machine_that_slept_past_its_time_does_not_take_its_turn_back(
    archive: Archive, clock: Clock
) -> None:
    """Another plan may have begun since, and may be at work on the same messages."""
    ttl_seconds = 0.1
    turn = Turn(archive, run("r-1", "p-1"), ttl_seconds, clock)
    turn.announce()
    clock.now += 3600

    turn.renew()

    assert "was not renewed for 3600 s" in turn.trouble()
    assert others_alive(archive, run("r-2", "p-2"), clock()) == []


def test_machine_that_slept_within_its_time_goes_on(archive: Archive, clock: Clock) -> None:
    ttl_seconds = 0.1
    turn = Turn(archive, run("r-1", "p-1"), ttl_seconds, clock)
    turn.announce()
    clock.now += ttl_seconds * 0.9
    renewing = Thread(target=turn.renew)
    renewing.start()
    until(lambda: not turn.trouble())
    turn.end()
    renewing.join()


def until(is_so: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < give_up_at
        time.sleep(0.01)


def test_full_disk_ends_the_turn_by_time(tmp_path: Path, clock: Clock) -> None:
    class Full(LocalArchive):
        def write(self, path: str, content: bytes) -> None:
            if path.endswith(".end.json"):
                raise ArchiveError("no room")
            super().write(path, content)

    archive = Full(str(tmp_path))
    with taking_turns(archive, run("r-1", "p-1"), TTL, clock):
        pass

    assert others_alive(archive, run("r-2", "p-2"), clock())
    assert others_alive(archive, run("r-2", "p-2"), clock() + TTL) == []


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"run_id": "x"}', b'{"alive_until": 3}'])
def test_file_that_somebody_changed_is_named(
    archive: Archive, clock: Clock, content: bytes
) -> None:
    archive.write("turns/r-1.json", content)

    with pytest.raises(ArchiveError, match=r"turns/r-1\.json cannot be read"):
        others_alive(archive, run("r-2", "p-2"), clock())


def test_files_say_who_does_what(archive: Archive, clock: Clock) -> None:
    with taking_turns(archive, run("r-1", "p-1"), TTL, clock):
        content = json.loads(archive.read("turns/r-1.json") or b"")

    assert (content["who"], content["what"]) == ("me@here", "plan p-1")
    assert archive.list("turns") == ["turns/r-1.end.json", "turns/r-1.json"]
