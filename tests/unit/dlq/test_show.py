"""The history of a message, and the messages of a group that go to a file."""

import json
import re
import stat
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dlq.archive.ledger.claims import (
    OUTCOMES,
    Claim,
    Result,
    close_open_runs,
    timestamp,
)
from dlq.archive.ledger.disposition import Disposition
from dlq.archive.ledger.run_results import write_result_files
from dlq.archive.messages.dead_letter_schema import ARROW_SCHEMA, Row, to_row, to_table
from dlq.archive.messages.message_store import (
    drain_ids,
    remove_messages,
    write_messages,
)
from dlq.archive.storage.files import Archive, open_archive
from dlq.cli.running import main
from dlq.errors import InputError
from dlq.inspect.export import json_line, opened
from dlq.inspect.show import ShowOptions, show
from dlq_replay.wire.attributes import MessageAttribute
from dlq_replay.wire.context import FailureError
from dlq_replay.wire.message import Message
from tests.support import parked_orders
from tests.support.builders import NOW, context, counter, message, queue_url, text
from tests.support.golden import assert_stored
from tests.support.ledgers import begin

Capture = pytest.CaptureFixture[str]
BODY = '{"order": 7, "mail": "ada@example.org", "note": "\x9b31mred"}'

WORDS = {
    Disposition.FAILED: "not sent",
    Disposition.UNCONFIRMED: "unconfirmed: it may have been sent",
}


def parked(message_id: str, first_id: str, sent_seconds: int, plan: str | None = None) -> Message:
    error = FailureError("TimeoutError", "ada@example.org after 3 s", "slow")
    ours = context(first_id=first_id, reason="too_old", error=error, plan_id=plan)
    own = {"tenant": text("acme bob@example.org"), "key": MessageAttribute("Binary.k", b"\x00\xff")}
    system = {"SentTimestamp": str(sent_seconds * 1000), "ApproximateReceiveCount": "2"}
    return message(message_id, BODY, {**own, **ours, **counter("5")}, **system)


def drained(archive: Archive, drain_id: str, *messages: Message) -> None:
    at = datetime.fromtimestamp(NOW + 100, UTC)
    write_messages(archive, drain_id, 0, [to_row(m, queue_url("parked"), at) for m in messages])


def claim(*ids: str, seconds: float = NOW + 200.0, step: int = 0) -> Claim:
    return Claim(
        who="me@here",
        reason="it is fixed",
        destination=queue_url("main"),
        time=timestamp(seconds),
        message_ids=ids,
        edits={"copy-1": "abc"} if step else {},
        step=step,
    )


@pytest.fixture(params=["claims and results", "closed"])
def archive(tmp_path: Path, request: pytest.FixtureRequest) -> Archive:
    """Two copies of one dead letter, drained twice, redriven once; and a stranger."""
    archive = open_archive(str(tmp_path), creates=True)
    first = parked("copy-1", "first", NOW)
    drained(archive, "d-1", first, parked("other", "other-first", NOW))
    drained(archive, "d-2", first, parked("copy-2", "first", NOW + 500, plan="p-1"))
    ledger = begin(archive, "p-1")
    ledger.claim("g-1", 1, claim("other", "copy-1"))
    refused = Result("copy-1", Disposition.FAILED, timestamp(NOW + 201), detail="InternalError")
    ledger.record("g-1", 1, [refused])
    ledger.claim("g-1", 2, claim("copy-1", seconds=NOW + 300.0, step=3))
    sent = Result("copy-1", Disposition.SENT, timestamp(NOW + 301), new_message_id="copy-1b")
    ledger.record("g-1", 2, [sent])
    begin(archive, "p-2").claim("g-1", 1, claim("copy-2", seconds=NOW + 600.0))
    close_open_runs(archive)
    if request.param == "closed":
        for plan_id in ("p-1", "p-2"):
            assert write_result_files(archive, (plan_id, "run-1")) == ()
    return archive


@pytest.mark.parametrize("asked_id", ["first", "copy-1", "copy-2", "copy-1b"])
def test_every_id_of_a_dead_letter_leads_to_its_whole_history(
    archive: Archive, asked_id: str
) -> None:
    history = show(ShowOptions(archive.root, asked_id))

    assert history.first_ids == ("first",)
    assert [copy.message_id for copy in history.copies] == ["copy-1", "copy-2"]
    first, second = history.copies
    assert (first.state, second.state) == ("sent", "unconfirmed")
    assert first.drain_ids == ("d-1", "d-2")
    assert [entry.outcome for entry in first.entries] == ["failed", "sent"]
    assert [entry.detail for entry in first.entries] == ["InternalError", ""]
    assert first.entries[1].new_message_id == "copy-1b"
    assert (first.entries[1].who, first.entries[1].reason) == ("me@here", "it is fixed")
    assert [entry.outcome for entry in second.entries] == [None]
    assert second.redriven_by == "p-1"


