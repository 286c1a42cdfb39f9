"""Claims and results, the state of a message, and the result file of a run."""

import doctest
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlq.archive.ledger import message_state
from dlq.archive.ledger.claims import (
    CHUNK_END,
    CLOSING,
    OUTCOMES,
    RESULTS,
    Attempt,
    AttemptName,
    Claim,
    Ledger,
    Result,
    RunState,
    attempt_names,
    close_open_runs,
    list_runs,
    plan_folder,
    read_attempt,
    require_unsealed,
    run_path,
    sent_text,
    timestamp,
)
from dlq.archive.ledger.disposition import Disposition
from dlq.archive.ledger.erasures import Erasure, record_erasure
from dlq.archive.ledger.message_state import STRENGTH, states_in, states_of, strongest
from dlq.archive.ledger.open_set import claimed_table, planned_states, read_messages
from dlq.archive.ledger.run_results import clear_plans, ledger_files, write_result_files
from dlq.archive.messages.dead_letter_schema import to_row
from dlq.archive.messages.message_index import find_attempts, find_sender
from dlq.archive.messages.message_store import write_messages
from dlq.archive.storage.files import Archive
from dlq.errors import ArchiveError, InputError
from tests.support.builders import message, queue_url
from tests.support.ledgers import (
    NOW,
    RUNS,
    DisturbedArchive,
    MemoryArchive,
    Try,
    attempts_of,
    begin,
    settle,
    tries,
    write,
)

RUN = ("p-1", "run-1")
FILE = "ledger/runs/p-1/run-1.parquet"
CHANGED = f"{FILE} cannot be read .*; somebody changed it"


def claim(*ids: str, age: float = 0.0) -> Claim:
    return Claim("me@here", "why", "https://q", timestamp(NOW - age), ids)


@pytest.fixture
def ledger(archive: Archive) -> Ledger:
    return Ledger(archive, "p-1", "run-1")


def test_claims_of_two_runs_do_not_meet_and_of_one_run_each_is_made_once(archive: Archive) -> None:
    first, second = (Ledger(archive, "p-1", run_id) for run_id in ("run-1", "run-2"))

    assert first.claim("u", 1, claim("m-1"))
    assert second.claim("u", 1, claim("m-2"))
    assert not first.claim("u", 1, claim("m-3"))
    assert first.claim("u", 1, claim("m-4"), first=1)

    names = attempt_names(archive, ("p-1", "run-1"))
    assert names == [first.name("u", 1), first.name("u", 1, 1)]
    assert [attempt.claim.message_ids for attempt in attempts_of(archive)] == [
        ("m-1",),
        ("m-4",),
        ("m-2",),
    ]


@pytest.mark.parametrize("end", [0, 5, CHUNK_END + 1])
def test_claim_that_ends_nowhere_is_named(ledger: Ledger, end: int) -> None:
    ledger.claim("g-1", 1, replace(claim("m"), end=end), 5)

    with pytest.raises(ArchiveError, match=r"from-00005\.claim\.json"):
        read_attempt(ledger.archive, ledger.name("g-1", 1, 5))


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"version": 1}', b"\xff"])
def test_claim_that_was_changed_is_an_error(ledger: Ledger, content: bytes) -> None:
    ledger.claim("g-1", 1, claim("m"))
    [path] = ledger.archive.list("ledger")
    ledger.archive.write(path, content)

    with pytest.raises(ArchiveError, match=r"claim\.json cannot be read"):
        read_attempt(ledger.archive, ledger.name("g-1", 1))


def attempt(
    number: int,
    *ids: str,
    age: float = 0.0,
    results: dict[str, Disposition] | None = None,
    is_closed: bool = True,
) -> Attempt:
    lines = None
    if results is not None:
        lines = tuple(Result(*pair, timestamp(NOW)) for pair in results.items())
    name = AttemptName("p-1", "run-1", "g-1", number)
    return Attempt(name, claim(*ids, age=age), lines, is_closed)


