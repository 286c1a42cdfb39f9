"""Claims and results, the state of a message, and the result file of a run."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_reprocess.archive.ledger.claims import (
    OUTCOMES,
    PLACES,
    Attempt,
    AttemptName,
    Claim,
    Ledger,
    Result,
    list_runs,
    open_ranges,
    require_unsealed,
    timestamp,
)
from spark_reprocess.archive.ledger.disposition import Disposition
from spark_reprocess.archive.ledger.erasures import Erasure, record_erasure
from spark_reprocess.archive.ledger.message_state import STRENGTH, entries_of, states_of, strongest
from spark_reprocess.archive.ledger.open_set import claimed_table, planned_states, read_messages
from spark_reprocess.archive.ledger.run_results import clear_plans, close_runs, ledger_files
from spark_reprocess.archive.messages.dead_letter_schema import to_row
from spark_reprocess.archive.messages.message_index import find_attempts, find_sender
from spark_reprocess.archive.messages.message_store import write_messages
from spark_reprocess.archive.plan_lock import LockHolder, plan_lock
from spark_reprocess.archive.storage.files import Archive, open_archive
from spark_reprocess.errors import ArchiveError, InputError
from spark_reprocess.run import STATUS_FILE, unfinished_ramp
from tests.support.approved_plan import planned
from tests.support.builders import message, queue_url
from tests.support.ledgers import (
    NOW,
    RUNS,
    DisturbedArchive,
    MemoryArchive,
    Try,
    attempts_of,
    begin,
    tries,
    write,
)

TTL = 900.0
RUN = ("p-1", "run-1")
FILE = "ledger/runs/p-1/run-1.parquet"
CHANGED = f"{FILE} cannot be read .*; somebody changed it"


def claim(*ids: str, run_id: str = "run-1", age: float = 0.0) -> Claim:
    return Claim(run_id, "me@here", "why", "https://q", timestamp(NOW - age), ids)


@pytest.fixture
def ledger(archive: Archive) -> Ledger:
    return Ledger(archive, "p-1")


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


def attempt(
    number: int, *ids: str, age: float = 0.0, results: dict[str, Disposition] | None = None
) -> Attempt:
    lines = None
    if results is not None:
        lines = tuple(Result(*pair, timestamp(NOW)) for pair in results.items())
    return Attempt(AttemptName("p-1", "g-1", 1, number), claim(*ids, age=age), lines)


def attempts_in(words: str) -> list[Attempt]:
    """Read ``claimed 900, sent``: a claim of that age without results, then one with this result.

    The result of ``nothing`` leaves the message out.
    """
    attempts = []
    for number, words_of_one in enumerate(filter(None, words.split(", ")), 1):
        word, _, age = words_of_one.partition(" ")
        results = {} if word == "nothing" else {"m": Disposition(word)} if not age else None
        attempts.append(attempt(number, "m", age=float(age or 0), results=results))
    return attempts


@pytest.mark.parametrize(
    ("attempts", "state"),
    [
        ("", None),
        ("claimed 899", "busy"),
        ("claimed 900", "in_doubt"),
        ("nothing", "in_doubt"),
        ("sent", "sent"),
        ("discarded", "discarded"),
        ("failed", None),
        ("in_doubt", "in_doubt"),
        ("claimed 900, sent", "sent"),
        ("claimed 900, failed", "in_doubt"),
        ("claimed 900, discarded", "discarded"),
        ("claimed 900, claimed 5", "busy"),
        ("failed, claimed 5", "busy"),
        ("discarded, claimed 5", "busy"),
        ("discarded, in_doubt", "in_doubt"),
        ("discarded, in_doubt, restored", "restored"),
        *((f"sent, {later}", "sent") for later in ("claimed 5", "in_doubt", "failed", "restored")),
        ("failed, failed", None),
    ],
)
def test_state_follows_from_all_attempts(attempts: str, state: str | None) -> None:
    found = states_of([*attempts_in(attempts), attempt(9, "other", age=5)], NOW, TTL)

    assert found.get("m") == state


@pytest.mark.parametrize(
    ("ttl_seconds", "age", "state"),
    [
        (2000, 1999, Disposition.BUSY),
        (2000, 2000, Disposition.IN_DOUBT),
        (60, 100, Disposition.BUSY),
    ],
)
def test_claim_counts_for_as_long_as_its_own_run_asked_or_the_reader_waits(
    ttl_seconds: float, age: float, state: Disposition
) -> None:
    """A slow run asks for more than a reader's 900 s, and may be sending still."""
    other = replace(claim("m", age=age), ttl_seconds=ttl_seconds)

    assert states_of([replace(attempt(1), claim=other)], NOW, TTL) == {"m": state}


