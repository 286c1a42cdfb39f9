"""The archive of the analysis benchmark is what its figures and its known causes rest on."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from benchmarks.parked_archive import ROWS_PER_FILE, beginning_of, file_of, write_archive
from benchmarks.parked_messages import CAUSES, KNOWN_CAUSES
from spark_reprocess.analysis.signature import signature_of
from spark_reprocess.archive.dead_letter_schema import ARROW_SCHEMA, from_row


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return file_of(0, ROWS_PER_FILE).to_pylist()


def test_a_file_is_always_the_same_and_unlike_the_next() -> None:
    assert file_of(0, 50).equals(file_of(0, 50))
    assert not file_of(0, 50).equals(file_of(ROWS_PER_FILE, 50))


def test_rows_are_messages_of_about_a_kilobyte(rows: list[dict[str, Any]]) -> None:
    sizes = [len(from_row(row).body.encode()) for row in rows]

    assert 1000 <= sum(sizes) / len(sizes) <= 1024
    assert [row["body_bytes"] for row in rows] == sizes
    assert len({row["message_id"] for row in rows}) == len(rows)
    assert all(json.loads(row["body"])["id"] for row in rows)


def test_there_are_many_groups_and_a_few_large_ones(rows: list[dict[str, Any]]) -> None:
    texts = ("body", "parked_reason", "error_type", "error_message")
    groups = Counter(signature_of(*(row[name] for name in texts)).group_id for row in rows)

    assert len(groups) > ROWS_PER_FILE / 4
    assert groups.most_common(1)[0][1] > ROWS_PER_FILE / 100


def test_a_cause_stands_behind_most_of_its_error_and_little_else(
    rows: list[dict[str, Any]],
) -> None:
    named = [f"{row['error_type']}: {row['error_message']}" for row in rows]
    for cause in KNOWN_CAUSES[:4]:
        is_its = [text.startswith(cause.title) for text in named]
        has_it = [f'"{cause.value}"' in row["body"] or _has(row, cause.value) for row in rows]
        both = sum(a and b for a, b in zip(is_its, has_it, strict=True))
        assert both > sum(is_its) / 2
        assert sum(has_it) == both


def _has(row: dict[str, Any], value: str) -> bool:
    return any(one["string_value"] == value for _, one in row["attributes"])


def test_each_cause_is_of_an_error_of_its_own() -> None:
    assert len({cause.title for cause in KNOWN_CAUSES}) == CAUSES


def test_a_part_is_the_beginning_of_the_whole(tmp_path: Path) -> None:
    whole, part = tmp_path / "whole", tmp_path / "part"
    write_archive(whole, ROWS_PER_FILE + 100)
    beginning_of(whole, part, ROWS_PER_FILE)

    read = [pq.read_table(file) for file in sorted(part.rglob("*.parquet"))]
    assert [one.num_rows for one in read] == [ROWS_PER_FILE]
    assert read[0].schema.remove_metadata().equals(ARROW_SCHEMA)
    assert (
        sum(pq.read_metadata(file).num_rows for file in whole.rglob("*.parquet"))
        == ROWS_PER_FILE + 100
    )


def test_a_part_ends_where_a_file_ends(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a multiple"):
        beginning_of(tmp_path, tmp_path / "part", 1)