def attempts_in(words: str) -> list[Attempt]:
    """Read ``claimed, sent``: a claim of a closed run without results, then one with this result.

    ``claiming`` is a claim of an open run. The result of ``nothing`` leaves the message out.
    """
    attempts = []
    for number, outcome in enumerate(filter(None, words.split(", ")), 1):
        results: dict[str, Disposition] | None = {}
        if outcome in ("claimed", "claiming"):
            results = None
        elif outcome != "nothing":
            results = {"m": Disposition(outcome)}
        is_closed = outcome != "claiming"
        attempts.append(attempt(number, "m", age=900, results=results, is_closed=is_closed))
    return attempts


@pytest.mark.parametrize(
    ("attempts", "state"),
    [
        ("", None),
        ("claiming", "in_progress"),
        ("claimed", "unconfirmed"),
        ("nothing", "unconfirmed"),
        ("sent", "sent"),
        ("discarded", "discarded"),
        ("failed", None),
        ("unconfirmed", "unconfirmed"),
        ("claimed, sent", "sent"),
        ("claimed, failed", "unconfirmed"),
        ("claimed, discarded", "discarded"),
        ("claimed, claiming", "in_progress"),
        ("failed, claiming", "in_progress"),
        ("discarded, claiming", "in_progress"),
        ("discarded, unconfirmed", "unconfirmed"),
        ("discarded, unconfirmed, restored", "restored"),
        ("sent, claiming", "sent"),
        ("sent, unconfirmed", "sent"),
        ("sent, failed", "sent"),
        ("sent, restored", "sent"),
        ("failed, failed", None),
    ],
)
def test_state_follows_from_all_attempts(attempts: str, state: str | None) -> None:
    all_states = states_of([*attempts_in(attempts), attempt(9, "other")])

    assert all_states.get("m") == state


@pytest.mark.parametrize("age", [0, 899, 901, 3 * 86_400, -3 * 86_400])
def test_no_clock_decides_whether_a_claim_is_unconfirmed(age: float) -> None:
    """Its run is closed, or not."""
    for is_closed, state in ((False, Disposition.IN_PROGRESS), (True, Disposition.UNCONFIRMED)):
        assert states_of([attempt(1, "m", age=age, is_closed=is_closed)]) == {"m": state}


def test_claim_is_busy_until_its_run_is_closed_and_unconfirmed_from_the_marker_on(
    archive: Archive,
) -> None:
    begin(archive, "p-1").claim("g-1", 1, claim("m"))
    assert states(archive) == {"m": "in_progress"}

    close_open_runs(archive)
    assert states(archive) == {"m": "unconfirmed"}

    closed(archive)
    assert states(archive) == {"m": "unconfirmed"}


@pytest.mark.parametrize("is_closed", [True, False])
@pytest.mark.parametrize("ahead_seconds", [3 * 86_400, -3 * 86_400])
@pytest.mark.parametrize("words", ["discarded, unconfirmed", "unconfirmed, discarded"])
def test_later_run_counts_whatever_the_clocks_say(
    words: str, ahead_seconds: float, *, is_closed: bool
) -> None:
    """A message that somebody wrote off is not sent again with ``--unconfirmed send``."""
    archive = MemoryArchive()
    first, second = map(Disposition, words.split(", "))
    settle(archive, "p-1", {"m": first}, "run-1", NOW + ahead_seconds, lock=9)
    settle(archive, "p-2", {"m": second}, "run-2", lock=10)
    if is_closed:
        closed(archive)

    assert states(archive) == {"m": second}
    assert states_of(attempts_of(archive)) == {"m": second}


outcomes = st.none() | st.dictionaries(st.just("m"), st.sampled_from(OUTCOMES))


@given(st.lists(st.tuples(outcomes, st.floats(0, 2000))), st.randoms())
def test_order_of_attempts_does_not_matter(
    tries: list[tuple[dict[str, Disposition] | None, float]], random: Random
) -> None:
    attempts = [attempt(1, "m", age=age, results=results) for results, age in tries]
    shuffled = list(attempts)
    random.shuffle(shuffled)

    assert states_of(attempts) == states_of(shuffled)