outcomes = st.none() | st.dictionaries(st.just("m"), st.sampled_from(OUTCOMES))


@given(st.lists(st.tuples(outcomes, st.floats(0, 2000))), st.randoms())
def test_order_of_attempts_does_not_matter(
    tries: list[tuple[dict[str, Disposition] | None, float]], random: Random
) -> None:
    attempts = [attempt(1, "m", age=age, results=results) for results, age in tries]
    shuffled = list(attempts)
    random.shuffle(shuffled)

    assert states_of(attempts, NOW, TTL) == states_of(shuffled, NOW, TTL)


def test_every_outcome_has_a_rule() -> None:
    assert STRENGTH.keys() == {*OUTCOMES, Disposition.BUSY}


def test_erased_message_is_not_pending_and_a_sent_one_stays_sent(archive: Archive) -> None:
    ids = ("m-sent", "m-in-doubt", "m-open")
    ledger = begin(archive, "p-1")
    ledger.claim("g-1", 1, 1, claim(*ids[:2], age=2000))
    ledger.record("g-1", 1, 1, [Result("m-sent", Disposition.SENT, timestamp(NOW))])

    def found() -> list[str]:
        states: list[str] = planned_states(archive, "p-1", pa.array(ids), NOW).to_pylist()
        return states

    assert found() == ["sent", "in_doubt", "pending"]
    record_erasure(archive, Erasure("e", "me", "why", timestamp(NOW), {one: ["d"] for one in ids}))
    assert found() == ["sent", "erased", "erased"]


def sent(message_id: str) -> Result:
    return Result(message_id, Disposition.SENT, timestamp(NOW), f"copy of {message_id}")


def run_of(archive: Archive, chunk: int, *ids: str, run_id: str = "run-1") -> None:
    """What a run leaves that has sent one chunk."""
    ledger = begin(archive, "p-1", run_id)
    assert ledger.claim("g-1", chunk, 1, claim(*ids, run_id=run_id))
    ledger.record("g-1", chunk, 1, [sent(one) for one in ids])


def closed(archive: Archive, run: tuple[str, str] = RUN) -> None:
    assert close_runs(archive, run, NOW) == ()


def open_chunks(archive: Archive) -> list[int]:
    """The chunks whose claims readers open."""
    return [attempt.name.chunk for attempt in ledger_files(archive)[1]]


def states(archive: Archive) -> dict[str, str]:
    rows = strongest(claimed_table(archive, NOW, TTL), "message_id").to_pylist()
    return {row["message_id"]: row["state"] for row in rows}


@given(st.lists(tries(), max_size=12), st.sets(st.sampled_from(RUNS)), st.lists(tries()))
def test_readers_say_the_same_whichever_runs_are_closed(
    first: list[Try], ended: set[tuple[str, str]], then: list[Try]
) -> None:
    """Results that come later win; claims that a closed run makes later count for nothing."""
    archive = MemoryArchive()
    write(archive, first)
    for run in sorted(ended & list_runs(archive).keys()):
        closed(archive, run)
    for chunk, one in enumerate(first, 1):
        if one.results is None and one.later is not None:
            Ledger(archive, one.plan_id).record("g-1", chunk, 1, one.later)
    write(archive, then, len(first) + 1)

    is_closed = list_runs(archive)
    said = [
        attempt
        for attempt in attempts_of(archive)
        if attempt.name.chunk <= len(first)
        or not is_closed[attempt.name.plan_id, attempt.claim.run_id]
    ]
    entries = entries_of(said, NOW, TTL)
    assert states(archive) == {one: entry.state for one, entry in entries.items()}
    ids = {message_id for attempt in said for message_id in attempt.claim.message_ids}
    found = {attempt.name: attempt for attempt in find_attempts(archive, ids)}
    assert found == {one.name: one for one in said if one.claim.message_ids}

    # Whoever removes claims first seals the plans and closes their runs.
    clear_plans(archive, timestamp(NOW + 1))
    assert states(archive) == {one: entry.state for one, entry in entries.items()}


