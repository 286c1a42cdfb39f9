"""What expires, what never does, and what is left wherever the process dies."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spark_reprocess.actor import Caller
from spark_reprocess.archive.dead_letter_schema import to_row
from spark_reprocess.archive.disposition import DECIDED, Disposition
from spark_reprocess.archive.erasures import erased_of, erasures, unfinished
from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.archive.ledger import OUTCOMES, Claim, Ledger, Result, timestamp
from spark_reprocess.archive.ledgers import compact_ledger
from spark_reprocess.archive.message_store import drain_ids, message_files, write_messages
from spark_reprocess.archive.plan_lock import LockHolder, plan_lock
from spark_reprocess.command_line.cli import main
from spark_reprocess.erase import expire as expire_module
from spark_reprocess.erase.expire import ExpireOptions, ExpireSummary, expire
from spark_reprocess.errors import ArchiveError, BusyError, InputError
from spark_reprocess.inspect.show import ShowOptions, show
from spark_reprocess.inspect.status import StatusOptions, status
from tests.builders import NOW, context, message, queue_url
from tests.dying_archive import Dying, KilledError

DAY = 86_400
DAYS = 30
LONG_AGO = NOW - 40 * DAY
D1, D2 = "20261012T000001Z-aaaaaa", "20261012T000002Z-bbbbbb"


@pytest.fixture(autouse=True)
def no_sts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expire_module, "caller", Caller)


def drained(
    archive: Archive, drain_id: str, ids: Sequence[str], seconds: float = LONG_AGO, task: int = 0
) -> None:
    at = datetime.fromtimestamp(seconds, UTC)
    rows = [
        to_row(message(one, f"body {one}", context(first_id=f"first-{one}")), queue_url("p"), at)
        for one in ids
    ]
    write_messages(archive, drain_id, task, rows)


def attempted(
    archive: Archive,
    outcomes: dict[str, Disposition],
    plan_id: str = "p-1",
    seconds: float = LONG_AGO,
    *,
    has_result: bool = True,
) -> None:
    ledger = Ledger(archive, plan_id)
    claim = Claim("run-1", "me", "why", queue_url("main"), timestamp(seconds), tuple(outcomes))
    assert ledger.claim("g-1", 1, 1, claim)
    if has_result:
        results = [Result(one, outcome, timestamp(seconds)) for one, outcome in outcomes.items()]
        ledger.record("g-1", 1, 1, results)


def expired(archive: Archive, *, execute: bool = True, days: int = DAYS) -> ExpireSummary:
    options = ExpireOptions(archive.root, days, execute=execute)
    return expire(options, now_seconds=lambda: float(NOW))


def ids_in(archive: Archive) -> list[str]:
    tables = (
        pq.read_table(pa.BufferReader(archive.read(p) or b"")) for p in message_files(archive)
    )
    return sorted(one for table in tables for one in map(str, table["message_id"].to_pylist()))


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return open_archive(str(tmp_path), creates=True)


def test_what_is_decided_goes_and_a_dry_run_changes_nothing(archive: Archive) -> None:
    drained(archive, D1, ["sent", "discarded", "restored", "open"])
    attempted(archive, {str(one): one for one in DECIDED})
    before = {path: archive.read(path) for path in archive.list("")}

    dry = expired(archive, execute=False)

    assert (dry.messages, dry.rows, dry.drains, dry.expire_ids) == (3, 0, (D1,), ())
    assert {path: archive.read(path) for path in archive.list("")} == before
    done = expired(archive)
    assert (done.messages, done.rows, done.undecided, len(done.expire_ids)) == (3, 3, 1, 1)
    assert ids_in(archive) == ["open"]
    assert unfinished(archive, expiries=True) == []
    assert expired(archive).messages == 0
    assert len(erasures(archive)) == 1


@pytest.mark.parametrize("outcome", [one for one in OUTCOMES if one not in DECIDED])
@pytest.mark.parametrize("is_compacted", [True, False])
def test_what_is_not_decided_never_expires(
    archive: Archive, outcome: Disposition, *, is_compacted: bool
) -> None:
    drained(archive, D1, ["a", "claimed", "never-claimed"])
    attempted(archive, {"a": outcome})
    attempted(archive, {"claimed": outcome}, "p-2", has_result=False)
    if is_compacted:
        assert compact_ledger(archive) == ()

    assert expired(archive, days=1).undecided == 3
    assert ids_in(archive) == ["a", "claimed", "never-claimed"]


@pytest.mark.parametrize("is_compacted", [True, False])
def test_decision_and_drain_must_both_be_old(archive: Archive, *, is_compacted: bool) -> None:
    young = NOW - DAYS * DAY
    drained(archive, D1, ["old", "decided-later", "again"])
    drained(archive, D2, ["drained-later", "again"], young)
    attempted(archive, dict.fromkeys(["old", "drained-later", "again"], Disposition.SENT))
    attempted(archive, {"decided-later": Disposition.SENT}, "p-2", young)
    if is_compacted:
        assert compact_ledger(archive) == ()

    found = expired(archive)

    assert (found.messages, found.younger, found.undecided) == (1, 3, 0)
    assert ids_in(archive) == ["again", "again", "decided-later", "drained-later"]


def test_discarded_message_that_a_restore_may_have_sent_stays(archive: Archive) -> None:
    drained(archive, D1, ["in-doubt", "restored"])
    attempted(archive, dict.fromkeys(["in-doubt", "restored"], Disposition.DISCARDED))
    attempted(archive, dict.fromkeys(["in-doubt", "restored"], Disposition.IN_DOUBT), "p-2")
    attempted(archive, {"restored": Disposition.RESTORED}, "p-3")

    expired(archive)

    assert ids_in(archive) == ["in-doubt"]


def test_time_that_somebody_changed_lets_nothing_expire(archive: Archive) -> None:
    drained(archive, D1, ["a"])
    attempted(archive, {"a": Disposition.SENT})
    (path,) = (one for one in archive.list("ledger") if one.endswith("result.jsonl"))
    result = json.loads(archive.read(path) or b"")
    archive.write(path, json.dumps({**result, "time": "long ago"}).encode())

    assert expired(archive).undecided == 1


def test_a_message_expires_by_its_own_id_and_from_every_drain(archive: Archive) -> None:
    """Another copy of the same dead letter is undecided because of itself alone."""
    at = datetime.fromtimestamp(LONG_AGO, UTC)
    rows = [
        to_row(message(one, "body", context(first_id="first")), queue_url("p"), at)
        for one in ("copy-1", "copy-2")
    ]
    write_messages(archive, D1, 0, rows)
    write_messages(archive, D2, 0, rows[:1])
    attempted(archive, {"copy-1": Disposition.SENT})

    assert expired(archive).rows == 2
    assert ids_in(archive) == ["copy-2"]


def test_whole_files_go_and_a_drain_keeps_one_because_plans_name_it(archive: Archive) -> None:
    for task in range(4):
        drained(archive, D1, [f"m-{task}"], task=task)
    attempted(archive, {f"m-{task}": Disposition.SENT for task in range(4)})

    expired(archive)

    assert drain_ids(archive) == [D1]
    assert len(message_files(archive)) == 1
    assert ids_in(archive) == []


def test_plans_hear_that_their_messages_expired(archive: Archive) -> None:
    drained(archive, D1, ["a", "b"])
    attempted(archive, {"a": Disposition.SENT})

    (expire_id,) = expired(archive).expire_ids

    (one,) = erased_of(archive, "p-1", [D1], None, ["b"], None)
    assert one.message_ids == ("a",)
    assert one.sentence.startswith("1 messages expired since, 30 days after they were decided, by ")
    assert expire_id in one.sentence


@pytest.mark.parametrize("asked", ["a", "first-a"])
def test_show_and_status_say_that_a_message_expired(archive: Archive, asked: str) -> None:
    drained(archive, D1, ["a", "b"])
    attempted(archive, {"a": Disposition.SENT})
    expired(archive)

    found = status(StatusOptions(archive.root))
    with pytest.raises(InputError, match=rf"message {asked}: expired: .*plan p-1: sent at"):
        show(ShowOptions(archive.root, asked))

    assert (found.messages, found.expired, found.count("undecided")) == (1, 1, 1)


def test_nothing_expires_while_somebody_decides(archive: Archive) -> None:
    drained(archive, D1, ["a"])
    attempted(archive, {"a": Disposition.SENT})
    redrive = LockHolder("run-0", "p-1", "plan p-1", "you")

    with plan_lock(archive, redrive), pytest.raises(BusyError, match="plan p-1 is being"):
        expire(ExpireOptions(archive.root, DAYS, execute=True))
    assert ids_in(archive) == ["a"]


def test_nobody_decides_while_messages_are_selected_and_removed(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    drained(archive, D1, ["a"])
    attempted(archive, {"a": Disposition.SENT})
    refusals: list[str] = []
    redrive = LockHolder("run-0", "p-1", "plan p-1", "you")

    def watched(name: str) -> None:
        original = getattr(expire_module, name)

        def call(*arguments: object) -> object:
            with pytest.raises(BusyError) as refused, plan_lock(archive, redrive):
                pass
            refusals.append(f"{name}: {refused.value}")
            return original(*arguments)

        monkeypatch.setattr(expire_module, name, call)

    for name in ("read_columns", "claimed_table", "record_erasure", "remove_messages", "mark_done"):
        watched(name)

    expired(archive)

    assert len(refusals) == 5
    assert all("an expiry is being carried out" in one for one in refusals)


def test_lost_lock_ends_it(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    drained(archive, D1, ["a"])
    attempted(archive, {"a": Disposition.SENT})
    monkeypatch.setattr("spark_reprocess.archive.plan_lock.PlanLock.trouble", lambda _: "slept")

    with pytest.raises(ArchiveError, match="slept: run the same command again"):
        expired(archive)
    assert ids_in(archive) == ["a"]


def test_many_messages_are_recorded_in_parts(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expire_module, "_MESSAGES_PER_RECORD", 2)
    drained(archive, D1, ["a", "b", "c"])
    drained(archive, D2, ["c", "d"])
    attempted(archive, dict.fromkeys("abcd", Disposition.SENT))

    assert len(expired(archive).expire_ids) == 2
    assert [sorted(one.drains) for one in erasures(archive)] in (
        [["a", "b", "c"], ["d"]],
        [["d"], ["a", "b", "c"]],
    )
    assert ids_in(archive) == []


IDS = "abcdef"


@settings(max_examples=settings().max_examples * 3 // 2, deadline=None)
@given(
    files=st.lists(st.sets(st.sampled_from(IDS), min_size=1), min_size=1, max_size=4),
    outcomes=st.dictionaries(st.sampled_from(IDS), st.sampled_from(OUTCOMES)),
    dies_at=st.integers(1, 24),
    is_before=st.booleans(),
)
# The repeat removes two messages of a file at once, of which the killed one removed the first.
@example(
    files=[{"c", "a"}, {"a", "b"}, {"a"}, {"c", "a", "b"}],
    outcomes={"a": Disposition.SENT, "b": Disposition.SENT},
    dies_at=10,
    is_before=True,
)
def test_killed_anywhere_a_repeat_ends_it_and_nothing_undecided_is_lost(
    files: list[set[str]], outcomes: dict[str, Disposition], dies_at: int, is_before: bool
) -> None:
    gone = {one for one, outcome in outcomes.items() if outcome in DECIDED}
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        archive = open_archive(folder, creates=True)
        for number, ids in enumerate(files):
            drained(archive, (D1, D2)[number % 2], sorted(ids), task=number)
        if outcomes:
            attempted(archive, outcomes)
        drains = drain_ids(archive)
        dying = Dying(archive.root, dies_at, is_before)
        patch.setattr(expire_module, "open_archive", lambda _: dying)
        patch.setattr(expire_module, "_MESSAGES_PER_RECORD", 1)
        try:
            expired(archive)
        except KilledError:
            # Whatever was to stay is there, and what is gone is on record.
            left = set(ids_in(archive))
            assert {one for ids in files for one in ids} - gone <= left
            recorded = {one for erasure in erasures(archive) for one in erasure.drains}
            assert {one for ids in files for one in ids} - left <= recorded <= gone
        patch.setattr(expire_module, "open_archive", open_archive)

        # The lock of the dead process lives for two minutes.
        for path in archive.list("locks"):
            archive.remove(path)
        expired(archive)

        assert ids_in(archive) == sorted(one for ids in files for one in ids - gone)
        assert drain_ids(archive) == drains
        assert unfinished(archive, expiries=True) == []


def test_command_says_what_goes_and_what_stays(
    archive: Archive, capsys: pytest.CaptureFixture[str]
) -> None:
    drained(archive, D1, ["a", "b"])
    attempted(archive, {"a": Disposition.SENT})
    argv = ["expire", "--archive", archive.root, "--older-than-days", "1"]

    assert main(argv) == 0
    assert "dry run: nothing was removed" in capsys.readouterr().out
    assert main([*argv, "--execute"]) == 0
    assert "removed 1 rows" in capsys.readouterr().out
    assert main([*argv, "--execute", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["undecided"] == 1
    assert main([*argv[:-1], "0"]) == 2
    assert main(argv[:3]) == 2