@pytest.mark.parametrize("start", ["copy-", "firs"])
def test_the_beginning_of_an_id_is_enough(archive: Archive, start: str) -> None:
    assert show(ShowOptions(archive.root, start)).first_ids == ("first",)


@pytest.mark.parametrize(
    ("start", "why"),
    [
        ("copy", "several messages begin with copy: copy-1, copy-9\n"),
        # Of fewer characters nobody means one message.
        ("cop", "message cop: not in the 3 drains"),
        ("copy-3", "message copy-3: not in the 3 drains"),
    ],
)
def test_a_beginning_that_names_no_one_message_is_refused(
    archive: Archive, capsys: Capture, start: str, why: str
) -> None:
    drained(archive, "d-3", parked("copy-9", "ninth", NOW))

    assert main(["show", "--archive", archive.root, start]) == 2

    assert capsys.readouterr().err.startswith(f"dlq: {why}")


def test_what_a_result_leaves_out_is_unconfirmed_and_what_no_run_touched_is_pending(
    archive: Archive,
) -> None:
    drained(archive, "d-3", parked("lonely", "lonely", NOW))
    (other,), (lonely,) = (show(ShowOptions(archive.root, i)).copies for i in ("other", "lonely"))

    assert (other.state, [entry.outcome for entry in other.entries]) == (
        "unconfirmed",
        ["unconfirmed"],
    )
    assert (lonely.state, lonely.entries) == ("pending", ())


def test_what_a_run_may_still_be_sending_names_the_run(archive: Archive, capsys: Capture) -> None:
    drained(archive, "d-3", parked("taken", "taken", NOW), parked("lonely", "lonely", NOW))
    begin(archive, "p-3").claim("g-1", 1, claim("taken"))
    sentence = (
        "run run-1 of plan p-3 by me@here has not ended, or was killed: the next run closes it"
    )
    taken = show(ShowOptions(archive.root, "taken"))
    doubtful = show(ShowOptions(archive.root, "other"))
    lonely = show(ShowOptions(archive.root, "lonely"))

    assert [copy.state for copy in taken.copies] == ["in_progress"]
    assert taken.open_runs == doubtful.open_runs == (sentence,)
    assert lonely.open_runs == ()
    assert main(["show", "--archive", archive.root, "taken"]) == 0
    assert capsys.readouterr().out.endswith(f"\n{sentence}\n")

    close_open_runs(archive)

    assert show(ShowOptions(archive.root, "taken")).open_runs == ()


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_every_outcome_has_a_word(archive: Archive, capsys: Capture, outcome: Disposition) -> None:
    ledger = begin(archive, "p-3")
    ledger.claim("g-1", 1, claim("other"))
    ledger.record("g-1", 1, [Result("other", outcome, timestamp(NOW))])

    assert main(["show", "--archive", archive.root, "other"]) == 0
    assert f"  2023-11-14 22:16:40  {WORDS.get(outcome, outcome)}\n" in capsys.readouterr().out


ASKED = {
    "a dead letter": ["first"],
    "with its body": ["copy-1", "--body"],
    "unmasked": ["copy-1", "--unmasked"],
    "an unknown id": ["nobody"],
}


