import json
import random
from pathlib import Path

import pytest

from demo import InputError, arguments
from demo.arguments import parse_options, work_folder
from demo.identity import DEMO_ID, Attribute, Content
from demo.input_file import MAX_MESSAGE_BYTES
from demo.workload import (
    MAX_GROUPS,
    DemoMessage,
    Trait,
    broken_count,
    from_input,
    in_groups,
    invent,
    load,
)


def attributes(count: int) -> dict[str, Attribute]:
    return {f"a{n}": Attribute("String", "v") for n in range(count)}


def test_same_seed_invents_the_same_messages() -> None:
    assert invent(30, random.Random(7)) == invent(30, random.Random(7))
    assert invent(30, random.Random(7)) != invent(30, random.Random(8))


def test_invented_messages_are_distinct_json_with_each_kind_of_attribute() -> None:
    messages = invent(120, random.Random(1))

    assert len({m.identity for m in messages}) == 120
    types = {a.data_type for m in messages for a in m.content.attributes.values()}
    assert types == {"String", "Number", "Binary.hmac"}
    assert all(json.loads(m.content.body)["type"] for m in messages)


def test_shares_of_faults_are_kept() -> None:
    messages = invent(200, random.Random(1))

    assert sum(m.trait is Trait.BROKEN for m in messages) == 80
    assert 65 <= sum(m.trait is Trait.NEEDS_PAYMENTS for m in messages) <= 95


@pytest.mark.parametrize("seed", range(5))
def test_few_messages_meet_every_bug(seed: int) -> None:
    broken = [m for m in invent(10, random.Random(seed)) if m.trait is Trait.BROKEN]

    assert len({json.loads(m.content.body)["type"] for m in broken}) == 3


@pytest.mark.parametrize(("count", "broken"), [(1, 1), (2, 2), (8, 4), (150, 60)])
def test_few_messages_have_enough_broken_ones_to_see(count: int, broken: int) -> None:
    assert broken_count(count) == broken


def test_message_with_room_gets_the_demo_id() -> None:
    with_room = DemoMessage.of(5, Content("b", attributes(7)))
    without_slot = DemoMessage.of(5, Content("b", attributes(8)))
    without_bytes = DemoMessage.of(5, Content("b" * MAX_MESSAGE_BYTES))

    assert with_room.identity == "m00005"
    assert DEMO_ID not in without_slot.content.attributes
    assert without_slot.identity == without_slot.content.fingerprint
    assert DEMO_ID not in without_bytes.content.attributes


def test_the_products_own_attributes_take_no_room_of_the_demo_id() -> None:
    content = Content("b", {**attributes(7), "sqs-dlq-replay-nb": Attribute("Number", "1")})

    assert DemoMessage.of(1, content).identity == "m00001"


def test_input_keeps_order_and_gets_each_fault() -> None:
    messages, faults = from_input([(n, Content(f"body {n}")) for n in range(1, 101)])

    assert [m.number for m in messages] == list(range(1, 101))
    assert faults == []
    assert sum(m.trait is Trait.BROKEN for m in messages) == 40
    assert sum(m.trait is Trait.NEEDS_PAYMENTS for m in messages) == 40


def test_bug_hits_whole_kinds_of_payload() -> None:
    rare = [(n, Content(json.dumps({"rare": n}))) for n in range(1, 9)]
    common = [(n, Content(json.dumps({"common": n}))) for n in range(9, 101)]

    messages, _ = from_input([*rare, *common], share=0.08)

    assert {m.number for m in messages if m.trait is Trait.BROKEN} == set(range(1, 9))


def test_message_that_nothing_tells_from_another_is_reported() -> None:
    twin = Content("b", attributes(9))

    messages, faults = from_input([(1, twin), (2, Content("b")), (3, twin), (4, Content("b"))])

    assert [m.number for m in messages] == [1, 2, 4]
    assert [(f.line, "equals line 1" in f.rule) for f in faults] == [(3, True)]


def test_each_message_has_the_same_group_in_every_run() -> None:
    first, again = (in_groups(invent(120, random.Random(1))) for _ in range(2))

    assert first == again
    assert [m.content for m in first] == [m.content for m in invent(120, random.Random(1))]


