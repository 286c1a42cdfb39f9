"""The markers of generated blocks are well formed; CI compares what is between them."""

from pathlib import Path

import pytest

from scripts.generate_docs import BLOCK, BLOCKS, PAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_marker_belongs_to_a_block(page: Path) -> None:
    text = page.read_text("utf-8")
    blocks = BLOCK.findall(text)

    assert text.count("<!-- generated:") == text.count("<!-- /generated") == len(blocks)
    assert {name for _, name, _ in blocks} <= BLOCKS.keys()