def test_examples_of_entries_are_right() -> None:
    result = doctest.testmod(message_state)

    assert result.attempted
    assert not result.failed


def test_every_outcome_has_a_rule() -> None:
    assert STRENGTH.keys() == {*OUTCOMES, Disposition.IN_PROGRESS}


def test_erased_message_is_not_pending_and_a_sent_one_stays_sent(archive: Archive) -> None:
    ids = ("m-sent", "m-unconfirmed", "m-open")
    ledger = begin(archive, "p-1")
    ledger.claim("g-1", 1, claim(*ids[:2], age=2000))
    ledger.record("g-1", 1, [Result("m-sent", Disposition.SENT, timestamp(NOW))])

    def states_found() -> list[str]:
        states: list[str] = planned_states(archive, "p-1", pa.array(ids)).to_pylist()
        return states

    assert states_found() == ["sent", "unconfirmed", "pending"]
    drains = {message_id: ["d"] for message_id in ids}
    record_erasure(archive, Erasure("e", "me", "why", timestamp(NOW), drains))
    assert states_found() == ["sent", "erased", "erased"]


def sent(message_id: str) -> Result:
    return Result(message_id, Disposition.SENT, timestamp(NOW), f"copy of {message_id}")


def run_of(archive: Archive, chunk: int, *ids: str, run_id: str = "run-1") -> None:
    """Write what a run leaves that has sent one chunk."""
    ledger = begin(archive, "p-1", run_id)
    assert ledger.claim("g-1", chunk, claim(*ids))
    ledger.record("g-1", chunk, [sent(message_id) for message_id in ids])


def closed(archive: Archive, run: tuple[str, str] = RUN) -> None:
    assert write_result_files(archive, run) == ()


def open_chunks(archive: Archive) -> list[int]:
    """The chunks whose claims readers open."""
    return [attempt.name.chunk for attempt in ledger_files(archive)[1]]


def states(archive: Archive) -> dict[str, str]:
    rows = strongest(claimed_table(archive), "message_id").to_pylist()
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
    for chunk, tried in enumerate(first, 1):
        if tried.results is None and tried.later is not None:
            Ledger(archive, tried.plan_id, tried.run_id).record("g-1", chunk, tried.later)
    write(archive, then, len(first) + 1)

    run_states = list_runs(archive)
    attempts = list[Attempt]()
    ids = set[str]()
    for attempt in attempts_of(archive):
        is_late = attempt.name.chunk > len(first)
        if not is_late or run_states[attempt.name.run] is not RunState.CLOSED:
            attempts.append(attempt)
            ids.update(attempt.claim.message_ids)
    assert states(archive) == states_of(attempts)
    with_messages = {attempt.name: attempt for attempt in attempts if attempt.claim.message_ids}
    assert {attempt.name: attempt for attempt in find_attempts(archive, ids)} == with_messages

    # Before claims are removed, the plans are sealed and their runs are closed.
    clear_plans(archive, timestamp(NOW + 1))
    closed_attempts = [replace(attempt, is_closed=True) for attempt in attempts]
    assert states(archive) == states_of(closed_attempts)


def test_result_that_comes_after_the_file_wins(archive: Archive) -> None:
    slow = begin(archive, "p-1")
    slow.claim("g-1", 1, claim("m-1", "m-2"))
    closed(archive)
    assert states(archive) == {"m-1": "unconfirmed", "m-2": "unconfirmed"}

    refused = Result("m-2", Disposition.FAILED, timestamp(NOW))
    slow.record("g-1", 1, [sent("m-1"), refused])

    assert states(archive) == {"m-1": "sent"}
    assert find_sender(archive, "copy of m-1") == "m-1"
    (attempt,) = find_attempts(archive, ["m-1"])
    assert attempt.results == (sent("m-1"), refused)


