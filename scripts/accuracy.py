"""``make accuracy DATA=FOLDER``: how well failures are grouped and explained, on others' data.

FOLDER has ``error-pairs.jsonl`` (``error_type, a, b, same``) and ``loghub-*.jsonl.xz`` (``system,
content, event``). Grouping accuracy is the share of lines whose group is just that of their event.
The numbers of ``grouping`` were chosen by the first half of the systems, by name.

It also has ``robustspot-*.jsonl.xz`` and ``squeeze-*.jsonl.xz``: ``case, setting, causes, leaves``.
The failed messages of a case are one group, the others another. A cause counts if it is a lead
exactly.
"""

import json
import lzma
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from spark_reprocess.analysis.groups.mask import Masks
from spark_reprocess.analysis.groups.names import mask_name
from spark_reprocess.analysis.groups.signature import signature_of
from spark_reprocess.analysis.leads.feature_extraction import find_leads_in
from spark_reprocess.analysis.leads.features import features_of
from spark_reprocess.groups.grouping import grouped


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


_MOST_OF_A_GROUP = 20_000
_Cause = frozenset[tuple[str, str]]


def _causes_found(row: dict[str, Any]) -> list[_Cause]:
    """Return the leads of the group of failed messages of one case."""
    leaves = row["leaves"]
    rows = []
    for group_id, count in (
        ("bad", [leaf["_bad"] for leaf in leaves]),
        ("good", [leaf["_all"] - leaf["_bad"] for leaf in leaves]),
    ):
        numbers = np.repeat(np.arange(len(leaves)), count)
        np.random.default_rng(0).shuffle(numbers)
        rows += [(group_id, number) for number in numbers[:_MOST_OF_A_GROUP]]
    lines = []
    for leaf in leaves:
        fields = {name: value for name, value in leaf.items() if not name.startswith("_")}
        lines.append(features_of(json.dumps(fields), 0, (), {}))
    batch = pa.RecordBatch.from_pylist(
        [
            {
                "group_id": group_id,
                "chance": chance,
                "is_by_shape": False,
                "features": lines[number],
                "shape": "one",
                "failed_at": math.nan,
            }
            for chance, (group_id, number) in enumerate(rows)
        ]
    )
    total = {one: sum(1 for group_id, _ in rows if group_id == one) for one in ("bad", "good")}
    return [
        frozenset((part["field"].removeprefix("body."), part["value"]) for part in lead["parts"])
        for found in find_leads_in(total, Masks(), [batch])
        for row in found.to_pylist()
        if row["group_id"] == "bad"
        for lead in row["leads"]
    ]


def _print_causes(folder: Path) -> None:
    first, among, cases = 0, 0, 0
    settings = defaultdict[str, list[int]](lambda: [0, 0])
    for path in sorted(folder.glob("robustspot-*.jsonl.xz")):
        for row in _rows(path):
            causes, found = _true_causes(row), _causes_found(row)
            cases, first = cases + 1, first + (found[:1] != [] and found[0] in causes)
            among += any(one in causes for one in found)
    for path in sorted(folder.glob("squeeze-*.jsonl.xz")):
        for row in _rows(path):
            causes, leads = _true_causes(row), set(_causes_found(row))
            settings[row["setting"]][0] += 2 * len(causes & leads)
            settings[row["setting"]][1] += len(causes) + len(leads)
    print(f"exact cause first: {first} of {cases}, among five: {among}")  # noqa: T201
    scores = {name: right / most for name, (right, most) in settings.items()}
    for name, score in scores.items():
        print(f"F1, {name}: {score:.3f}")  # noqa: T201
    print(f"F1, mean: {sum(scores.values()) / max(1, len(scores)):.3f}")  # noqa: T201


def _true_causes(row: dict[str, Any]) -> set[_Cause]:
    return {
        frozenset((mask_name(name), value) for name, value in one.items()) for one in row["causes"]
    }


def main(folder: Path) -> None:
    """Print the figures."""
    _print_causes(folder)
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