@pytest.mark.parametrize(("count", "groups"), [(1, 1), (24, 3), (120, 17), (500, MAX_GROUPS)])
def test_groups_are_few_enough_to_share_and_enough_to_pass_by(count: int, groups: int) -> None:
    messages = in_groups(invent(count, random.Random(1)))

    assert len({m.group for m in messages}) == groups


def test_bug_hits_a_quarter_of_the_groups() -> None:
    messages = in_groups(invent(500, random.Random(1)))

    assert len({m.group for m in messages if m.trait is Trait.BROKEN}) <= MAX_GROUPS // 4


def test_own_messages_without_room_for_a_mark_have_groups_too() -> None:
    full = DemoMessage.of(1, Content("b" * 1_048_576))

    assert in_groups([full])[0].group == in_groups([full])[0].group is not None


def write(path: Path, *lines: str) -> str:
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


def message(text: str) -> str:
    return json.dumps({"body": text})


def test_messages_are_invented_without_a_file() -> None:
    assert len(load(parse_options([])).messages) == arguments.DEFAULT_MESSAGES
    assert len(load(parse_options(["--messages", "7"])).messages) == 7


def test_messages_have_groups_for_fifo_queues_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "in.jsonl", *(message(str(n)) for n in range(30)))

    for options in (["--messages", "30"], ["--input", path]):
        standard = load(parse_options(options)).messages
        fifo = load(parse_options([*options, "--queue", "fifo"])).messages
        assert {m.group for m in standard} == {None}
        assert len({m.group for m in fifo} - {None}) > 1
        assert len(fifo) == len(standard)


def test_bad_lines_are_remarked_and_the_rest_is_sent(tmp_path: Path) -> None:
    path = write(tmp_path / "in.jsonl", message("one"), "{", '{"body": ""}', message("two"))

    loaded = load(parse_options(["--input", path]))

    assert [m.content.body for m in loaded.messages] == ["one", "two"]
    assert loaded.remarks == [
        "line 2 is left out: must be JSON, one object a line",
        "line 3 is left out: body must be text of at least one character",
    ]


def test_many_bad_lines_do_not_fill_the_screen(tmp_path: Path) -> None:
    path = write(tmp_path / "in.jsonl", message("one"), *["{"] * 50)

    remarks = load(parse_options(["--input", path])).remarks

    assert len(remarks) == 21
    assert remarks[-1] == "30 more lines are left out"


def test_limit_takes_the_first_messages_and_says_so(tmp_path: Path) -> None:
    path = write(tmp_path / "in.jsonl", *(message(str(n)) for n in range(5)))

    loaded = load(parse_options(["--input", path, "--messages", "3"]))

    assert [m.content.body for m in loaded.messages] == ["0", "1", "2"]
    assert loaded.remarks == ["the first 3 of 5 messages are taken"]


def test_file_without_a_message_is_bad_input(tmp_path: Path) -> None:
    path = write(tmp_path / "in.jsonl", "{", "")

    with pytest.raises(InputError, match=r"line 1 is left out: (.|\n)*holds no message to send"):
        load(parse_options(["--input", path]))


def test_missing_file_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.jsonl cannot be read: No such file"):
        load(parse_options(["--input", str(tmp_path / "absent.jsonl")]))


@pytest.mark.parametrize("count", ["0", "501", "-1", "ten", "1.5"])
def test_message_count_out_of_range_is_refused(
    count: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        parse_options(["--messages", count])

    assert end.value.code == 2
    assert "must be a whole number from 1 to 500" in capsys.readouterr().err


def test_help_teaches_by_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse_options(["--help"])

    text = capsys.readouterr().out
    assert "python -m demo --input messages.jsonl" in text
    assert '"BinaryValue": "3q2+7w=="' in text


def test_kept_folder_must_be_empty(tmp_path: Path) -> None:
    with work_folder(tmp_path / "new") as folder:
        assert folder.is_dir()
    (tmp_path / "new" / "file").touch()

    with (
        pytest.raises(InputError, match="must be empty or new"),
        work_folder(tmp_path / "new"),
    ):
        pass


def test_default_folder_is_wiped_and_held_by_one_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arguments, "DEFAULT_FOLDER", tmp_path / ".demo")
    with work_folder(None) as first:
        (first / "old").touch()
        with pytest.raises(InputError, match="Another demo uses"), work_folder(None):
            pass

    with work_folder(None) as second:
        assert list(second.iterdir()) == []
