import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dlq_replay.attributes import MessageAttribute
from dlq_replay.context import FailureError
from dlq_replay.message import Message
from spark_reprocess.archive.dead_letter_schema import to_row
from spark_reprocess.archive.disposition import Disposition
from spark_reprocess.archive.files import Archive, open_archive
from spark_reprocess.archive.ledger import OUTCOMES, Claim, Result, timestamp
from spark_reprocess.archive.ledgers import close_runs
from spark_reprocess.archive.message_store import write_messages
from spark_reprocess.command_line.cli import main
from spark_reprocess.errors import ArchiveError, InputError
from spark_reprocess.inspect.show import ShowOptions, show
from tests.builders import NOW, context, counter, message, queue_url, text
from tests.ledgers import begin

Capture = pytest.CaptureFixture[str]
BODY = '{"order": 7, "mail": "ada@example.org", "note": "\x1b[31mred"}'

ATTRIBUTES = "tenant (String), key (Binary.k), sqs-dlq-context (String), sqs-dlq-replay-nb (Number)"

WORDS = {Disposition.FAILED: "not sent", Disposition.IN_DOUBT: "in doubt: it may have been sent"}


def parked(message_id: str, first_id: str, sent_seconds: int, plan: str | None = None) -> Message:
    error = FailureError("TimeoutError", "ada@example.org after 3 s")
    ours = context(first_id=first_id, reason="too_old", error=error, plan_id=plan)
    own = {"tenant": text("acme bob@example.org"), "key": MessageAttribute("Binary.k", b"\x00\xff")}
    system = {"SentTimestamp": str(sent_seconds * 1000), "ApproximateReceiveCount": "2"}
    return message(message_id, BODY, {**own, **ours, **counter("5")}, **system)


def drained(archive: Archive, drain_id: str, *messages: Message) -> None:
    at = datetime.fromtimestamp(NOW + 100, UTC)
    write_messages(archive, drain_id, 0, [to_row(m, queue_url("parked"), at) for m in messages])


