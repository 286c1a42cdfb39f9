"""The tables of fields in the docs name exactly what the code stores."""

import json
import re
from dataclasses import fields
from pathlib import Path

from dlq_replay.context import FailureError, ReplayContext
from spark_reprocess.archive.messages.dead_letter_schema import ARROW_SCHEMA

ROOT = Path(__file__).resolve().parents[2]


def first_column(text: str, start: str) -> set[str]:
    """Names in the first column of the table behind *start*."""
    table = re.search(r"\n(\|.*?)\n\n", text[text.index(start) :], re.DOTALL)
    assert table, f"no table behind {start!r}"
    rows = table[1].splitlines()[2:]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])}


def test_every_column_of_the_archive_is_documented() -> None:
    documented = first_column((ROOT / "docs" / "analysis.md").read_text(), "The columns:")

    assert documented == {*ARROW_SCHEMA.names, "drain_id"}


def test_every_key_of_the_context_is_documented() -> None:
    documented = first_column(
        (ROOT / "docs" / "reference.md").read_text(), "Keys of `sqs-dlq-context`"
    )

    error = FailureError("E", "m")
    full = ReplayContext(
        *("i", 1, 2, "r", error, "p", "q", 4, "0123abcd", "g"),
        is_back=True,
        is_canary=True,
        last_id="l",
    )
    assert None not in [getattr(full, one.name) for one in fields(full)]
    assert documented == json.loads(full.to_json()).keys()
