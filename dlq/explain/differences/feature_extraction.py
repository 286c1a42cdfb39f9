"""Extract the features of sampled messages by an engine, and find the differences among them.

An engine returns features, and texts that are masked and cut. The search runs in this process: each
group is compared with all others of its source queue. The sample takes about 300 MB.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, cast

import numpy as np
import pyarrow as pa

from dlq.archive.messages.message_reading import read_messages_work
from dlq.archive.messages.message_store import combined, is_in
from dlq.archive.storage.files import Archive
from dlq.engine import Engine, Work
from dlq.explain.differences.comparison import SampledGroup, SampledMessages
from dlq.explain.differences.differences import find_differences
from dlq.explain.differences.features import COLUMNS, OUR_ATTRIBUTES, features_of
from dlq.explain.differences.predicates import feature_table
from dlq.explain.findings import Difference
from dlq.explain.grouping import OTHERS, OTHERS_TITLE, Pattern, hidden
from dlq.explain.signature.mask import SAMPLE_CHARACTERS, Masks
from dlq.explain.signature.signature import (
    TITLE_CHARACTERS,
    Reason,
    Reasons,
    Signature,
    has_error,
    reason_of,
    shape_of,
    short_title,
    signature_of,
)
from dlq_replay.text.masks import mask_start

_TIMES = ("sent_at", "first_seen_at")
INPUT_COLUMNS = (
    "message_id",
    "body",
    "body_bytes",
    "attributes",
    *COLUMNS,
    *_TIMES,
    "parked_reason",
    "error_type",
    "error_message",
    "error_code",
    "stated_kind",
    "error_place",
)

_ATTRIBUTE_CHARACTERS = 200
_SAMPLED: dict[str, pa.DataType] = {
    "group_id": pa.string(),
    "chance": pa.float64(),
    "is_by_shape": pa.bool_(),
    "features": pa.string(),
    "failed_at": pa.float64(),
    "shape": pa.string(),
}
_SHOWN: dict[str, pa.DataType] = {
    "title": pa.string(),
    "message_id": pa.string(),
    "sent_at": pa.timestamp("us", tz="UTC"),
    "body": pa.string(),
    "logged": pa.string(),
    "attributes": pa.map_(pa.string(), pa.string()),
}
_EXTRACTED = pa.schema(_SAMPLED | _SHOWN)


def read_features(
    engine: Engine,
    archive: Archive,
    picks: pa.Table,
    reasons: Reasons,
    titles: Mapping[str, Pattern | str],
    masks: Masks,
) -> tuple[pa.Table, list[dict[str, Any]]]:
    """Extract the features of each sampled message, and the masked excerpt of each shown one.

    Args:
        engine: reads the bodies.
        archive: where the messages are.
        picks: what ``groups.picked`` returned.
        reasons: as for ``signature.reason_of``.
        titles: those of ``grouping.Grouping``.
        masks: what is hidden in excerpts.

    Returns:
        A table for ``differences_among``, and the rows of the messages to show for
        ``group_findings``.
    """
    logged = {}
    for message_id in map(str, picks["message_id"].to_pylist()):
        if message_id in reasons:
            logged[message_id] = reasons[message_id]
    extractor = _Extractor(picks, logged, titles, masks)
    then = Work((), extractor.extract, _EXTRACTED)

    rows = engine.run(read_messages_work(archive, picks, INPUT_COLUMNS, engine.slots, then))
    sampled = rows.filter(rows["features"].is_valid()).select([*_SAMPLED])
    shown = rows.filter(rows["title"].is_valid()).select(["group_id", *_SHOWN])
    return sampled, shown.to_pylist()


@dataclass(frozen=True, slots=True)
class _Extractor:
    """State that is sent to each task; an engine calls ``extract``."""

    picks: pa.Table
    reasons: Reasons
    titles: Mapping[str, Pattern | str]
    masks: Masks

    def extract(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        picks = {pick["message_id"]: pick for pick in self.picks.to_pylist()}
        for batch in batches:
            columns: dict[str, Any] = {}
            for name in INPUT_COLUMNS:
                # Python makes numbers far more quickly than times.
                columns[name] = batch[name].cast(pa.int64()) if name in _TIMES else batch[name]

            rows = []
            for message in pa.table(columns).to_pylist():
                pick = picks[message["message_id"]]
                rows.append(self._row(message | pick))
            yield pa.RecordBatch.from_pylist(rows, schema=_EXTRACTED)

    def _row(self, message: dict[str, Any]) -> dict[str, Any]:
        reason = reason_of(
            self.reasons,
            message["message_id"],
            message["error_type"],
            message["error_message"],
            message["error_place"],
        )
        row: dict[str, Any] = {
            "group_id": message["group_id"],
            "chance": message["chance"],
            "is_by_shape": not has_error(reason.type, reason.message),
        }
        if message["is_sampled"]:
            row |= _sampled_values(message)
        if message["is_shown"]:
            row |= self._shown_values(message, reason)
        return row

    def _shown_values(self, message: dict[str, Any], reason: Reason) -> dict[str, Any]:
        """Return the columns ``_SHOWN``."""
        body = message["body"]
        signature = signature_of(
            body,
            parked_reason=message["parked_reason"],
            error_type=reason.type,
            error_message=reason.message,
            error_code=message["error_code"],
            stated_kind=message["stated_kind"],
            error_place=reason.place,
        )
        title = self._title(message["group_id"], signature)
        masked, is_cut = mask_start(title, TITLE_CHARACTERS, self.masks.text)

        shown_body = None
        attributes = {}
        if self.masks.shows_values:
            shown_body = self.masks.value("body", body, SAMPLE_CHARACTERS)
            for name, value in sorted(message["attributes"] or ()):
                if name not in OUR_ATTRIBUTES:
                    attributes[name] = self._attribute_text(name, value)
        return {
            "title": short_title(f"{masked}…" if is_cut else masked),
            "message_id": message["message_id"],
            "sent_at": message["sent_at"],
            "body": shown_body,
            "logged": reason.logged,
            "attributes": attributes,
        }

    def _title(self, group_id: str, signature: Signature) -> str:
        if group_id == OTHERS:
            return OTHERS_TITLE
        title = self.titles.get(group_id)
        if title:
            return title if isinstance(title, str) else hidden(signature.text, title)
        return signature.text if self.masks.shows_values else signature.textless

    def _attribute_text(self, name: str, value: dict[str, Any]) -> str:
        text = value["string_value"]
        content = (value["binary_value"] or b"") if text is None else text
        return self.masks.value(f"attribute.{name}", content, _ATTRIBUTE_CHARACTERS)


def _sampled_values(message: dict[str, Any]) -> dict[str, Any]:
    """Return the columns of ``_SAMPLED`` that need the body, or the times."""
    body = message["body"]
    columns = {name: message[name] for name in COLUMNS}
    times = [message[name] for name in _TIMES if message[name] is not None]
    shape = shape_of(body).key.encode("utf-8", "replace")
    return {
        "features": features_of(body, message["body_bytes"], message["attributes"] or (), columns),
        "failed_at": min(times) / 1e6 if times else None,
        "shape": sha256(shape).hexdigest()[:16],
    }


def differences_within_queues(
    sampled: pa.Table, counts: Mapping[str, int], queues: Mapping[str, str], masks: Masks
) -> dict[str, tuple[Difference, ...]]:
    """Return the differences of the groups in *counts*, as ``differences_among``.

    Where there are several source queues, a group is compared with groups of its own queue.
    *queues* has the queue of each group, empty where it is not known.
    """
    counts_by_queue = defaultdict[str, dict[str, int]](dict)
    for group_id, count in counts.items():
        counts_by_queue[queues[group_id]][group_id] = count
    if len(counts_by_queue.keys() - {""}) <= 1:
        return differences_among(sampled, counts, masks)

    differences = dict[str, tuple[Difference, ...]]()
    for own_counts in counts_by_queue.values():
        own_messages = sampled.filter(is_in(sampled["group_id"], list(own_counts)))
        other_groups = len(counts) - len(own_counts)
        differences |= differences_among(own_messages, own_counts, masks, other_groups)

    def of_its_queue(difference: Difference) -> Difference:
        return replace(difference, compared_with=f"{difference.compared_with} of its queue")

    return {group_id: tuple(map(of_its_queue, differences[group_id])) for group_id in differences}


def differences_among(
    sampled: pa.Table, counts: Mapping[str, int], masks: Masks, other_groups: int = 0
) -> dict[str, tuple[Difference, ...]]:
    """Return the differences of the groups in *counts* (messages by group), by id.

    *sampled* is what ``read_features`` returned; *other_groups* as for ``find_differences``.
    """
    if not sampled.num_rows:
        return {}
    rows = sampled.sort_by([("group_id", "ascending"), ("chance", "ascending")])
    _, shapes = np.unique(rows["shape"].to_numpy(), return_inverse=True)
    ids = rows["group_id"].to_numpy()
    is_by_shape = rows["is_by_shape"].to_numpy()
    starts = np.flatnonzero(ids[1:] != ids[:-1]) + 1

    groups = []
    for messages in np.split(np.arange(len(ids)), starts):
        first = messages[0]
        group = SampledGroup(
            group_id=ids[first],
            messages=messages,
            population=counts[ids[first]],
            is_by_shape=bool(is_by_shape[first]),
        )
        groups.append(group)

    lines = cast("pa.StringArray", combined(rows["features"]))
    times = rows["failed_at"].to_numpy().astype(np.float64)
    sample = SampledMessages(feature_table(lines), groups, shapes.astype(np.int64), times)
    return find_differences(sample, list(counts), masks, other_groups)