@pytest.mark.parametrize("name", ASKED)
def test_history_reads_as_it_is_stored(
    archive: Archive, name: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unasked it shows no content of a message, and what it shows cannot drive the terminal."""
    words = ["show", "--archive", archive.root, *ASKED[name]]
    code = main(words)
    printed = capsys.readouterr()
    printed_text = f"{printed.out}{printed.err}exit code {code}\n"
    if "--body" in words:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("NO_COLOR", "1")
        main(words)
        printed_text += f"--- on a screen\n{capsys.readouterr().out}"

    assert "\x9b" not in printed_text
    if name == "a dead letter":
        main([*words, "--json"])
        assert not re.search(r"order|acme|example\.org", printed_text + capsys.readouterr().out)
    printed_text = re.sub(r"\x1b\[[0-9;]*m", "", printed_text).replace(archive.root, "ARCHIVE")
    assert_stored("show", name, printed_text)


def test_unmasked_body_is_shown_as_it_is(archive: Archive, capsys: Capture) -> None:
    main(["show", "--archive", archive.root, "first", "--unmasked", "--json"])

    (copy, _) = json.loads(capsys.readouterr().out)["copies"]
    assert copy["body"] == BODY
    assert copy["values"]["tenant"] == "acme bob@example.org"


SECRETS = message(
    "copy-9",
    json.dumps({"pin": 493021, "tokens": ["493021"], "secret": {"a": "493021"}, "n": "shown"}),
    {
        "signature": text("493021"),
        "password": text("493021"),
        "event": text('{"otp": "493021", "n": "shown"}'),
        **context(
            first_id="copy-9",
            error=FailureError("No user anna493021@example.com", "Cookie: a=b; c=493021 shown"),
        ),
    },
)


@pytest.mark.parametrize("words", [[], ["--body"], ["--json"], ["--body", "--json"]])
def test_no_answer_shows_what_a_sample_hides(
    tmp_path: Path, capsys: Capture, words: list[str]
) -> None:
    archive = open_archive(str(tmp_path), creates=True)
    drained(archive, "d-1", SECRETS)

    assert main(["show", "--archive", archive.root, "copy-9", *words]) == 0

    answer = capsys.readouterr().out
    assert "493021" not in answer
    assert "No user ***" in answer
    assert "Cookie: *** shown" in answer
    assert answer.count("shown") >= (3 if "--body" in words else 1)
    if words == ["--body", "--json"]:
        [copy] = json.loads(answer)["copies"]
        hidden = {"pin": "***", "tokens": "***", "secret": "***", "n": "shown"}
        assert json.loads(copy["body"]) == hidden
        assert (copy["values"]["signature"], copy["values"]["password"]) == ("***", "***")


def test_a_mask_of_the_caller_hides_more(archive: Archive, capsys: Capture) -> None:
    words = ["show", "--archive", archive.root, "copy-1", "--body", "--json"]

    assert main([*words, "--mask", "attribute.tenant", "--mask", "body.order"]) == 0

    copy = json.loads(capsys.readouterr().out)["copies"][0]
    assert copy["values"]["tenant"] == "***"
    assert json.loads(copy["body"])["order"] == "***"
    assert main([*words, "--mask", "("]) == 2


def test_empty_archive_knows_no_message(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"not in the 0 drains of archive .*new, under"):
        show(ShowOptions(str(tmp_path / "new"), "m-1"))


def archived(body: str = "{}") -> Row:
    """A row as Arrow returns it."""
    error = FailureError("TimeoutError", "after 3 s")
    ours = context(first_id="first", reason="too_old", error=error, source_queue="orders")
    own = {"tenant": text("acme"), "key": MessageAttribute("Binary.k", b"\x00\xff")}
    system = {"SentTimestamp": "1700000000123", "MessageGroupId": "g"}
    row = to_row(
        message("m-1", body, {**own, **ours}, **system),
        queue_url("parked"),
        datetime(2026, 11, 21, 3, 15, tzinfo=UTC),
    )
    return dict(to_table([row]).to_pylist()[0])


def test_line_has_the_group_and_every_column_of_the_archive_as_sqs_and_iso_write_them() -> None:
    line = json.loads(json_line(archived(), "g-1"))

    assert list(line) == ["group_id", *ARROW_SCHEMA.names]
    assert line["group_id"] == "g-1"
    assert (line["message_id"], line["first_id"], line["body"]) == ("m-1", "first", "{}")
    assert (line["message_group_id"], line["source_queue"]) == ("g", "orders")
    assert (line["parked_reason"], line["error_type"]) == ("too_old", "TimeoutError")
    assert line["sequence_number"] is None
    assert line["sent_at"] == "2023-11-14T22:13:20.123+00:00"
    assert line["drained_at"] == "2026-11-21T03:15:00.000+00:00"
    assert line["attributes"]["tenant"] == {"DataType": "String", "StringValue": "acme"}
    assert line["attributes"]["key"] == {"DataType": "Binary.k", "BinaryValue": "AP8="}
    assert set(line["attributes"]) == {"tenant", "key", "sqs-dlq-context"}


@pytest.mark.parametrize(
    "words", [["groups"], ["decide", "g-1", "leave"], ["show", "g-1", "--out", "-"]]
)
def test_every_verb_names_the_file_of_a_plan_that_it_cannot_read(
    tmp_path: Path, capsys: Capture, words: list[str]
) -> None:
    plan = tmp_path / "plan.yaml"
    plan.write_text("{{{", "utf-8")

    assert main([*words, "--archive", str(tmp_path), "--plan", str(plan)]) == 2
    assert capsys.readouterr().err.startswith(f"dlq: {plan}: line 1: ")


@pytest.mark.parametrize("body", ["a\nb\r\n", "\x1b[31mred", "späť \U0001f389 \u2028 \x85", "{"])
def test_body_stays_as_it_is_and_the_line_is_one_line_of_printable_ascii(body: str) -> None:
    line = json_line(archived(body), "g-1")

    assert json.loads(line)["body"] == body
    assert line.isascii()
    assert line.isprintable()


def test_file_that_exists_is_not_overwritten_and_a_link_to_none_is_not_followed(
    tmp_path: Path,
) -> None:
    path = tmp_path / "out.jsonl"
    link = tmp_path / "link"
    path.write_text("kept")
    link.symlink_to(tmp_path / "elsewhere")

    for existing in (path, link):
        refused = pytest.raises(InputError, match="File exists; nothing was written")
        with refused, opened(str(existing)):
            pass

    assert path.read_text() == "kept"
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("fault", "raised", "sentence"),
    [
        (InputError("no such group"), InputError, "no such group"),
        (KeyboardInterrupt(), KeyboardInterrupt, None),
        (OSError(28, "No space left on device"), InputError, "No space left"),
    ],
)
def test_file_that_was_begun_is_removed_on_failure(
    tmp_path: Path, fault: BaseException, raised: type[BaseException], sentence: str | None
) -> None:
    path = tmp_path / "out.jsonl"

    with pytest.raises(raised, match=sentence), opened(str(path)):
        raise fault

    assert not path.exists()


@pytest.mark.parametrize("out", ["missing/out.jsonl", "s3://bucket/out.jsonl"])
def test_place_that_is_no_folder_here_is_named(out: str) -> None:
    with pytest.raises(InputError, match=f"--out {out}: No such file"), opened(out):
        pass


def test_the_messages_of_a_group_need_a_place(capsys: Capture) -> None:
    assert main(["show", "--archive", "a", "g-1", "--limit", "5"]) == 2
    assert "--limit needs --out" in capsys.readouterr().err


def exported(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_export_writes_the_messages_of_one_group_oldest_first(
    tmp_path: Path, capsys: Capture
) -> None:
    orders = [parked_orders.order(n, SentTimestamp=str(10**12 - n)) for n in range(6)]
    other = context(reason="too_old", source_queue="orders")
    archive = parked_orders.archived(tmp_path, [*orders, message("m-other", "{}", other)])
    groups = parked_orders.plan_of(archive).groups
    group = next(group.group_id for group in groups if group.count == 6)
    argv = ["show", "--archive", archive.root, group]

    everything = tmp_path / "all.jsonl"
    assert main([*argv, "--out", str(everything)]) == 0
    assert "wrote 6 of 6 messages" in capsys.readouterr().out
    assert stat.S_IMODE(everything.stat().st_mode) == 0o600
    lines = exported(everything)
    assert [line["message_id"] for line in lines] == [order.message_id for order in orders[::-1]]
    assert [line["body"] for line in lines] == [order.body for order in orders[::-1]]
    assert {line["group_id"] for line in lines} == {group}

    assert main([*argv, "--out", "-", "--limit", "2"]) == 0
    shown = capsys.readouterr()
    assert [json.loads(line) for line in shown.out.splitlines()] == lines[:2]
    assert f"wrote 2 of 6 messages of {group}\n" in shown.err

    unwritten = tmp_path / "none.jsonl"
    assert main([*argv[:-1], "g-none", "--out", str(unwritten)]) == 2
    assert "has no group g-none; its groups are g-" in capsys.readouterr().err
    assert not unwritten.exists()

    for drain_id in drain_ids(archive):
        remove_messages(archive, drain_id, {orders[0].message_id}, lambda: None)
    assert main([*argv, "--out", str(tmp_path / "rest.jsonl")]) == 0
    assert exported(tmp_path / "rest.jsonl") == lines[:-1]
    assert "1 message not in the archive any more" in capsys.readouterr().out


def test_the_beginning_of_a_group_is_enough_and_the_answer_has_its_whole_id(
    tmp_path: Path, capsys: Capture
) -> None:
    archive = parked_orders.archived(tmp_path, [parked_orders.order(n) for n in range(2)])
    [group] = parked_orders.plan_of(archive).groups
    start = group.group_id[:6]

    assert main(["show", "--archive", archive.root, start]) == 0
    assert capsys.readouterr().out.startswith(f"{group.group_id}: 0 places in the code")

    assert main(["show", "--archive", archive.root, start, "--out", str(tmp_path / "out")]) == 0
    assert f"wrote 2 of 2 messages of {group.group_id}\n" in capsys.readouterr().out

    assert main(["show", "--archive", archive.root, "g-"]) == 0
    other = "g-0" if group.group_id[2] != "0" else "g-1"
    assert main(["show", "--archive", archive.root, other]) == 2
    assert f"has no group {other}; its groups are {group.group_id}" in capsys.readouterr().err


def test_help_says_that_nothing_is_masked(capsys: Capture) -> None:
    assert main(["show", "--help"]) == 0

    shown = " ".join(capsys.readouterr().out.split())
    assert "Nothing is masked" in shown
    assert "mode 0600" in shown
