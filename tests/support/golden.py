"""Texts as people read them, in ``tests/golden``: ``make snapshot`` writes the files again.

A file holds the texts of one module of tests, each below a line ``=== NAME``. Review a difference
as you review code.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

_FOLDER = Path(__file__).parents[1] / "golden"


def assert_stored(file: str, name: str, text: str) -> None:
    """Assert that *text* is what *file* holds below *name*; with ``SNAPSHOT`` set, store it.

    Blanks at the end of a line do not count.
    """
    text = "\n".join(line.rstrip() for line in text.split("\n"))
    path = _FOLDER / f"{file}.txt"
    stored = stored_texts(file)
    if os.environ.get("SNAPSHOT"):
        stored[name] = text
        sections = (f"=== {name}\n{stored[name]}\n" for name in sorted(stored))
        path.write_text("".join(sections), encoding="utf-8")
    assert text == stored.get(name), f"{path.name}: {name}"


def stored_texts(file: str) -> dict[str, str]:
    """Read the texts of *file* by their names."""
    path = _FOLDER / f"{file}.txt"
    content = path.read_text(encoding="utf-8") if path.exists() else ""
    parts = re.split(r"^=== (.+)\n", content, flags=re.MULTILINE)[1:]
    return {name: text[:-1] for name, text in zip(parts[::2], parts[1::2], strict=True)}


def stored_rows(file: str, table: Iterable[str]) -> pytest.MarkDecorator:
    """Make a test of each row of *table* by its ``name``, and of what *file* has and no row."""
    return pytest.mark.parametrize("name", [*dict.fromkeys([*table, *stored_texts(file)])])
