import json

from dlq_replay.wire.attributes import MessageAttribute
from dlq_replay.wire.message import Message
from spark_reprocess.analysis.groups.mask import compile_masks
from spark_reprocess.editing.edit import Edit, Patch
from spark_reprocess.redrive.resolving.editor import edit_sample
from tests.support.builders import context, counter, message, text

NOTHING = compile_masks(())
BODY = json.dumps({"name": "Jane", "zip": None, "mail": "jane@example.org"})


def lines(before: Message, after: Message) -> list[str]:
    return list(edit_sample("g-1", before, after, NOTHING).lines)


def test_difference_names_what_changes_line_by_line() -> None:
    before = message("m-1", BODY, {"tenant": text("a"), **context(first_id="f"), **counter("5")})
    edit = Edit(Patch('[{"op":"replace","path":"/zip","value":"10115"}]'))
    after = edit.apply(before, [("tenant", None), ("raw", MessageAttribute("Binary", b"abc"))])

    shown = lines(before, after)

    assert [line for line in shown if line[0] in "+-"] == [
        '-  "zip": null,',
        '+  "zip": "10115",',
        "-attribute tenant (String): a",
        "+attribute raw (Binary): 3 bytes",
    ]
    assert not any("sqs-dlq-" in line for line in shown)


def test_edit_that_changes_nothing_says_so() -> None:
    assert lines(message("m-1", BODY), message("m-1", BODY)) == [
        " nothing changes, or only what is masked"
    ]


def test_body_that_is_no_json_is_shown_as_it_is() -> None:
    before = message("m-1", "plain text", {"a": text("x")})
    after = message("m-1", "plain text", {"a": text("y")})

    assert lines(before, after)[1:] == [
        " plain text",
        "-attribute a (String): x",
        "+attribute a (String): y",
    ]


def test_long_differences_are_cut() -> None:
    before = message("m-1", json.dumps(list(range(100))))
    after = message("m-1", json.dumps([str(n) * 100 for n in range(100)]))

    shown = lines(before, after)

    assert len(shown) == 41
    assert shown[-1].startswith(" … ")
    assert all(len(line) <= 170 for line in shown)
