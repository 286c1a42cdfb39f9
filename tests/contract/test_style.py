"""Arguments stand one by one: a literal tuple behind a star only saves lines, and hides names."""

import ast

from scripts.style import PARTS, is_literal_splat, python_files
from tests.contract.template import ROOT


def test_no_literal_is_unpacked_into_a_call_or_a_display() -> None:
    places: list[str] = []
    for folders in PARTS.values():
        for path in python_files(folders):
            for node in ast.walk(ast.parse((ROOT / path).read_text("utf-8"))):
                if is_literal_splat(node):
                    places.append(f"{path}:{node.lineno}: {ast.unparse(node)}")  # type: ignore[attr-defined]

    assert places == []
