"""What Spark's workers do with sampled messages: read their traits, and find the leads in one task.

Bodies are read in parallel and leave the workers masked and cut, or as traits. The traits of the
whole sample, whose size is bounded, then meet in one task, because leads compare each group with
all others.
"""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, cast

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from dlq_replay.masks import mask_start
from spark_reprocess.analysis.claims import Claim
from spark_reprocess.analysis.comparison import SampledGroup
from spark_reprocess.analysis.excerpt import excerpt
from spark_reprocess.analysis.leads import find_leads
from spark_reprocess.analysis.mask import Masks
from spark_reprocess.analysis.signature import (
    TITLE_CHARACTERS,
    has_error,
    shape_of,
    short_title,
    signature_of,
)
from spark_reprocess.analysis.trait_table import trait_table
from spark_reprocess.analysis.traits import COLUMNS, OUR_ATTRIBUTES, traits_of

EXAMINED_COLUMNS = (
    "message_id",
    "body",
    "body_bytes",
    "attributes",
    *COLUMNS,
    "sent_at",
    "parked_reason",
    "error_type",
    "error_message",
)

_ATTRIBUTE_CHARACTERS = 200
_REST = ""
"""Stands for all groups that nobody asks for."""

_EXAMINED_FIELDS: "list[pa.Field[Any]]" = [
    pa.field("group_id", pa.string()),
    pa.field("chance", pa.float64()),
    pa.field("is_by_shape", pa.bool_()),
    pa.field("traits", pa.string()),
    pa.field("shape", pa.string()),
    pa.field("title", pa.string()),
    pa.field("message_id", pa.string()),
    pa.field("sent_at", pa.timestamp("us", tz="UTC")),
    pa.field("body", pa.string()),
    pa.field("attributes", pa.list_(pa.struct([("name", pa.string()), ("text", pa.string())]))),
]
_EXAMINED = pa.schema(_EXAMINED_FIELDS)
_EXAMINED_DDL = (
    "group_id string, chance double, is_by_shape boolean, traits string, shape string, "
    "title string, message_id string, sent_at timestamp, body string, "
    "attributes array<struct<name: string, text: string>>"
)
_CLAIM = pa.struct([(name, pa.string()) for name in Claim._fields])
_LEAD_FIELDS: "list[pa.Field[Any]]" = [
    pa.field("group_id", pa.string()),
    pa.field("claim", _CLAIM),
    pa.field("group_share", pa.float64()),
    pa.field("other_share", pa.float64()),
    pa.field("score", pa.float64()),
    pa.field("others_alike", pa.bool_()),
    pa.field("synonyms", pa.list_(_CLAIM)),
]
_LEADS = pa.schema(_LEAD_FIELDS)
_CLAIM_DDL = "struct<sort: string, way: string, tag: string>"
_LEADS_DDL = (
    f"group_id string, claim {_CLAIM_DDL}, group_share double, other_share double, "
    f"score double, others_alike boolean, synonyms array<{_CLAIM_DDL}>"
)


def examined(
    picks: DataFrame, messages: DataFrame, masks: Masks, *, has_samples: bool
) -> DataFrame:
    """Read each picked message: its traits if it is sampled, and how it looks if it is shown.

    Args:
        picks: what ``sampling.picked`` returned.
        messages: the archive's rows.
        masks: what must not be shown.
        has_samples: whether bodies and attributes are shown at all.
    """
    rows = messages.select(*EXAMINED_COLUMNS).join(F.broadcast(picks), "message_id")
    return rows.mapInArrow(_Examiner(masks, has_samples).read, _EXAMINED_DDL)


