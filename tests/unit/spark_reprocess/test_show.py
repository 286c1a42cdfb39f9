import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dlq_replay.wire.attributes import MessageAttribute
from dlq_replay.wire.context import FailureError
from dlq_replay.wire.message import Message
from spark_reprocess.archive.ledger.claims import OUTCOMES, Claim, Result, timestamp
from spark_reprocess.archive.ledger.disposition import Disposition
from spark_reprocess.archive.ledger.run_results import close_runs
from spark_reprocess.archive.messages.dead_letter_schema import to_row
from spark_reprocess.archive.messages.message_store import write_messages
from spark_reprocess.archive.storage.files import Archive, open_archive
from spark_reprocess.command_line.cli import main
from spark_reprocess.errors import InputError
from spark_reprocess.inspect.show import ShowOptions, show
from tests.support.builders import NOW, context, counter, message, queue_url, text
from tests.support.golden import assert_stored
from tests.support.ledgers import begin

Capture = pytest.CaptureFixture[str]
BODY = '{"order": 7, "mail": "ada@example.org", "note": "\x9b31mred"}'

WORDS = {Disposition.FAILED: "not sent", Disposition.IN_DOUBT: "in doubt: it may have been sent"}


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
    text = f"{printed.out}{printed.err}exit code {code}\n"
    if "--body" in words:
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
        monkeypatch.setenv("NO_COLOR", "1")
        main(words)
        text += f"--- on a screen\n{capsys.readouterr().out}"

    assert "\x9b" not in text
    if name == "a dead letter":
        main([*words, "--json"])
        assert not re.search(r"order|acme|example\.org", text + capsys.readouterr().out)
    text = re.sub(r"\x1b\[[0-9;]*m", "", text).replace(archive.root, "ARCHIVE")
    assert_stored("show", name, text)


def test_unmasked_body_is_shown_as_it_is(archive: Archive, capsys: Capture) -> None:
    main(["show", "--archive", archive.root, "first", "--unmasked", "--json"])

    (copy, _) = json.loads(capsys.readouterr().out)["copies"]
    assert copy["body"] == BODY
    assert copy["values"]["tenant"] == "acme bob@example.org"


def test_empty_archive_knows_no_message(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none of the 0 drains in archive .*new brought it"):
        show(ShowOptions(str(tmp_path / "new"), "m-1"))
