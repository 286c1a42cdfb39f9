from dataclasses import replace
from pathlib import Path

import pytest

from spark_reprocess.archive.ledger.claims import (
    PLACES,
    Attempt,
    AttemptName,
    Claim,
    Ledger,
    Result,
    open_ranges,
    timestamp,
)
from spark_reprocess.archive.ledger.disposition import Disposition
from spark_reprocess.archive.storage.files import Archive, open_archive
from spark_reprocess.errors import ArchiveError

NOW = 1_700_000_000.0


def claim(*ids: str) -> Claim:
    return Claim("run-1", "me@here", "why", "https://q", timestamp(NOW), ids)


def result(message_id: str, outcome: Disposition) -> Result:
    return Result(message_id, outcome, timestamp(NOW))


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return open_archive(str(tmp_path))


@pytest.fixture
def ledger(archive: Archive) -> Ledger:
    return Ledger(archive, "p-1")


def test_files_have_the_names_that_were_promised(ledger: Ledger, archive: Archive) -> None:
    ledger.claim("g-1", 3, 1, claim("m-1"))
    ledger.record("g-1", 3, 1, [result("m-1", Disposition.SENT)])

    assert archive.list("ledger") == [
        "ledger/plan_id=p-1/g-1/chunk-00003.attempt-1.from-00000.claim.json",
        "ledger/plan_id=p-1/g-1/chunk-00003.attempt-1.from-00000.result.jsonl",
    ]


@pytest.mark.parametrize(
    ("ends", "ranges"),
    [
        ([], [(1, 0, PLACES)]),
        ([(1, 10)], [(2, 0, 10), (1, 10, PLACES)]),
        ([(1, 10), (1, 30), (2, 20)], [(3, 0, 20), (2, 20, 30), (1, 30, PLACES)]),
        ([(1, PLACES)], [(2, 0, PLACES)]),
        ([(1, PLACES), (2, PLACES)], [(3, 0, PLACES)]),
        # Read while others went on: what the first attempt claimed from 10 on was not seen.
        ([(1, 10), (2, 50)], [(3, 0, 10), (1, 10, PLACES)]),
    ],
)
def test_next_claims_begin_where_the_claims_of_their_attempt_end(
    ends: list[tuple[int, int]], ranges: list[tuple[int, int, int]]
) -> None:
    attempts = [
        Attempt(AttemptName("p-1", "g-1", 1, number), replace(claim("m"), end=end), None)
        for number, end in ends
    ]

    assert open_ranges(attempts) == ranges


def test_claims_of_a_chunk_are_read_one_behind_the_other(ledger: Ledger) -> None:
    for number, first, end in ((1, 0, 10), (1, 10, 30), (2, 0, 5), (2, 5, 20)):
        one = replace(claim(f"m-{number}-{first}"), end=end)
        assert ledger.claim("g-1", 3, number, one, first)
        assert not ledger.claim("g-1", 3, number, replace(one, end=end + 1), first)
        ledger.record("g-1", 3, number, [], first)

    found = ledger.attempts("g-1", 3)

    assert [(one.name.number, one.name.first, one.claim.end) for one in found] == [
        (1, 0, 10),
        (1, 10, 30),
        (2, 0, 5),
        (2, 5, 20),
    ]
    assert all(one.results == () for one in found)


@pytest.mark.parametrize("end", [0, 5, PLACES + 1])
def test_claim_that_ends_nowhere_is_named(ledger: Ledger, end: int) -> None:
    ledger.claim("g-1", 1, 1, replace(claim("m"), end=5))
    ledger.claim("g-1", 1, 1, replace(claim("m"), end=end), 5)

    with pytest.raises(ArchiveError, match=r"from-00005\.claim\.json"):
        ledger.attempts("g-1", 1)


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"version": 1}', b"\xff"])
def test_claim_that_was_changed_is_an_error(
    ledger: Ledger, archive: Archive, content: bytes
) -> None:
    archive.write("ledger/plan_id=p-1/g-1/chunk-00001.attempt-1.from-00000.claim.json", content)

    with pytest.raises(ArchiveError, match=r"claim\.json cannot be read"):
        ledger.attempts("g-1", 1)
