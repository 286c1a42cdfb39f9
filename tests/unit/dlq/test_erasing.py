"""An erasure removes a message and nothing else, and can be resumed wherever the process dies."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlq.archive.ledger.claims import OUTCOMES, Claim, timestamp
from dlq.archive.ledger.disposition import DECIDED, Disposition
from dlq.archive.ledger.erasures import Erasure, erasures, mark_done, record_erasure
from dlq.archive.ledger.run_results import write_result_files
from dlq.archive.lock import LockHolder, LockUse, archive_lock
from dlq.archive.messages.dead_letter_schema import ARROW_SCHEMA, Row, to_row
from dlq.archive.messages.message_index import find_rows
from dlq.archive.messages.message_reading import read_files_work
from dlq.archive.messages.message_store import (
    FILE_MESSAGES,
    drain_ids,
    holds_any,
    message_files,
    remove_messages,
    rows_named,
    write_messages,
)
from dlq.archive.storage.files import Archive, open_archive
from dlq.archive.storage.local import LocalArchive
from dlq.aws.actor import Caller
from dlq.cli.running import main
from dlq.erase import erase as erase_module
from dlq.erase.erase import (
    EraseRequest,
    EraseSummary,
    erase,
    reports_quoting,
    strip_report,
)
from dlq.errors import ArchiveError, BusyError, InputError
from dlq.inspect.show import ShowOptions, show
from dlq.inspect.status import StatusOptions, status
from dlq.local_engine import LocalEngine
from dlq.plan.edit import Edit
from dlq.plan.plan import Action, Plan, PlannedGroup, Snapshot, plan_text
from dlq.plan.plan_reading import read_plan
from dlq_replay.retry import Retry
from dlq_replay.wire.message import Message
from tests.support.approved_plan import planned
from tests.support.builders import NOW, context, message, queue_url
from tests.support.ledgers import begin, settle


class KilledError(Exception):
    pass


@dataclass(frozen=True)
class Dying(LocalArchive):
    """An archive whose process dies before or after its *n*-th change."""

    dies_at: int
    is_before: bool
    changes: list[str] = field(default_factory=list)

    def create(self, path: str, content: bytes) -> bool:
        with self._change(path):
            return super().create(path, content)

    def write(self, path: str, content: bytes) -> None:
        with self._change(path):
            super().write(path, content)

    def remove(self, path: str, *, keeps_current: bool = False) -> None:
        with self._change(path):
            super().remove(path, keeps_current=keeps_current)

    @contextmanager
    def _change(self, path: str) -> Iterator[None]:
        self.changes.append(path)
        is_last = len(self.changes) == self.dies_at
        if is_last and self.is_before:
            raise KilledError
        yield
        if is_last:
            raise KilledError


DAY = 86_400
DAYS = 30
LONG_AGO = NOW - 40 * DAY
D1 = "20231005T000001Z-aaaaaa"
D2 = "20231005T000002Z-bbbbbb"
YOUNG = "20231114T000001Z-cccccc"
REDRIVE = LockHolder("run-0", LockUse.SEND, "plan p-1", "you")


@pytest.fixture(autouse=True)
def no_sts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erase_module, "caller", lambda _: Caller("arn:me"))


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return open_archive(str(tmp_path), creates=True)


def drained(
    archive: Archive,
    drain_id: str,
    ids: Sequence[str],
    seconds: float = LONG_AGO,
    task: int = 0,
    body: str = "body",
) -> str:
    letters = []
    for message_id in ids:
        parked = context(first_id=f"first-{message_id}")
        letters.append(message(message_id, f"{body} {message_id}", parked))

    return write_messages(archive, drain_id, task, rows_of(letters, seconds))


def rows_of(letters: Sequence[Message], seconds: float = LONG_AGO) -> list[Row]:
    """Rows of the archive, drained at this time."""
    drained_at = datetime.fromtimestamp(seconds, UTC)
    return [to_row(letter, queue_url("p"), drained_at) for letter in letters]


def attempted(
    archive: Archive,
    outcomes: dict[str, Disposition],
    plan_id: str = "p-1",
    seconds: float = LONG_AGO,
) -> None:
    settle(archive, plan_id, outcomes, seconds=seconds)


def reported(archive: Archive) -> str:
    """Write a plan of all messages, and a report that quotes one; return the plan's path."""
    plan = Path(planned(archive))
    for name in ("report.html", "summary.json", "groups.parquet"):
        (plan.parent / name).write_text("body of somebody")
    return str(plan)


