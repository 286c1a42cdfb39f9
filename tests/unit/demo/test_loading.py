import json
from pathlib import Path

import pytest

from demo import InputError, arguments
from demo.arguments import parse_options, work_folder
from demo.workload import load


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
        assert [m.content for m in fifo] == [m.content for m in standard]


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
        with pytest.raises(InputError, match="Another demo works"), work_folder(None):
            pass

    with work_folder(None) as second:
        assert list(second.iterdir()) == []