@dataclass(frozen=True, slots=True)
class _Examiner:
    """What each task takes along; ``read`` is what Spark calls."""

    masks: Masks
    has_samples: bool

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [self._row(row) for row in batch.to_pylist()]
            yield pa.RecordBatch.from_pylist(rows, schema=_EXAMINED)

    def _row(self, row: dict[str, Any]) -> dict[str, Any]:
        body, error = row["body"], (row["error_type"], row["error_message"])
        examined: dict[str, Any] = {
            "group_id": row["group_id"],
            "chance": row["chance"],
            "is_by_shape": not has_error(*error),
        }
        attributes = row["attributes"] or ()
        if row["is_sampled"]:
            columns = {name: row[name] for name in COLUMNS}
            examined["traits"] = traits_of(body, row["body_bytes"], attributes, columns)
            examined["shape"] = _short_shape(shape_of(body).key)
        if row["is_shown"]:
            signature = signature_of(body, row["parked_reason"], *error)
            title = signature.text if self.has_samples else signature.textless
            examined["title"] = self._title(title)
            examined["message_id"] = row["message_id"]
            examined["sent_at"] = row["sent_at"]
            examined["body"] = excerpt(body, self.masks) if self.has_samples else None
            examined["attributes"] = self._attributes(attributes)
        return examined

    def _title(self, text: str) -> str:
        masked, is_cut = mask_start(text, TITLE_CHARACTERS, self.masks.text)
        return short_title(f"{masked}…" if is_cut else masked)

    def _attributes(self, attributes: Iterable[tuple[str, Any]]) -> list[dict[str, str]]:
        if not self.has_samples:
            return []
        return [
            {"name": name, "text": self._attribute_text(name, value)}
            for name, value in sorted(attributes)
            if name not in OUR_ATTRIBUTES
        ]

    def _attribute_text(self, name: str, value: dict[str, Any]) -> str:
        text = value["string_value"]
        if text is None:
            return f"{len(value['binary_value'] or b''):,} bytes"
        return self.masks.value(f"attribute.{name}", text, _ATTRIBUTE_CHARACTERS)


def _short_shape(key: str) -> str:
    """Of a shape its first words, which say the kind of message, and a digest of the rest."""
    digest = sha256(key.encode("utf-8", "replace")).hexdigest()[:16]
    return f"{key.partition('{')[0][:200]}{{{digest}"


def _row_of(claim: Claim) -> dict[str, str]:
    return {**claim._asdict(), "sort": claim.sort.name}


def leads_among(examined_rows: DataFrame, counts: dict[str, int], other_rate: float) -> DataFrame:
    """Find the leads of the groups in *counts*, in one task.

    Args:
        examined_rows: what ``examined`` returned.
        counts: messages by group.
        other_rate: the sampling rate of all other groups.
    """
    sampled = examined_rows.where("traits IS NOT NULL").select(
        "group_id", "chance", "is_by_shape", "traits", "shape"
    )
    return sampled.repartition(1).mapInArrow(_LeadFinder(counts, other_rate).find, _LEADS_DDL)


@dataclass(frozen=True, slots=True)
class _LeadFinder:
    """What the task takes along; ``find`` is what Spark calls."""

    counts: dict[str, int]
    other_rate: float

    def find(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        arrived = list(batches)
        if not arrived:
            return
        rows = pa.Table.from_batches(arrived).sort_by(
            [("group_id", "ascending"), ("chance", "ascending")]
        )
        names, shapes = np.unique(rows.column("shape").to_numpy(), return_inverse=True)
        found = find_leads(
            trait_table(cast("pa.StringArray", rows.column("traits").combine_chunks())),
            self._groups(rows),
            self.counts,
            shapes.astype(np.int64),
            [str(name) for name in names],
        )
        leads = [
            {
                "group_id": group_id,
                **asdict(lead),
                "claim": _row_of(lead.claim),
                "synonyms": [_row_of(one) for one in lead.synonyms],
            }
            for group_id, leads in found.items()
            for lead in leads
        ]
        yield pa.RecordBatch.from_pylist(leads, schema=_LEADS)

    def _groups(self, rows: pa.Table) -> list[SampledGroup]:
        ids = np.array(
            [i if i in self.counts else _REST for i in rows.column("group_id").to_pylist()]
        )
        is_by_shape = rows.column("is_by_shape").to_numpy()
        groups = []
        for group_id in np.unique(ids):
            messages = np.flatnonzero(ids == group_id)
            population = self.counts.get(group_id) or round(len(messages) / self.other_rate)
            groups.append(
                SampledGroup(str(group_id), messages, population, bool(is_by_shape[messages[0]]))
            )
        return groups
