"""Edits of a plan, against an SQS server over HTTP."""

import json
import sys
from pathlib import Path
from textwrap import indent

import pytest

from dlq.cli.command import main
from dlq.engine import Engine
from dlq.errors import InputError
from dlq.redrive.redrive import redrive
from dlq.redrive.request import RedriveRequest
from dlq.redrive.send_run import prepare
from dlq_replay.wire.attributes import MessageAttribute
from tests.integration.conftest import MakeQueue
from tests.integration.desk import MakeDesk
from tests.integration.spark_world import OWN, archive_of, bodies, parked, receive_all
from tests.support.approved_plan import planned
from tests.support.builders import context, filler, message, text
from tests.support.ledgers import attempts_of

RAISE_ID = """\
edit:
  - {op: test, path: /type, value: Order}
  - {op: replace, path: /id, value: 1000000000000000000000.10}
"""
SET = """\
set_attributes:
  own-text: concat('order ', get_json_object(body, '$.id'))
  own-number: body_bytes * 2
  own-bytes: null
  copy: attributes['own-bytes'].binary_value
  missing: get_json_object(body, '$.nothing')
"""


def with_edit(plan: str, keys: str) -> str:
    """The same plan, each group with these keys besides its action."""
    path = Path(plan)
    edited = f"action: redrive\n{indent(keys, '  ')}"
    path.write_text(path.read_text().replace("action: redrive\n", edited))
    return plan