def test_result_that_comes_after_the_file_wins(archive: Archive) -> None:
    slow = begin(archive, "p-1")
    slow.claim("g-1", 1, 1, claim("m-1", "m-2"))
    closed(archive)
    assert states(archive) == {"m-1": "busy", "m-2": "busy"}

    refused = Result("m-2", Disposition.FAILED, timestamp(NOW))
    slow.record("g-1", 1, 1, [sent("m-1"), refused])

    assert states(archive) == {"m-1": "sent"}
    assert find_sender(archive, "copy of m-1") == "m-1"
    (found,) = find_attempts(archive, ["m-1"])
    assert found.results == (sent("m-1"), refused)


def test_dead_run_is_closed_once_nothing_of_it_is_busy(archive: Archive) -> None:
    """By the next run that ends, of whichever plan, unless it still holds the plan lock."""
    begin(archive, "p-1").claim("g-1", 1, 1, replace(claim("m-1"), ttl_seconds=60))
    begin(archive, "p-2", "run-2")
    run = ("p-2", "run-2")

    assert close_runs(archive, run, NOW + 59) == ()
    assert list_runs(archive) == {RUN: False, run: True}
    with plan_lock(archive, LockHolder("run-1", "p-1", "plan p-1", "you")) as lock:
        assert close_runs(archive, run, lock._since) == ()  # noqa: SLF001 - its clock
        assert list_runs(archive) == {RUN: False, run: True}
    assert close_runs(archive, run, NOW + 60) == ()
    assert list_runs(archive) == {RUN: True, run: True}


def test_results_older_than_what_is_asked_for_are_not_read() -> None:
    """But those of which the open set does not know how old they are."""
    archive = MemoryArchive()
    run_of(archive, 1, "m-1")
    closed(archive)
    begin(archive, "p-2", "run-2").claim("g-1", 2, 1, claim("m-2", run_id="run-2"))
    closed(archive, ("p-2", "run-2"))
    for has_open_set in (False, True):
        for since in (timestamp(NOW + 1), timestamp(NOW)):
            archive.opened.clear()
            claimed_table(archive, NOW, since=since)
            is_older = has_open_set and since > timestamp(NOW)
            assert (FILE in archive.opened) is not is_older
            assert "ledger/runs/p-2/run-2.parquet" in archive.opened
        archive.opened.clear()
        find_attempts(archive, ["m-1"], ["20240101T000000Z-aaaaaa"])
        assert (FILE in archive.opened) is not has_open_set
        read_messages(archive, NOW).open_set.write(archive)


def test_of_two_that_close_a_run_one_writes_the_file(archive: Archive) -> None:
    run_of(archive, 1, "m-1")

    closed(DisturbedArchive(archive.root, [lambda: closed(archive)], ".parquet"))

    assert archive.list("ledger/runs") == [
        *("ledger/runs/p-1/run-1.closing", "ledger/runs/p-1/run-1.json", FILE)
    ]
    assert states(archive) == {"m-1": "sent"}


def test_two_runs_of_a_plan_have_a_file_each(archive: Archive) -> None:
    run_of(archive, 1, "m-1")
    run_of(archive, 2, "m-2", run_id="run-2")
    with plan_lock(archive, LockHolder("run-2", "p-1", "plan p-1", "you"), now_seconds=lambda: NOW):
        closed(archive)
    assert open_chunks(archive) == [2]

    closed(archive, ("p-1", "run-2"))

    assert open_chunks(archive) == []
    assert pq.ParquetFile(Path(archive.root, FILE)).read()["chunk"].to_pylist() == [1]
    assert states(archive) == {"m-1": "sent", "m-2": "sent"}


