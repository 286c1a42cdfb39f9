"""The search for leads as ``analyze`` runs it, without Spark: messages in, groups and leads out."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from spark_reprocess.analysis.comparison import Sample, SampledGroup
from spark_reprocess.analysis.features import features_of
from spark_reprocess.analysis.lead_format import lead_of
from spark_reprocess.analysis.leads import find_leads
from spark_reprocess.analysis.mask import Masks
from spark_reprocess.analysis.predicates import feature_table
from spark_reprocess.analysis.signature import has_error, shape_of, short_title, signature_of
from spark_reprocess.findings import Lead


@dataclass(frozen=True, slots=True)
class Letter:
    """What the search sees of a dead letter."""

    body: Any
    attributes: Mapping[str, str] | None = None
    error_type: str | None = None
    reason: str = "attempts_exhausted"


@dataclass(frozen=True, slots=True)
class SearchedGroup:
    """A group, its leads, and the places of its messages among those given."""

    title: str
    members: tuple[int, ...]
    leads: tuple[Lead, ...]


def searched(letters: Sequence[Letter], masks: Masks | None = None) -> list[SearchedGroup]:
    """Group the letters and look for each group's leads, the largest group first."""
    rows = sorted(_row(place, one) for place, one in enumerate(letters))
    places = defaultdict(list)
    for position, row in enumerate(rows):
        places[row.group_id].append(position)
    shapes = np.unique([row.shape for row in rows], return_inverse=True)[1]
    groups = [
        SampledGroup(one, np.array(of_group), len(of_group), rows[of_group[0]].is_by_shape)
        for one, of_group in places.items()
    ]
    table = feature_table(pa.array([row.features for row in rows]))
    sample = Sample(table, groups, shapes.astype(np.int64))
    found = find_leads(sample, list(places))
    return [
        SearchedGroup(
            rows[of_group[0]].title,
            tuple(rows[position].place for position in of_group),
            tuple(lead_of(lead, masks or Masks()) for lead in found[one]),
        )
        for one, of_group in sorted(places.items(), key=lambda pair: -len(pair[1]))
    ]


@dataclass(frozen=True, order=True, slots=True)
class _Row:
    group_id: str
    chance: str
    place: int
    title: str
    shape: str
    features: str
    is_by_shape: bool


def _row(place: int, letter: Letter) -> _Row:
    body = letter.body if isinstance(letter.body, str) else json.dumps(letter.body)
    signature = signature_of(body, letter.reason, letter.error_type, None)
    attributes = [
        (name, {"data_type": "String", "string_value": text, "binary_value": None})
        for name, text in (letter.attributes or {}).items()
    ]
    return _Row(
        signature.group_id,
        hashlib.sha256(str(place).encode()).hexdigest(),
        place,
        short_title(signature.text),
        shape_of(body).key,
        features_of(body, len(body.encode()), attributes, {}),
        not has_error(letter.error_type, None),
    )