def test_run_that_ends_writes_result_files_of_dead_runs_and_leaves_open_ones_alone(
    archive: Archive,
) -> None:
    """An open run holds the lock, if the one that ends has lost it."""
    open_run = ("p-1", "open")
    dead = ("p-2", "dead")
    ended = ("p-2", "ended")
    begin(archive, *dead).claim("g-1", 1, claim("m-1"))
    close_open_runs(archive)
    begin(archive, *ended)
    begin(archive, *open_run)

    assert write_result_files(archive, ended) == ()

    assert list_runs(archive) == {
        open_run: RunState.OPEN,
        dead: RunState.CLOSED,
        ended: RunState.CLOSED,
    }


def drained(archive: Archive, drain_id: str, sent_at: datetime | None, *ids: str) -> None:
    """Write what a drain leaves of messages with this SentTimestamp."""
    sent: Any = {"SentTimestamp": str(int(sent_at.timestamp() * 1000))} if sent_at else {}
    at = datetime.fromtimestamp(NOW, UTC)
    rows = [to_row(message(message_id, **sent), queue_url("p"), at) for message_id in ids]
    write_messages(archive, drain_id, 0, rows)


def decided_by(archive: Archive, run_id: str, sent_at: datetime | None, *ids: str) -> str:
    """A run that has sent some messages and is closed; return the path of its file."""
    ledger = begin(archive, "p-1", run_id)
    sent_time = sent_text(sent_at) if sent_at else ""
    of_run = replace(claim(*ids), first_sent_at=sent_time, last_sent_at=sent_time)
    assert ledger.claim(run_id, 1, of_run)
    ledger.record(run_id, 1, [sent(message_id) for message_id in ids])
    closed(archive, ("p-1", run_id))
    return run_path("p-1", run_id, RESULTS)


def pending_ids(archive: Archive) -> list[str]:
    """Return the ids that an analysis finds now; it stores the open set."""
    messages = read_messages(archive)
    messages.open_set.write(archive)
    return sorted(map(str, messages.pending()["message_id"].to_pylist()))


@pytest.mark.parametrize(
    "drain_id", ["20200101T000000Z-00000aaaaaa", "20990101T000000Z-00000aaaaaa"]
)
@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("days", [0, 14, 15, 16, 400])
def test_copy_that_sqs_delivers_again_is_not_pending_however_old_it_is(
    days: int, drain_id: str, *, is_known: bool
) -> None:
    """The id of the drain that brings it is of a clock that may be years off."""
    archive = MemoryArchive()
    at = datetime.fromtimestamp(NOW, UTC) - timedelta(days=days)
    sent_at = at if is_known else None
    drained(archive, "d-1", sent_at, "m-1")
    decided_by(archive, "run-1", sent_at, "m-1")
    assert pending_ids(archive) == []

    drained(archive, drain_id, sent_at, "m-1", "m-2")

    assert pending_ids(archive) == ["m-2"]


def test_results_of_messages_that_were_sent_at_another_time_are_not_read_for_a_new_drain() -> None:
    archive = MemoryArchive()
    at = datetime.fromtimestamp(NOW, UTC)
    times = {"run-1": at, "run-2": at + timedelta(hours=1), "run-3": at + timedelta(hours=2)}
    paths = {}
    for run_id, time in times.items():
        paths[run_id] = decided_by(archive, run_id, time, f"m-{run_id}")
    paths["run-4"] = decided_by(archive, "run-4", None, "m-run-4")
    for number, time in enumerate([*times.values(), at]):
        drained(archive, f"d-{number}", time, f"m-run-{number + 1}")
    assert pending_ids(archive) == []

    drained(archive, "d-9", at + timedelta(hours=1), "m-9")
    archive.opened.clear()
    assert pending_ids(archive) == ["m-9"]
    # Of the fourth nobody knows which messages it is about.
    assert archive.opened & set(paths.values()) == {paths["run-2"], paths["run-4"]}

    archive.opened.clear()
    (attempt,) = find_attempts(archive, ["m-run-1"], [at])
    assert attempt.name.run_id == "run-1"
    assert archive.opened & set(paths.values()) == {paths["run-1"], paths["run-4"]}


