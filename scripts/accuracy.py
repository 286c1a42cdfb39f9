"""``make accuracy DATA=FOLDER``: how well messages are grouped, on data that is not ours to ship.

FOLDER has ``error-pairs.jsonl`` (``error_type, a, b, same``) and ``loghub-*.jsonl.xz`` (``system,
content, event``). Grouping accuracy is the share of lines whose group is just that of their event.
The numbers of ``grouping`` were chosen by the first half of the systems, by name.
"""

import json
import lzma
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spark_reprocess.analysis.signature import signature_of
from spark_reprocess.grouping import grouped


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    content = path.read_bytes()
    text = (lzma.decompress(content) if path.suffix == ".xz" else content).decode()
    yield from map(json.loads, text.splitlines())


def _group_ids(texts: list[str]) -> list[str]:
    """Return the group of each error's text, if these are all messages of an archive."""
    keys = [signature_of("", None, "Error", text).group_key for text in texts]
    _, grouping = grouped((), Counter(keys))
    return [grouping.ids[key] for key in keys]


def _grouping_accuracy(rows: list[dict[str, Any]]) -> float:
    events, groups = defaultdict[str, set[int]](set), defaultdict[str, set[int]](set)
    for number, group_id in enumerate(_group_ids([row["content"] for row in rows])):
        events[rows[number]["event"]].add(number)
        groups[group_id].add(number)
    return sum(len(g) for g in groups.values() if events[rows[min(g)]["event"]] == g) / len(rows)


def main(folder: Path) -> None:
    """Print the figures."""
    pairs = [row for path in folder.glob("error-pairs*.jsonl") for row in _rows(path)]
    for same, what in ((False, "different failures apart"), (True, "equal failures together")):
        ids = [_group_ids([pair["a"], pair["b"]]) for pair in pairs if pair["same"] is same]
        right = sum((a == b) is same for a, b in ids)
        print(f"{what}: {right} of {len(ids)}")  # noqa: T201 - the answer
    systems = defaultdict[str, list[dict[str, Any]]](list)
    for path in sorted(folder.glob("loghub-*.jsonl.xz")):
        for row in _rows(path):
            systems[row["system"]].append(row)
    found = {name: _grouping_accuracy(rows) for name, rows in systems.items()}
    for name, accuracy in found.items():
        print(f"grouping accuracy, {name}: {accuracy:.3f}")  # noqa: T201
    names, half = sorted(found), (len(found) + 1) // 2
    for what, part in (("chosen by", names[:half]), ("others", names[half:]), ("all", names)):
        mean = sum(found[name] for name in part) / max(1, len(part))
        print(f"grouping accuracy, mean, {what}: {mean:.3f}")  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