def erased(archive: Archive, *ids: str, **options: object) -> EraseSummary:
    chosen: dict[str, object] = {"ids": ids, "execute": True, "reason": "asked to", **options}
    return erase(None, archive, EraseRequest(**chosen), now_seconds=lambda: float(NOW))  # type: ignore[arg-type]


def expired(archive: Archive, *, execute: bool = True, days: int = DAYS) -> EraseSummary:
    return erased(archive, older_than_days=days, execute=execute, reason="")


def ids_in(archive: Archive) -> list[str]:
    message_ids: list[str] = []
    for path in message_files(archive):
        table = pq.read_table(pa.BufferReader(archive.read(path) or b""))
        assert table.schema.equals(ARROW_SCHEMA)
        message_ids += map(str, table["message_id"].to_pylist())
    return sorted(message_ids)


def contents(archive: Archive, folder: str = "") -> dict[str, bytes | None]:
    return {path: archive.read(path) for path in archive.list(folder)}


# --- killed


@contextmanager
def dying_at(archive: Archive, number: int, *, is_before: bool) -> Iterator[Dying]:
    """Let a process die before or after its change of that number."""
    dying = Dying(archive.root, number, is_before)
    with suppress(KilledError):
        yield dying
    # The lock of the dead process lives for two minutes.
    for path in archive.list("locks"):
        archive.remove(path)


@pytest.mark.parametrize("is_before", [True, False])
@pytest.mark.parametrize("is_by_age", [True, False])
def test_killed_at_any_step_the_next_one_ends_it(
    tmp_path: Path, *, is_by_age: bool, is_before: bool
) -> None:
    """The messages a and b go, from files that they share with others and with each other."""
    files = [["a", "c"], ["a", "b"], ["a"], ["a", "b", "c"], ["d"]]
    for number in count(1):
        archive = open_archive(str(tmp_path / str(number)), creates=True)
        for task, ids in enumerate(files):
            drained(archive, (D1, D2)[task % 2], ids, task=task)
        plan = Path(reported(archive))
        attempted(archive, {"a": Disposition.SENT, "b": Disposition.SENT, "d": Disposition.FAILED})
        reports = contents(archive, "reports")

        with dying_at(archive, number, is_before=is_before) as dying:
            expired(dying) if is_by_age else erased(dying, "a", "first-b", "nobody")

        records = erasures(archive)
        assert {"c", "d"} <= set(ids_in(archive))
        assert is_by_age or records or ids_in(archive) == sorted(chain(*files))
        assert not (is_by_age and records)
        # Another erasure completes a dead one; what recorded nothing has changed nothing.
        expired(archive) if is_by_age else erased(archive, *["nobody"] if records else "ab")
        assert ids_in(archive) == ["c", "c", "d"]
        assert erasures(archive, unfinished=True) == []
        if is_by_age:
            assert contents(archive, "reports") == reports
        else:
            left = {file.name for file in plan.parent.iterdir()}
            assert left == {"plan.yaml", "messages.parquet"}
            assert "(erased)" in plan.read_text()
        if len(dying.changes) < number:
            break
    assert number > 9


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sets(st.sampled_from("abcdef")), min_size=1, max_size=3),
    st.sets(st.sampled_from("abcdef")),
    st.integers(1, 8),
    st.booleans(),
)
def test_files_of_a_drain_lose_nothing_else_wherever_it_was_killed(
    files: list[set[str]], gone: set[str], dies_at: int, is_before: bool
) -> None:
    def remove(archive: Archive) -> None:
        remove_messages(archive, D1, gone, lambda: None)

    staying = set().union(*files) - gone

    with TemporaryDirectory() as folder:
        archive = open_archive(folder)
        for task, ids in enumerate(files):
            drained(archive, D1, sorted(ids), task=task)
        with suppress(KilledError):
            remove(Dying(archive.root, dies_at, is_before))
        # Whatever was to stay is there, wherever it stopped.
        assert staying <= set(ids_in(archive))

        remove(archive)

        # A message of two files stays in the first of them.
        assert ids_in(archive) == sorted(staying)