def full() -> None:
    raise ArchiveError("archive: no space left on device")


@pytest.mark.parametrize("reason", ["why", "caf\udce9"])
def test_run_that_cannot_be_closed_is_noted_and_stays_open(archive: Archive, reason: str) -> None:
    """Parquet cannot hold what a terminal with another encoding gives as a reason."""
    begin(archive, "p-1").claim("g-1", 1, 1, replace(claim("m-1"), reason=reason))
    Ledger(archive, "p-1").record("g-1", 1, 1, [sent("m-1")])

    (note,) = close_runs(DisturbedArchive(archive.root, [full], ".parquet"), RUN, NOW)

    assert "results were not put into one file" in note
    assert open_chunks(archive) == [1]
    assert states(archive) == {"m-1": "sent"}


def test_sealed_plan_is_not_carried_out_again(archive: Archive) -> None:
    run_of(archive, 1, "m-1")
    run_of(archive, 2, "m-2", run_id="run-2")
    closed(archive)
    clear_plans(archive, timestamp(NOW))
    require_unsealed(archive, "p-1")

    clear_plans(archive, timestamp(NOW + 1))

    for act in (lambda: require_unsealed(archive, "p-1"), lambda: begin(archive, "p-1", "run-3")):
        with pytest.raises(InputError, match=r"plan p-1: is too old to be carried out.*anew"):
            act()
    assert archive.list("ledger/plan_id=p-1") == []
    assert states(archive) == {"m-1": "sent", "m-2": "sent"}


def test_restores_are_never_sealed(archive: Archive) -> None:
    """Their plan id is their queue's own, for ever."""
    begin(archive, "restore-1", verb="restore")

    clear_plans(archive, timestamp(NOW + 1))

    require_unsealed(archive, "restore-1")


def only(*columns: str) -> Callable[[Path], None]:
    return lambda path: pq.write_table(pq.ParquetFile(path).read().select(columns), path)


def overwritten(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4 : len(content) // 2] = b"\xff" * (len(content) // 2 - 4)
    path.write_bytes(content)


def teleported(path: Path) -> None:
    """A message with an unknown outcome must not be taken for one that is open."""
    table = pq.ParquetFile(path).read()
    (row,) = table.to_pylist()
    row["messages"][0]["outcome"] = "teleported"
    pq.write_table(table.from_pylist([row], schema=table.schema), path)


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda path: path.write_bytes(b"no Parquet"), CHANGED),
        (only("plan_id"), CHANGED),
        (only("plan_id", "unit", "chunk", "number"), CHANGED),
        (overwritten, f"{FILE} cannot be read"),
        (teleported, "has an unknown outcome"),
    ],
)
def test_damaged_file_is_named(
    archive: Archive, damage: Callable[[Path], object], fault: str
) -> None:
    run_of(archive, 1, *(f"m-{n}" for n in range(100)))
    closed(archive)
    damage(Path(archive.root, FILE))

    with pytest.raises(ArchiveError, match=fault):
        states(archive) if damage is not overwritten else find_attempts(archive, ["m-1"])


def test_ramp_of_a_sealed_plan_is_left(tmp_path: Path) -> None:
    """Every scheduled run would end there."""
    archive = open_archive(str(tmp_path), creates=True)
    row = to_row(message("m-1"), queue_url("p"), datetime.fromtimestamp(NOW, UTC))
    write_messages(archive, "d-1", 0, [row])
    plan_id = Path(planned(archive)).parent.name
    begin(archive, plan_id)
    archive.write(STATUS_FILE, json.dumps({"ramp": plan_id}).encode())
    policy: Any = SimpleNamespace(sha256=None)
    assert unfinished_ramp(archive, policy) == plan_id

    clear_plans(archive, timestamp(NOW + 1))

    assert unfinished_ramp(archive, policy) is None