def claim(*ids: str, seconds: float = NOW + 200.0, step: int = 0) -> Claim:
    return Claim(
        run_id="run-1",
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
    ledger.claim("g-1", 1, 1, claim("other", "copy-1"))
    refused = Result("copy-1", Disposition.FAILED, timestamp(NOW + 201), detail="InternalError")
    ledger.record("g-1", 1, 1, [refused])
    ledger.claim("g-1", 1, 2, claim("copy-1", seconds=NOW + 300.0, step=3))
    sent = Result("copy-1", Disposition.SENT, timestamp(NOW + 301), new_message_id="copy-1b")
    ledger.record("g-1", 1, 2, [sent])
    begin(archive, "p-2").claim("g-1", 1, 1, claim("copy-2", seconds=NOW + 600.0))
    if request.param == "closed":
        for plan_id in ("p-1", "p-2"):
            assert close_runs(archive, (plan_id, "run-1"), NOW) == ()
    return archive


@pytest.mark.parametrize("asked_id", ["first", "copy-1", "copy-2", "copy-1b"])
def test_every_id_of_a_dead_letter_leads_to_its_whole_history(
    archive: Archive, asked_id: str
) -> None:
    history = show(ShowOptions(archive.root, asked_id))

    assert history.first_ids == ("first",)
    assert [copy.message_id for copy in history.copies] == ["copy-1", "copy-2"]
    one, two = history.copies
    assert (one.state, two.state) == ("sent", "in_doubt")
    assert one.drain_ids == ("d-1", "d-2")
    assert [entry.outcome for entry in one.entries] == ["failed", "sent"]
    assert [entry.detail for entry in one.entries] == ["InternalError", ""]
    assert one.entries[1].new_message_id == "copy-1b"
    assert (one.entries[1].who, one.entries[1].reason) == ("me@here", "it is fixed")
    assert [entry.outcome for entry in two.entries] == [None]
    assert two.redriven_by == "p-1"


def test_claim_that_its_result_leaves_out_is_in_doubt(archive: Archive) -> None:
    (copy,) = show(ShowOptions(archive.root, "other")).copies

    assert copy.state == "in_doubt"
    assert [entry.outcome for entry in copy.entries] == ["in_doubt"]


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_every_outcome_has_a_word(archive: Archive, capsys: Capture, outcome: Disposition) -> None:
    ledger = begin(archive, "p-3")
    ledger.claim("g-1", 1, 1, claim("other"))
    ledger.record("g-1", 1, 1, [Result("other", outcome, timestamp(NOW))])

    assert main(["show", "--archive", archive.root, "other"]) == 0
    assert f"  2023-11-14 22:16:40  {WORDS.get(outcome, outcome)}\n" in capsys.readouterr().out


def test_message_that_no_run_touched_is_pending(archive: Archive) -> None:
    drained(archive, "d-3", parked("lonely", "lonely", NOW))

    (copy,) = show(ShowOptions(archive.root, "lonely")).copies

    assert (copy.state, copy.entries) == ("pending", ())


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_no_body_is_shown_unasked(archive: Archive, capsys: Capture, as_json: list[str]) -> None:
    assert main(["show", "--archive", archive.root, "first", *as_json]) == 0

    shown = capsys.readouterr().out
    assert "order" not in shown
    assert "acme" not in shown
    assert "example.org" not in shown
    assert "*** after 3 s" in shown
    assert "tenant" in shown


def test_body_is_masked_and_cannot_drive_the_terminal(archive: Archive, capsys: Capture) -> None:
    main(["show", "--archive", archive.root, "first", "--body"])

    shown = capsys.readouterr().out
    assert '{"order": 7, "mail": "***", "note": "\\x1b[31mred"}' in shown
    assert "tenant (String): acme ***" in shown
    assert "key (Binary.k): 00ff" in shown
    assert "\x1b" not in shown


def test_json_is_laid_out_where_somebody_looks(
    archive: Archive, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")

    main(["show", "--archive", archive.root, "first", "--body"])

    shown = capsys.readouterr().out
    assert '    {\n      "order": 7,\n      "mail": "***",\n' in shown
    assert "\x1b[31m" not in shown


def test_unmasked_body_is_shown_as_it_is(archive: Archive, capsys: Capture) -> None:
    main(["show", "--archive", archive.root, "first", "--unmasked", "--json"])

    (copy, _) = json.loads(capsys.readouterr().out)["copies"]
    assert copy["body"] == BODY
    assert copy["values"]["tenant"] == "acme bob@example.org"


def test_history_reads_like_a_story(archive: Archive, capsys: Capture) -> None:
    main(["show", "--archive", archive.root, "copy-1"])

    assert capsys.readouterr().out.splitlines()[:23] == [
        "dead letter first: 2 archived copies (times in UTC)",
        "",
        "copy-1: sent",
        "  parked      2023-11-14 22:13:20, too_old",
        "  error       TimeoutError: *** after 3 s",
        "  replays     5; received 2 times",
        "  archived    2023-11-14 22:15:00, drain d-1, d-2",
        "  queue       https://sqs.us-east-1.amazonaws.com/123456789012/parked",
        f"  attributes  {ATTRIBUTES}",
        "  body        59 bytes, not shown; --body shows it masked",
        "  2023-11-14 22:16:40  not sent (InternalError)",
        "    by       me@here",
        "    why      it is fixed",
        "    to       https://sqs.us-east-1.amazonaws.com/123456789012/main",
        "    plan     p-1, run run-1",
        "    settled  2023-11-14 22:16:41",
        "  2023-11-14 22:18:20  sent as copy-1b, in step 3 of a ramp",
        "    by       me@here",
        "    why      it is fixed",
        "    to       https://sqs.us-east-1.amazonaws.com/123456789012/main",
        "    plan     p-1, run run-1",
        "    edit     abc",
        "    settled  2023-11-14 22:18:21",
    ]


def test_unknown_id_exits_with_two_and_says_where_to_look(
    archive: Archive, capsys: Capture
) -> None:
    assert main(["show", "--archive", archive.root, "nobody"]) == 2

    shown = capsys.readouterr().err
    assert "message nobody: none of the 2 drains in archive" in shown
    assert "drain the parked queue, then ask again" in shown


def test_empty_archive_knows_no_message(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"archive .*new is empty: drain the parked queue"):
        show(ShowOptions(str(tmp_path / "new"), "m-1"))


def test_the_id_of_a_group_leads_to_the_verbs_for_groups(archive: Archive, capsys: Capture) -> None:
    assert main(["show", "--archive", archive.root, "g-53cb1ad25b"]) == 2
    assert capsys.readouterr().err == (
        f"dlq: g-53cb1ad25b: that is a group: dlq groups --archive {archive.root}; "
        f"its messages: dlq show --archive {archive.root} g-53cb1ad25b --out g-53cb1ad25b.jsonl\n"
    )


def test_broken_file_is_named(archive: Archive) -> None:
    archive.write("messages/drain_id=d-9/part.parquet", b"no Parquet")

    with pytest.raises(ArchiveError, match=r"drain_id=d-9/part\.parquet cannot be read"):
        show(ShowOptions(archive.root, "first"))