def test_claim_that_does_not_name_its_drains_has_all_drains_read_again() -> None:
    archive = MemoryArchive()
    at = datetime.fromtimestamp(NOW, UTC)
    drained(archive, "d-1", at, "m-1")
    drained(archive, "d-2", at, "m-2")
    settle(archive, "p-1", {"m-1": Disposition.DISCARDED})
    closed(archive)
    assert pending_ids(archive) == ["m-2"]

    settle(archive, "p-2", {"m-1": Disposition.RESTORED}, "run-2")
    closed(archive, ("p-2", "run-2"))

    counts = read_messages(archive).counts()
    assert counts == {("d-1", "p-2", "restored"): 1, ("d-2", "", "pending"): 1}


def test_message_of_two_drains_counts_once_whichever_of_them_its_claim_names() -> None:
    """Which drain was first follows from clocks that disagree."""
    archive = MemoryArchive()
    at = datetime.fromtimestamp(NOW, UTC)
    drained(archive, "d-1", at, "m-1")
    assert pending_ids(archive) == ["m-1"]

    drained(archive, "d-2", at, "m-1")
    ledger = begin(archive, "p-1")
    sent_time = sent_text(at)
    of_run = replace(
        claim("m-1"), first_sent_at=sent_time, last_sent_at=sent_time, drain_ids=("d-2",)
    )
    assert ledger.claim("unit", 1, of_run)
    ledger.record("unit", 1, [sent("m-1")])
    closed(archive)
    assert pending_ids(archive) == []
    assert read_messages(archive).counts() == {("d-1", "p-1", "sent"): 1}

    drained(archive, "d-2", at, "m-2")
    counts = read_messages(archive).counts()
    assert counts == {("d-1", "p-1", "sent"): 1, ("d-2", "", "pending"): 1}


def table_of(docstring: str | None) -> list[dict[str, str]]:
    """The table in a docstring: each row by the names of its columns."""
    lines = [line.strip(" |") for line in (docstring or "").splitlines() if "|" in line]
    names, _, *rows = ([cell.strip() for cell in line.split("|")] for line in lines)
    return [dict(zip(names, row, strict=True)) for row in rows]


def test_example_of_read_messages_is_right() -> None:
    archive = MemoryArchive()
    sent_at = datetime.fromtimestamp(NOW, UTC)

    def open_run(run_id: str, *ids: str) -> Ledger:
        ledger = begin(archive, "p-1", run_id)
        sent_time = sent_text(sent_at)
        of_run = replace(claim(*ids), first_sent_at=sent_time, last_sent_at=sent_time)
        assert ledger.claim(run_id, 1, replace(of_run, drain_ids=("d-1",) * len(ids)))
        return ledger

    def ended_run(run_id: str, *ids: str) -> None:
        open_run(run_id, *ids).record(run_id, 1, [sent(message_id) for message_id in ids])
        closed(archive, ("p-1", run_id))

    drained(archive, "d-1", sent_at, "m-1", "m-2", "m-3", "m-4")
    ended_run("run-1", "m-1", "m-2")
    stored = read_messages(archive).open_set
    stored.write(archive)
    assert stored.decided == {("d-1", "p-1", "sent"): 2}
    drained(archive, "d-2", sent_at, "m-2", "m-5")
    ended_run("run-2", "m-3")
    open_run("run-3", "m-4")
    archive.opened.clear()

    messages = read_messages(archive)

    assert run_path("p-1", "run-1", RESULTS) in archive.opened
    stored_ids = stored.rows["message_id"].to_pylist()
    row_ids = messages.open_set.rows["message_id"].to_pylist()
    state_by_id = dict(zip(row_ids, states_in(messages.entries).to_pylist(), strict=True))
    table = table_of(read_messages.__doc__)
    assert [row["message"] for row in table] == ["m-1", "m-2", "m-3", "m-4", "m-5"]
    for row in table:
        message_id = row["message"]
        assert row["stored row"] == ("yes" if message_id in stored_ids else "no")
        assert row["row now"] == ("yes" if message_id in row_ids else "no")
        assert row["state"] == state_by_id.get(message_id, "sent")
    assert messages.counts() == {
        ("d-1", "p-1", "sent"): 3,
        ("d-1", "p-1", "in_progress"): 1,
        ("d-2", "", "pending"): 1,
    }


