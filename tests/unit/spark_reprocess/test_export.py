"""Which messages are exported, the shape of a line, the file that it goes to, and the answer."""

import json
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from dlq_replay.wire.attributes import MessageAttribute
from dlq_replay.wire.context import FailureError
from spark_reprocess.archive.messages.dead_letter_schema import ARROW_SCHEMA, Row, to_row, to_table
from spark_reprocess.archive.messages.message_store import drain_ids, remove_messages
from spark_reprocess.command_line.cli import main
from spark_reprocess.errors import InputError
from spark_reprocess.inspect.export import json_line, opened
from tests.support import parked_orders
from tests.support.builders import context, message, queue_url, text

Capture = pytest.CaptureFixture[str]


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


def test_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"

    with opened(str(path)) as out:
        out.write("{}\n")

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == "{}\n"


def test_file_that_exists_is_not_overwritten_and_a_link_to_none_is_not_followed(
    tmp_path: Path,
) -> None:
    path, link = tmp_path / "out.jsonl", tmp_path / "link"
    path.write_text("kept")
    link.symlink_to(tmp_path / "elsewhere")

    for one in (path, link):
        with pytest.raises(InputError, match="File exists; nothing was written"), opened(str(one)):
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
    group = next(one.group_id for one in parked_orders.plan_of(archive).groups if one.count == 6)
    argv = ["show", "--archive", archive.root, group]

    everything = tmp_path / "all.jsonl"
    assert main([*argv, "--out", str(everything)]) == 0
    assert "wrote 6 of 6 messages" in capsys.readouterr().out
    lines = exported(everything)
    assert [line["message_id"] for line in lines] == [one.message_id for one in orders[::-1]]
    assert [line["body"] for line in lines] == [one.body for one in orders[::-1]]
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


def test_help_says_that_nothing_is_masked(capsys: Capture) -> None:
    assert main(["show", "--help"]) == 0

    shown = " ".join(capsys.readouterr().out.split())
    assert "Nothing is masked" in shown
    assert "mode 0600" in shown
