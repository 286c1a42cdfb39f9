"""The difference that an edit makes, as ``tests/golden/previews.txt`` has it."""

import json

from dlq.explain.signature.mask import compile_masks
from dlq.plan.edit import Edit, Patch
from dlq.redrive.resolving.editor import edit_sample
from dlq_replay.wire.attributes import MessageAttribute
from dlq_replay.wire.message import Message
from tests.support.builders import context, counter, message, text
from tests.support.golden import assert_stored, stored_rows

BODY = json.dumps({"name": "Jane", "zip": None, "mail": "jane@example.org"})
PARKED = message("m-1", BODY, {"tenant": text("a"), **context(first_id="f"), **counter("5")})
EDIT = Edit(Patch('[{"op":"replace","path":"/zip","value":"10115"}]'))
RAW = MessageAttribute("Binary", b"abc")
PREVIEWS: dict[str, tuple[Message, Message]] = {
    "body and attributes": (PARKED, EDIT.apply(PARKED, [("tenant", None), ("raw", RAW)])),
    "nothing changes": (message("m-1", BODY), message("m-1", BODY)),
    "no JSON": (
        message("m-1", "plain text", {"a": text("x")}),
        message("m-1", "plain text", {"a": text("y")}),
    ),
    "a long difference": (
        message("m-1", json.dumps(list(range(100)))),
        message("m-1", json.dumps([str(n) * 100 for n in range(100)])),
    ),
}


@stored_rows("previews", PREVIEWS)
def test_a_difference_reads_as_it_is_stored(name: str) -> None:
    before, after = PREVIEWS[name]

    sample = edit_sample("g-1", before, after, compile_masks(()))
    assert_stored("previews", name, "\n".join(sample.lines))