def test_a_read_leaves_the_process_its_allocator() -> None:
    archive = MemoryArchive()
    drained(archive, "d-1", datetime.fromtimestamp(NOW, UTC), "m-1")
    before = pa.default_memory_pool().backend_name

    assert pending_ids(archive) == ["m-1"]
    assert pa.default_memory_pool().backend_name == before


def test_what_the_analysis_of_a_plan_has_read_is_not_read_again() -> None:
    """But what it said of what is pending still counts, and what was written later is read."""
    archive = MemoryArchive()
    at = datetime.fromtimestamp(NOW, UTC)
    drained(archive, "d-1", at, "m-1", "m-2")
    doubt = Result("m-1", Disposition.UNCONFIRMED, timestamp(NOW))
    begin(archive, "p-1").claim("g-1", 1, claim("m-1"))
    Ledger(archive, "p-1", "run-1").record("g-1", 1, [doubt])
    closed(archive)
    begin(archive, "p-1", "open").claim("g-1", 2, claim("m-2"))
    closed(archive, ("p-1", "open"))
    plan_id = "20991231T000000Z-00000aaaaaa"
    read_messages(archive).open_set.write_for_plan(archive, plan_id)

    def states_found() -> list[str]:
        archive.opened.clear()
        states = planned_states(archive, plan_id, pa.array(["m-1", "m-2"]))
        return [str(state) for state in states.to_pylist()]

    assert states_found() == ["unconfirmed", "unconfirmed"]
    # A claim without a result may get one.
    assert FILE not in archive.opened
    assert run_path("p-1", "open", RESULTS) in archive.opened
    later = decided_by(archive, "run-3", at, "m-1")
    assert states_found() == ["sent", "unconfirmed"]
    assert later in archive.opened
    assert FILE not in archive.opened
    archive.discard(f"{plan_folder(plan_id)}/known.parquet")
    assert states_found() == ["sent", "unconfirmed"]
    assert FILE in archive.opened


class Watched(MemoryArchive):
    """Whoever lists the claims of a run to close it has marked it before."""

    def list(self, folder: str) -> list[str]:
        if folder.endswith("/claims"):
            assert run_path(*RUN, CLOSING) in self.files
        return super().list(folder)


def test_run_is_marked_before_its_claims_are_listed_also_when_it_ends_by_itself() -> None:
    """A task that seemed lost may be about to make a claim."""
    archive = Watched()
    run_of(archive, 1, "m-1")

    closed(archive)

    assert states(archive) == {"m-1": "sent"}


def test_of_two_that_close_a_run_one_writes_the_file(archive: Archive) -> None:
    run_of(archive, 1, "m-1")

    closed(DisturbedArchive(archive.root, [lambda: closed(archive)], ".parquet"))

    assert archive.list("ledger/runs") == [
        "ledger/runs/p-1/run-1.closing",
        "ledger/runs/p-1/run-1.json",
        FILE,
    ]
    assert states(archive) == {"m-1": "sent"}


def test_two_runs_of_a_plan_have_a_file_each(archive: Archive) -> None:
    run_of(archive, 1, "m-1")
    run_of(archive, 2, "m-2", run_id="run-2")
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
    begin(archive, "p-1").claim("g-1", 1, replace(claim("m-1"), reason=reason))
    Ledger(archive, "p-1", "run-1").record("g-1", 1, [sent("m-1")])

    (note,) = write_result_files(DisturbedArchive(archive.root, [full], ".parquet"), RUN)

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
        with pytest.raises(
            InputError, match=r"plan p-1: is too old to be carried out.*make another"
        ):
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
        (only("plan_id", "run_id", "unit", "chunk"), CHANGED),
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