@pytest.mark.both_engines
def test_edited_copy_carries_what_the_plan_says_and_its_origin_and_the_ledger_names_the_edit(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk([parked(0), parked(2)])

    summary = desk.redrive(with_edit(desk.plan, RAISE_ID + SET))

    assert (summary.count("sent"), summary.is_unfinished) == (2, False)
    arrived = sorted(receive_all(desk.destination), key=lambda m: m.first_id)
    assert bodies(arrived) == ['{"type":"Order","id":1000000000000000000000.10}'] * 2
    own = {n: a for n, a in arrived[1].attributes.items() if not n.startswith("sqs-dlq-")}
    assert own == {
        "own-text": text("order 2"),
        "own-number": text("52", "Number.float"),
        "copy": MessageAttribute("Binary", OWN["own-bytes"].value),
    }
    assert [message.history.context.first_id for message in arrived] == ["first-0", "first-2"]
    (attempt,) = attempts_of(desk.archive, summary.plan_id)
    assert attempt.claim.edits.keys() == {"m-000", "m-002"}
    (digest,) = set(attempt.claim.edits.values())
    (record,) = desk.archive.list(f"ledger/plan_id={summary.plan_id}/edits")
    assert record.endswith(f"/{summary.groups[0].group_id}.{digest}.json")
    assert "own-number" in (desk.archive.read(record) or b"").decode()


def test_message_that_the_edit_does_not_fit_is_left_and_named(
    engine: Engine, make_queue: MakeQueue, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    destination = make_queue("main", MaximumMessageSize="1024")
    origin = context(first_id="f", reason="attempts_exhausted")
    archive = archive_of(
        tmp_path,
        [
            message("m-good", '{"type":"Order","id":1}', origin),
            message("m-text", "type: Order", origin),
            message("m-other", '{"type":"Refund","id":1}', origin),
            message("m-twice", '{"type":"Order","type":"Order","id":1}', origin),
            message("m-full", '{"type":"Order","id":2}', filler(10)),
            message("m-large", json.dumps({"type": "Order", "id": 3, "x": "y" * 900}), origin),
        ],
    )
    plan = with_edit(planned(archive), RAISE_ID)
    argv = ["redrive", "--archive", archive.root, "--plan", plan, "--to-queue-url", destination.url]

    assert main([*argv, "--execute", "--reason", "fixed"]) == 4

    printed = capsys.readouterr().out
    for fault in (
        "[the body is not JSON]: m-text",
        "[operation 1 (test /type): another value is there, or none]: m-other",
        "[the body repeats a key of an object]: m-twice",
        "or be larger than MaximumMessageSize of a queue on its way, 1,024 bytes]: m-full, m-large",
    ):
        assert fault in printed
    assert bodies(receive_all(destination)) == ['{"type":"Order","id":1000000000000000000000.10}']
    assert printed.count(" left: the plan's edit does not fit them [") == 4


@pytest.mark.both_engines
def test_dry_run_shows_some_messages_before_and_after(
    engine: Engine,
    make_queue: MakeQueue,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = '{"type":"Order","id":1,"mail":"jane@example.org","card":"4111 1111 1111 1111"}'
    archive = archive_of(tmp_path, [message(f"m-{n}", body, OWN) for n in range(5)])
    plan = with_edit(planned(archive), RAISE_ID + SET)
    destination = make_queue("main")
    place = ["--archive", archive.root, "--engine", engine.name]
    argv = ["redrive", *place, "--plan", plan, "--to-queue-url", destination.url]

    assert main(argv) == 0
    logged = capsys.readouterr().out
    assert "dry run: nothing was sent" in logged
    assert "message m-" not in logged  # A log is no place for words of messages.
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("NO_COLOR", "1")
    assert main([*argv, "--mask", "grüße"]) == 0

    printed = capsys.readouterr().out
    assert printed.count(", message m-") == 3
    assert '  -  "id": 1,\n  +  "id": 1000000000000000000000.10,\n' in printed
    assert "  -attribute own-text (String): ***\n" in printed
    assert "  +attribute own-text (String): order 1\n" in printed
    assert "jane" not in printed
    assert "4111" not in printed
    assert receive_all(destination) == []
    assert archive.list("ledger") == []


@pytest.mark.both_engines
def test_expressions_are_checked_with_the_whole_plan(make_desk: MakeDesk) -> None:
    desk = make_desk([parked(0)])
    keys = (
        "set_attributes:\n  a: nothing + 1\n  b: sum(body_bytes)\n  c: parked_reason is null\n"
        "  d: attributes\n  e: rand()\n  f: explode(array(1))\n  g: ')'\n"
        "  h: java_method('java.lang.System', 'setProperty', 'dlq.test', 'x')\n"
    )
    faults = [
        ("a", "nothing"),
        ("b", "other messages"),
        ("c", "gives boolean"),
        ("d", "gives map"),
        ("e", "rand(): is not allowed"),
        ("f", "explode(): is not allowed"),
        ("g", "cannot be read"),
        ("h", "java_method(): is not allowed"),
    ]

    with pytest.raises(InputError) as caught:
        desk.redrive(with_edit(desk.plan, keys))

    for line, (name, fault) in zip(str(caught.value).splitlines()[1:], faults, strict=True):
        assert line.startswith(f"  groups[0].set_attributes.{name}: ")
        assert fault in line.lower()


def test_types_of_expressions_are_checked_where_the_run_was_prepared_without_an_engine(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk([parked(0)])
    plan = with_edit(desk.plan, "set_attributes:\n  c: parked_reason is null\n")
    request = RedriveRequest(plan=plan, to_queue_url=desk.destination.url)
    run = prepare(desk.archive, request)

    with pytest.raises(InputError, match=r"set_attributes\.c: .*gives boolean"):
        redrive(desk.engine, run)


@pytest.mark.both_engines
def test_expression_that_fails_on_a_message_stops_before_anything_is_sent(
    make_desk: MakeDesk,
) -> None:
    desk = make_desk([parked(0)])
    plan = with_edit(desk.plan, "set_attributes: {n: body_bytes * 9223372036854775807}\n")
    reason = {"local": "too large for its type", "spark": "ARITHMETIC_OVERFLOW"}[desk.engine.name]

    with pytest.raises(InputError, match=rf"set_attributes of group .*{reason}.*try_cast"):
        desk.redrive(plan)
    assert not desk.arrived()
    assert desk.archive.list("ledger") == []


@pytest.mark.both_engines
def test_fifo_group_waits_behind_a_message_that_cannot_be_edited(make_desk: MakeDesk) -> None:
    messages = [
        message("m-1", '{"type":"Other","id":1}', MessageGroupId="g", SequenceNumber="1"),
        message("m-2", '{"type":"Order","id":2}', MessageGroupId="g", SequenceNumber="2"),
        message("m-3", '{"type":"Order","id":3}', MessageGroupId="h", SequenceNumber="3"),
    ]
    desk = make_desk(messages, "main.fifo")

    summary = desk.redrive(with_edit(desk.plan, RAISE_ID))

    assert [summary.count(disposition) for disposition in ("edit_failed", "waits", "sent")] == [
        1,
        1,
        1,
    ]
    assert [message.message_group_id for message in receive_all(desk.destination)] == ["h"]