# --- files


def test_only_files_that_hold_a_message_are_written_again(archive: Archive) -> None:
    drained(archive, D1, ["a", "b"])
    other = drained(archive, D1, ["c"], task=1)
    before = contents(archive, "messages")

    assert erased(archive, "a").rows == 1

    after = contents(archive, "messages")
    assert (before.keys() & after.keys(), after[other]) == ({other}, before[other])
    assert ids_in(archive) == ["b", "c"]


def test_a_drain_whose_last_message_goes_is_gone(archive: Archive) -> None:
    for task in range(4):
        drained(archive, D1, [f"m-{task}"], task=task)
    drained(archive, D2, ["open"])
    attempted(archive, {f"m-{task}": Disposition.SENT for task in range(4)})

    expired(archive)

    assert (drain_ids(archive), ids_in(archive)) == ([D2], ["open"])


def test_expiry_leaves_full_files_alone_and_makes_small_ones_full(archive: Archive) -> None:
    full = drained(archive, D1, [f"full-{n}" for n in range(FILE_MESSAGES)])
    for task in range(1, 6):
        drained(archive, D1, [f"{task}-{n}" for n in range(FILE_MESSAGES // 2 + 1)], task=task)
    large = drained(archive, D2, ["large"], body="x" * 9_000_000)
    small = drained(archive, D2, ["small"])
    before = ids_in(archive)

    expired(archive)

    assert ids_in(archive) == before
    assert {full, large, small} <= set(message_files(archive))
    sizes = sorted(rows_named(path) or 0 for path in message_files(archive, [D1]))
    assert sizes == [FILE_MESSAGES // 2 + 1, FILE_MESSAGES, *[FILE_MESSAGES + 2] * 2]
    files = message_files(archive)
    expired(archive)
    assert message_files(archive) == files


def half_overwritten(archive: Archive) -> bytes:
    path = drained(archive, D1, ["a"])
    content = archive.read(path) or b""
    archive.remove(path)
    return content[:4] + bytes(len(content) // 2) + content[4 + len(content) // 2 :]


@pytest.mark.parametrize("is_parquet", [True, False])
def test_broken_file_is_an_error_with_its_name_and_stays(
    archive: Archive, *, is_parquet: bool
) -> None:
    content = half_overwritten(archive) if is_parquet else b"no parquet"
    path = f"messages/drain_id={D1}/part-00000-1-x.parquet"
    archive.write(path, content)

    for read in (
        lambda: remove_messages(archive, D1, {"a"}, lambda: None),
        lambda: find_rows(archive, {"a"}),
        lambda: LocalEngine().run(read_files_work(archive, [path], ["message_id"], 1)),
        lambda: erased(archive, "a"),
    ):
        with pytest.raises(ArchiveError, match=f"{path} cannot be read .* restore it or take it"):
            read()
    assert holds_any(content, {"a"})
    assert archive.list("messages") == [path]


# --- by age


def test_what_is_decided_goes_and_a_dry_run_changes_nothing(archive: Archive) -> None:
    drained(archive, D1, ["sent", "discarded", "restored", "open"])
    attempted(archive, {str(disposition): disposition for disposition in DECIDED})
    before = contents(archive)

    dry = expired(archive, execute=False)

    assert (dry.messages, dry.rows, dry.drains, dry.erase_id) == (3, 0, (D1,), "")
    assert contents(archive) == before
    done = expired(archive)
    assert (done.messages, done.rows, done.pending) == (3, 3, 1)
    assert ids_in(archive) == ["open"]
    assert expired(archive).messages == 0
    assert (done.erase_id, erasures(archive)) == ("", [])


@pytest.mark.parametrize("outcome", [outcome for outcome in OUTCOMES if outcome not in DECIDED])
@pytest.mark.parametrize("is_closed", [True, False])
def test_what_is_not_decided_never_expires(
    archive: Archive, outcome: Disposition, *, is_closed: bool
) -> None:
    drained(archive, D1, ["a", "claimed", "never-claimed"])
    attempted(archive, {"a": outcome})
    claim = Claim("me@here", "why", "https://q", timestamp(LONG_AGO), ("claimed",))
    assert begin(archive, "p-2", seconds=LONG_AGO).claim("g-1", 1, claim)
    if is_closed:
        assert write_result_files(archive, ("p-1", "run-1")) == ()

    assert expired(archive, days=15).pending == 3
    assert ids_in(archive) == ["a", "claimed", "never-claimed"]


@pytest.mark.parametrize("is_closed", [True, False])
def test_decision_and_drain_must_both_be_old(archive: Archive, *, is_closed: bool) -> None:
    young = NOW - DAYS * DAY
    drained(archive, D1, ["old", "decided-later", "again"])
    drained(archive, D2, ["row-is-young"], young)
    drained(archive, YOUNG, ["drained-later", "again"], young)
    sent = ["old", "row-is-young", "drained-later", "again"]
    attempted(archive, dict.fromkeys(sent, Disposition.SENT))
    attempted(archive, {"decided-later": Disposition.SENT}, "p-2", young)
    if is_closed:
        assert write_result_files(archive, ("p-1", "run-1")) == ()

    summary = expired(archive)

    assert (summary.messages, summary.younger, summary.pending) == (2, 4, 0)
    assert ids_in(archive) == ["again", "decided-later", "drained-later", "row-is-young"]


def test_discarded_message_that_a_restore_may_have_sent_stays(archive: Archive) -> None:
    drained(archive, D1, ["unconfirmed", "restored"])
    attempted(archive, dict.fromkeys(["unconfirmed", "restored"], Disposition.DISCARDED))
    attempted(archive, dict.fromkeys(["unconfirmed", "restored"], Disposition.UNCONFIRMED), "p-2")
    attempted(archive, {"restored": Disposition.RESTORED}, "p-3")

    expired(archive)

    assert ids_in(archive) == ["unconfirmed"]


def test_time_that_somebody_changed_lets_nothing_expire(archive: Archive) -> None:
    drained(archive, D1, ["a"])
    attempted(archive, {"a": Disposition.SENT})
    (path,) = (path for path in archive.list("ledger") if path.endswith("result.jsonl"))
    content = archive.read(path) or b""
    archive.write(path, content.replace(timestamp(LONG_AGO).encode(), b"long ago"))

    assert (expired(archive).messages, expired(archive).younger) == (0, 1)


def test_a_message_expires_by_its_own_id_and_is_erased_with_its_copies_from_every_drain(
    archive: Archive,
) -> None:
    """Another copy of the same dead letter is pending because of itself alone."""
    of_one_letter = context(first_id="first")
    sent = message("copy-1", "body", of_one_letter)
    pending = message("copy-2", "body", of_one_letter)
    write_messages(archive, D1, 0, rows_of([sent, pending]))
    write_messages(archive, D2, 0, rows_of([sent]))
    attempted(archive, {"copy-1": Disposition.SENT})

    assert expired(archive).rows == 2
    assert ids_in(archive) == ["copy-2"]
    write_messages(archive, D2, 0, rows_of([sent]))
    erased(archive, "copy-1")
    assert ids_in(archive) == []


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ("a", "gone from the archive, erased or expired; plan p-1: sent at"),
        ("first-a", "not in the 1 drain of"),
    ],
)
def test_show_says_what_the_ledger_knows_of_a_message_that_expired(
    archive: Archive, asked: str, sentence: str
) -> None:
    drained(archive, D1, ["a", "b"])
    attempted(archive, {"a": Disposition.SENT})
    expired(archive)

    with pytest.raises(InputError, match=f"message {asked}: {sentence}"):
        show(ShowOptions(archive.root, asked))
    assert status(StatusOptions(archive.root)).messages == 1


# --- the archive lock


@pytest.mark.usefixtures("quick_locks")
def test_erase_that_may_wait_tries_again(archive: Archive, monkeypatch: pytest.MonkeyPatch) -> None:
    drained(archive, D1, ["a"])
    attempted(archive, {"a": Disposition.SENT})
    argv = ["erase", "--archive", archive.root, "--older-than-days", "15", "--execute"]
    redrive = ExitStack()
    redrive.enter_context(archive_lock(archive, REDRIVE))
    clock = SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda _: redrive.close())
    monkeypatch.setattr("dlq.cli.verbs.erase.time", clock)

    assert main(argv) == 2
    assert ids_in(archive) == ["a"]
    assert main([*argv, "--wait-seconds", "60"]) == 0
    assert ids_in(archive) == []


@pytest.mark.usefixtures("quick_locks")
def test_nobody_decides_while_messages_are_selected_and_removed(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    drained(archive, D1, ["a", "b"])
    attempted(archive, dict.fromkeys("ab", Disposition.SENT))
    reported(archive)
    refusals: list[str] = []

    def watched(name: str) -> None:
        original = getattr(erase_module, name)

        def call(*arguments: object, **options: object) -> object:
            with pytest.raises(BusyError) as refused, archive_lock(archive, REDRIVE):
                pass
            refusals.append(f"{name}: {refused.value}")
            return original(*arguments, **options)

        monkeypatch.setattr(erase_module, name, call)

    steps = ("_named", "_kept_ids", "record_erasure", "remove_messages", "strip_report")
    for name in (*steps, "mark_done"):
        watched(name)

    erased(archive, "a")
    expired(archive)

    assert len(refusals) == 7
    assert all("an erase is being carried out" in refusal for refusal in refusals)


@pytest.mark.parametrize("looks_before", [0, 1])
def test_lost_lock_ends_it_before_the_record_or_before_the_next_change(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, looks_before: int
) -> None:
    drained(archive, D1, ["a"])
    answers = iter([""] * looks_before)
    trouble = "dlq.archive.lock.LockObserver.trouble"
    monkeypatch.setattr(trouble, lambda _: next(answers, "slept"))

    with pytest.raises(ArchiveError, match="slept: run the same command again"):
        erased(archive, "a")
    assert ids_in(archive) == ["a"]
    assert len(archive.list("ledger/erasures")) == looks_before


# --- records


def erasure(erase_id: str, *ids: str) -> Erasure:
    messages = dict.fromkeys(ids, (D1,))
    time = "2026-11-21T12:00:00+00:00"
    return Erasure(erase_id, "me@here", "asked to", time, messages)


def test_erasure_is_unfinished_until_it_is_marked_and_never_changes(archive: Archive) -> None:
    first = erasure("e-1", "a")
    second = erasure("e-2", "b")
    record_erasure(archive, first)
    mark_done(archive, "e-1")
    record_erasure(archive, second)

    with pytest.raises(ArchiveError, match=r"e-1\.json is there already"):
        record_erasure(archive, erasure("e-1", "c"))
    assert erasures(archive) == [first, second]
    assert erasures(archive, unfinished=True) == [second]


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        ({}, "erase needs --id or --where or --older-than-days"),
        ({"ids": ["a"], "where": "true"}, "erase needs --id or --where or --older-than-days"),
        ({"ids": ["a"], "older_than_days": 1}, "erase needs --id or --where or --older-than-days"),
        ({"older_than_days": 14}, "must be at least 15: SQS may deliver a message again"),
        ({"ids": ["a"], "execute": True}, "--execute needs --reason"),
        ({"ids": ["a", "breaker#orders"]}, "--id breaker#orders: no message id has a #"),
        ({"ids": ["a"]}, "holds no messages; collect some first"),
    ],
)
def test_options_that_cannot_be_met_are_refused(
    archive: Archive, options: dict[str, object], fault: str
) -> None:
    with pytest.raises(InputError, match=fault):
        erase(None, archive, EraseRequest(**options))  # type: ignore[arg-type]


def test_failure_table_that_stays_busy_ends_the_erase(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same command again completes it."""

    def refuse(**call: object) -> dict[str, object]:
        return {"UnprocessedItems": call["RequestItems"]}

    table = SimpleNamespace(batch_write_item=refuse)
    monkeypatch.setattr(erase_module, "aws_client", lambda *_: table)
    monkeypatch.setattr(erase_module, "_BUSY_TABLE", Retry(3, sleep=lambda _: None))

    with pytest.raises(ArchiveError, match="failure table t: DynamoDB is too busy; run again"):
        erase_module._delete_recorded("t", {"a"})  # noqa: SLF001 - its client is made up


def test_no_item_of_a_breaker_or_a_redrive_is_erased(monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer can write its key into a context, as the first id of a message."""
    asked: list[str] = []

    def answer(**call: Any) -> dict[str, object]:
        requests = call["RequestItems"]["t"]
        keys = requests["Keys"] if "Keys" in requests else deleted(requests)
        asked.extend(key["message_id"]["S"] for key in keys)
        return {"Responses": {}}

    def deleted(requests: list[Any]) -> list[Any]:
        return [request["DeleteRequest"]["Key"] for request in requests]

    table = SimpleNamespace(batch_get_item=answer, batch_write_item=answer)
    monkeypatch.setattr(erase_module, "aws_client", lambda *_: table)
    ids = {"a", "breaker#orders", "returns#plan#group"}
    erase_module._recorded("t", ids)  # noqa: SLF001 - its client is made up
    erase_module._delete_recorded("t", ids)  # noqa: SLF001 - its client is made up

    assert asked == ["a", "a"]


# --- reports and plans


def a_plan(title: str, where: str | None) -> Plan:
    snapshot = Snapshot((D1,), 1, "0" * 64, where)
    groups = (
        PlannedGroup("g-1", title, 1, Action.REDRIVE, Edit(None, (("a", "'b'"),)), "a note"),
        PlannedGroup("g-2", "KeyError: 'zip'", 1, Action.LEAVE),
    )
    return Plan("p-1", "/a", snapshot, groups)


def stripped(archive: Archive, text: str) -> str | None:
    archive.write("reports/r-1/plan.yaml", text.encode())
    archive.write("reports/r-1/report.html", b"of whom?")
    strip_report(archive, "reports/r-1", archive.list("reports/r-1"))
    left = {path: (archive.read(path) or b"").decode() for path in archive.list("reports")}
    assert left.keys() <= {"reports/r-1/plan.yaml"}
    return left.get("reports/r-1/plan.yaml")


def test_titles_condition_and_comments_go_and_the_rest_of_the_plan_stays(archive: Archive) -> None:
    notes = {
        "g-1": ["3 messages", "difference: body.name = Jane", "--where \"body.name = 'Jane'\""]
    }
    plan_file = f"{plan_text(a_plan('Jane', 'body = 1'), notes)}# Jane asked\n"

    plan_left = stripped(archive, plan_file)

    assert plan_left is not None
    assert "Jane" not in plan_left
    plan = a_plan("(erased)", None)
    groups = (plan.groups[0], replace(plan.groups[1], title="(erased)"))
    assert read_plan(plan_left) == replace(plan, groups=groups)
    assert stripped(archive, plan_left) == plan_left


@pytest.mark.parametrize("text", ["", "a: [", "groups: [1, {id: g-1, title: Jane}]"])
def test_a_plan_that_cannot_be_read_goes_with_its_report(archive: Archive, text: str) -> None:
    assert stripped(archive, text) is None


def test_report_of_other_drains_may_not_quote(archive: Archive) -> None:
    archive.write("reports/r-1/plan.yaml", plan_text(a_plan("t", None)).encode())
    archive.write("reports/r-2/report.html", b"whose?")

    assert list(reports_quoting(archive, {"other"})) == ["reports/r-2"]
