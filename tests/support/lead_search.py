"""The search for leads as ``analyze`` runs it, without Spark: messages in, groups and leads out."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from spark_reprocess.analysis.groups.mask import Masks
from spark_reprocess.analysis.groups.signature import has_error, shape_of, short_title, signature_of
from spark_reprocess.analysis.leads.feature_extraction import find_leads_in
from spark_reprocess.analysis.leads.features import features_of
from spark_reprocess.archive.storage.records import record_of
from spark_reprocess.groups.findings import Lead


@dataclass(frozen=True, slots=True)
class Letter:
    """What the search sees of a dead letter."""

    body: Any
    attributes: Mapping[str, str] | None = None
    error_type: str | None = None
    reason: str = "attempts_exhausted"
    failed_at: float | None = None


@dataclass(frozen=True, slots=True)
class SearchedGroup:
    """A group, its leads, and the places of its messages among those given."""

    title: str
    members: tuple[int, ...]
    leads: tuple[Lead, ...]


def searched(
    letters: Sequence[Letter], masks: Masks | None = None, each_stands_for: int = 1
) -> list[SearchedGroup]:
    """Group the letters and look for each group's leads, the largest group first."""
    rows = [_row(place, one) for place, one in enumerate(letters)]
    rows.sort(key=lambda row: (row["group_id"], row["chance"]))
    of_group = defaultdict(list)
    for row in rows:
        of_group[row["group_id"]].append(row)
    counts = {group_id: len(members) * each_stands_for for group_id, members in of_group.items()}
    leads = dict[str, tuple[Lead, ...]]()
    table = pa.Table.from_pylist(rows)
    failed_at = table.column("failed_at").cast(pa.float64())
    place = table.column_names.index("failed_at")
    batch = table.set_column(place, "failed_at", failed_at).to_batches()[0]
    for found in find_leads_in(counts, masks or Masks(), [batch]):
        for row in found.to_pylist():
            leads[row["group_id"]] = record_of(tuple[Lead, ...], row["leads"])
    return [
        SearchedGroup(
            members[0]["title"], tuple(row["place"] for row in members), leads.get(group_id, ())
        )
        for group_id, members in sorted(of_group.items(), key=lambda pair: -len(pair[1]))
    ]


def _row(place: int, letter: Letter) -> dict[str, Any]:
    body = letter.body if isinstance(letter.body, str) else json.dumps(letter.body)
    signature = signature_of(body, letter.reason, letter.error_type, None)
    attributes = [
        (name, {"data_type": "String", "string_value": text, "binary_value": None})
        for name, text in (letter.attributes or {}).items()
    ]
    return {
        "group_id": signature.group_id,
        "chance": hashlib.sha256(str(place).encode()).hexdigest(),
        "place": place,
        "title": short_title(signature.text),
        "shape": shape_of(body).key,
        "failed_at": letter.failed_at,
        "features": features_of(body, len(body.encode()), attributes, {}),
        "is_by_shape": not has_error(letter.error_type, None),
    }
