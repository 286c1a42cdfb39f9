"""``make accuracy DATA=FOLDER``: how well messages are grouped, on data that is not ours to ship.

FOLDER has ``error-pairs.jsonl`` (``error_type, a, b, same``) and ``loghub-*.jsonl.xz`` (``system,
content, event``). Grouping accuracy is the share of lines whose group is just that of their event.
"""

import json
import lzma
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spark_reprocess.analysis.normalization import mask_error


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    content = path.read_bytes()
    text = (lzma.decompress(content) if path.suffix == ".xz" else content).decode()
    yield from map(json.loads, text.splitlines())


def _grouping_accuracy(rows: list[dict[str, Any]]) -> float:
    events, groups = defaultdict[str, set[int]](set), defaultdict[str, set[int]](set)
    for number, row in enumerate(rows):
        events[row["event"]].add(number)
        groups[mask_error(row["content"])].add(number)
    return sum(len(g) for g in groups.values() if events[rows[min(g)]["event"]] == g) / len(rows)


def main(folder: Path) -> None:
    """Print the figures."""
    pairs = [row for path in folder.glob("error-pairs*.jsonl") for row in _rows(path)]
    for same, what in ((False, "different failures apart"), (True, "equal failures together")):
        kept = [
            (mask_error(p["a"]) == mask_error(p["b"])) is same for p in pairs if p["same"] is same
        ]
        print(f"{what}: {sum(kept)} of {len(kept)}")  # noqa: T201 - the answer
    systems = defaultdict[str, list[dict[str, Any]]](list)
    for path in sorted(folder.glob("loghub-*.jsonl.xz")):
        for row in _rows(path):
            systems[row["system"]].append(row)
    found = {name: _grouping_accuracy(rows) for name, rows in systems.items()}
    for name, accuracy in found.items():
        print(f"grouping accuracy, {name}: {accuracy:.3f}")  # noqa: T201
    print(f"grouping accuracy, mean: {sum(found.values()) / max(1, len(found)):.3f}")  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
