"""Extract features of sampled messages on Spark's workers, and find the leads in one task.

Workers read the bodies in parallel. What leaves them is masked and cut, or features only. The
features of the whole sample, whose size is limited, then go to one task, because each group is
compared with all others.
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
from spark_reprocess.analysis.comparison import Sample, SampledGroup
from spark_reprocess.analysis.excerpt import excerpt
from spark_reprocess.analysis.features import COLUMNS, OUR_ATTRIBUTES, features_of
from spark_reprocess.analysis.leads import find_leads
from spark_reprocess.analysis.mask import Masks
from spark_reprocess.analysis.predicates import Predicate, feature_table
from spark_reprocess.analysis.signature import (
    TITLE_CHARACTERS,
    has_error,
    shape_of,
    short_title,
    signature_of,
)

INPUT_COLUMNS = (
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
"""The id of one group that holds all messages of groups that are not listed."""

_EXTRACTED_FIELDS: "list[pa.Field[Any]]" = [
    pa.field("group_id", pa.string()),
    pa.field("chance", pa.float64()),
    pa.field("is_by_shape", pa.bool_()),
    pa.field("features", pa.string()),
    pa.field("shape", pa.string()),
    pa.field("title", pa.string()),
    pa.field("message_id", pa.string()),
    pa.field("sent_at", pa.timestamp("us", tz="UTC")),
    pa.field("body", pa.string()),
    pa.field("attributes", pa.list_(pa.struct([("name", pa.string()), ("text", pa.string())]))),
]
_EXTRACTED = pa.schema(_EXTRACTED_FIELDS)
_EXTRACTED_DDL = (
    "group_id string, chance double, is_by_shape boolean, features string, shape string, "
    "title string, message_id string, sent_at timestamp, body string, "
    "attributes array<struct<name: string, text: string>>"
)
_PREDICATE = pa.struct([(name, pa.string()) for name in Predicate._fields])
_LEAD_FIELDS: "list[pa.Field[Any]]" = [
    pa.field("group_id", pa.string()),
    pa.field("predicate", _PREDICATE),
    pa.field("group_share", pa.float64()),
    pa.field("other_share", pa.float64()),
    pa.field("score", pa.float64()),
    pa.field("others_alike", pa.bool_()),
    pa.field("correlated", pa.list_(_PREDICATE)),
]
_LEADS = pa.schema(_LEAD_FIELDS)
_PREDICATE_DDL = "struct<kind: string, path: string, tag: string>"
_LEADS_DDL = (
    f"group_id string, predicate {_PREDICATE_DDL}, group_share double, other_share double, "
    f"score double, others_alike boolean, correlated array<{_PREDICATE_DDL}>"
)


def with_features(
    picks: DataFrame, messages: DataFrame, masks: Masks, *, has_samples: bool
) -> DataFrame:
    """Extract the features of each sampled message, and the masked excerpt of each shown one.

    Args:
        picks: what ``sampling.picked`` returned.
        messages: the archive's rows.
        masks: what must not be shown.
        has_samples: whether bodies and attributes may be shown.
    """
    rows = messages.select(*INPUT_COLUMNS).join(F.broadcast(picks), "message_id")
    return rows.mapInArrow(_Extractor(masks, has_samples).read, _EXTRACTED_DDL)


@dataclass(frozen=True, slots=True)
class _Extractor:
    """State that is sent to each task; Spark calls ``read``."""

    masks: Masks
    has_samples: bool

    def read(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = [self._row(row) for row in batch.to_pylist()]
            yield pa.RecordBatch.from_pylist(rows, schema=_EXTRACTED)

    def _row(self, row: dict[str, Any]) -> dict[str, Any]:
        body, error = row["body"], (row["error_type"], row["error_message"])
        extracted: dict[str, Any] = {
            "group_id": row["group_id"],
            "chance": row["chance"],
            "is_by_shape": not has_error(*error),
        }
        attributes = row["attributes"] or ()
        if row["is_sampled"]:
            columns = {name: row[name] for name in COLUMNS}
            extracted["features"] = features_of(body, row["body_bytes"], attributes, columns)
            extracted["shape"] = _hash(shape_of(body).key)
        if row["is_shown"]:
            signature = signature_of(body, row["parked_reason"], *error)
            title = signature.text if self.has_samples else signature.textless
            extracted["title"] = self._title(title)
            extracted["message_id"] = row["message_id"]
            extracted["sent_at"] = row["sent_at"]
            extracted["body"] = excerpt(body, self.masks) if self.has_samples else None
            extracted["attributes"] = self._attributes(attributes)
        return extracted

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


def _hash(shape: str) -> str:
    return sha256(shape.encode("utf-8", "replace")).hexdigest()[:16]


def _row_of(predicate: Predicate) -> dict[str, str]:
    return {**predicate._asdict(), "kind": predicate.kind.name}


def leads_among(extracted: DataFrame, counts: dict[str, int], other_rate: float) -> DataFrame:
    """Find the leads of the groups in *counts*, in one task.

    Args:
        extracted: what ``with_features`` returned.
        counts: messages by group.
        other_rate: the sampling rate of all other groups.
    """
    sampled = extracted.where("features IS NOT NULL").select(
        "group_id", "chance", "is_by_shape", "features", "shape"
    )
    return sampled.repartition(1).mapInArrow(_LeadFinder(counts, other_rate).find, _LEADS_DDL)


@dataclass(frozen=True, slots=True)
class _LeadFinder:
    """State that is sent to the task; Spark calls ``find``."""

    counts: dict[str, int]
    other_rate: float

    def find(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        arrived = list(batches)
        if not arrived:
            return
        rows = pa.Table.from_batches(arrived).sort_by(
            [("group_id", "ascending"), ("chance", "ascending")]
        )
        shapes = np.unique(rows.column("shape").to_numpy(), return_inverse=True)[1]
        lines = cast("pa.StringArray", rows.column("features").combine_chunks())
        sample = Sample(feature_table(lines), self._groups(rows), shapes.astype(np.int64))
        found = find_leads(sample, self.counts)
        leads = [
            {
                "group_id": group_id,
                **asdict(lead),
                "predicate": _row_of(lead.predicate),
                "correlated": [_row_of(one) for one in lead.correlated],
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
