"""Writes the messages of a large incident as an archive, with a seed: the same in every run.

There are eight kinds of events of about 1 KB, with unique ids, common values and text. 70% have a
recorded error, of thousands of kinds, a few of them frequent. The rest differ by their payload,
which has optional fields. Each of the most frequent errors has a cause: a value that most of its
messages have and few others.
"""

import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.invocation import ACCOUNT
from benchmarks.rig import REGION
from spark_reprocess.archive.dead_letter_schema import ARROW_SCHEMA
from spark_reprocess.archive.files import open_archive
from spark_reprocess.archive.message_store import drain_folder

CAUSES = 100
"""The number of the most frequent errors that have a cause."""

FIRST_SECOND = 1_795_132_800
SECONDS = 2 * 86_400
SKEWED = (0.7, 0.1, 0.1, 0.1)
"""Weights for values of which one is common."""

_SEED = 20261121
_NO_ERROR = -1
_HAS_ERROR, _HAS_CAUSE, _HAS_OPTIONAL = 0.7, 0.85, 0.3

_KINDS = (
    *("OrderPlaced", "OrderChanged", "PaymentCaptured", "PaymentFailed"),
    *("ShipmentCreated", "ShipmentLost", "CustomerMoved", "StockCounted"),
)
_WORDS = (
    *("address", "card", "carrier", "customer", "delivery", "discount", "invoice", "item"),
    *("ledger", "order", "parcel", "payment", "price", "quantity", "refill", "refund"),
    *("shelf", "stock", "street", "supplier", "tax", "ticket", "total", "voucher"),
)
_OPTIONAL = ("coupon", "gift", "campaign", "warehouse", "approvedBy", "parentId", "priority")
_TENANTS = [f"tenant-{number:03d}" for number in range(200)]
_SKUS = [f"SKU-{number:05d}" for number in range(5000)]
_COUNTRIES = ("DE", "FR", "PL", "GB")
_CURRENCIES = ("EUR", "USD", "GBP", "PLN")
_SCHEMAS = ("3", "4")
_TYPES = ("ValueError", "KeyError", "TimeoutError", "HTTPError", "LookupError")
_ERRORS = [
    (_TYPES[number % len(_TYPES)], " ".join(words))
    for number, words in enumerate(islice(combinations(_WORDS, 4), 4000))
]
_NOTES = 1000

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Cause:
    """The cause of an error.

    Attributes:
        title: the start of the title of its group.
        field: the name of the field in a lead.
    """

    title: str
    field: str
    value: str


def _cause(number: int) -> Cause:
    kind, text = _ERRORS[number]
    field, value = (
        ("body.tenant", f"tenant-{number:03d}-test"),
        ("body.customer.country", f"X{number}"),
        ("body.items[].sku", f"OLD-{number:05d}"),
        ("attribute.schema", f"beta-{number}"),
    )[number % 4]
    return Cause(f"{kind}: {text} ", field, value)


KNOWN_CAUSES = tuple(_cause(number) for number in range(CAUSES))
"""The causes that an analysis should find; that of the most frequent error first."""


class Draw:
    """Draws the messages of one file, column by column."""

    def __init__(self, first: int, rows: int) -> None:
        self._rows = rows
        self._chance = np.random.default_rng((_SEED, first))
        error = self._ranks(len(_ERRORS), 5)
        self._error = np.where(self._chance.random(rows) < _HAS_ERROR, error, _NO_ERROR)
        has_cause = (self._error < CAUSES) & (self._chance.random(rows) < _HAS_CAUSE)
        self._causes = [
            KNOWN_CAUSES[one] if is_one and one != _NO_ERROR else None
            for one, is_one in zip(self._error.tolist(), has_cause.tolist(), strict=True)
        ]
        self._tenants = self._caused("body.tenant", [_TENANTS[n] for n in self._ranks(200, 1)])

    def numbers(self, below: int) -> Ints:
        """Draw a number for each message, 0 to *below* - 1."""
        return self._chance.integers(below, size=self._rows)

    def uuids(self) -> list[str]:
        """Draw a UUID for each message."""
        digits = (self._chance.bytes(16).hex() for _ in range(self._rows))
        return [f"{d[:8]}-{d[8:12]}-4{d[13:16]}-a{d[17:20]}-{d[20:]}" for d in digits]

    def of(self, values: Sequence[str], weights: Sequence[float] | None = None) -> list[str]:
        """Draw one of *values* for each message."""
        shares = None if weights is None else np.array(weights[: len(values)])
        shares = None if shares is None else shares / shares.sum()
        return [values[n] for n in self._chance.choice(len(values), self._rows, p=shares)]

    def moments(self) -> Ints:
        """Draw times within two days, epoch seconds; more in the first half."""
        return (FIRST_SECOND + self._chance.beta(2, 4, self._rows) * SECONDS).astype(np.int64)

    def errors(self) -> tuple[list[str | None], list[str | None]]:
        """Return type and text of the recorded error for each message; None without one."""
        rows = zip(self._error.tolist(), self.numbers(10**6), self.of(_WORDS), strict=True)
        found = [
            None if n == _NO_ERROR else (_ERRORS[n][0], f"{_ERRORS[n][1]} {number} in '{word}'")
            for n, number, word in rows
        ]
        return [one and one[0] for one in found], [one and one[1] for one in found]

    def attributes(self) -> Any:  # noqa: ANN401 - an array of maps, for which there is no stub
        """Return the attributes of each message in the form of the archive's column."""
        columns = {
            "tenant": self._tenants,
            "trace": [f"{n:012x}" for n in self.numbers(2**48)],
            "schema": self._caused("attribute.schema", self.of(_SCHEMAS, SKEWED)),
            "sqs-dlq-replay-nb": ["6"] * self._rows,
        }
        values = np.array(list(columns.values()), object).T.ravel()
        held = pa.StructArray.from_arrays(
            [
                pa.repeat("String", len(values)),
                pa.array(values, pa.string()),
                pa.nulls(len(values), pa.binary()),
            ],
            names=["data_type", "string_value", "binary_value"],
        )
        offsets = pa.array(range(0, len(values) + 1, len(columns)), pa.int32())
        of_maps: Any = pa.MapArray  # pyarrow's stubs know less than pyarrow
        return of_maps.from_arrays(offsets, pa.array([*columns] * self._rows), held)

    def bodies(self, sent_at: Ints) -> list[str]:
        """Return the bodies: JSON of about 1 KB."""
        return [
            f'{{"type": "{kind}", "id": "{uuid}", "time": {time}, "tenant": "{tenant}", '
            f'"currency": "{currency}", "total": {total}, "customer": {{{customer}}}, '
            f'"items": [{", ".join(items)}], {more}"note": "{note}"}}'
            for kind, uuid, time, tenant, currency, total, customer, items, more, note in zip(
                self.of(_KINDS),
                self.uuids(),
                sent_at.tolist(),
                self._tenants,
                self.of(_CURRENCIES, SKEWED),
                self._prices(),
                self._customers(),
                self._items(),
                self._optional(),
                self.of(_NOTE_TEXTS),
                strict=True,
            )
        ]

    def _customers(self) -> list[str]:
        return [
            f'"id": {number}, "email": "{word}.{number}@example.com", "country": "{country}"'
            for number, word, country in zip(
                self.numbers(10**9).tolist(),
                self.of(_WORDS),
                self._caused("body.customer.country", self.of(_COUNTRIES, SKEWED)),
                strict=True,
            )
        ]

    def _items(self) -> list[list[str]]:
        """Return one to three items for each message."""
        first = self._caused("body.items[].sku", self.of(_SKUS))
        columns = [
            [
                f'{{"sku": "{sku}", "quantity": {quantity}, "price": {price}}}'
                for sku, quantity, price in zip(
                    skus, self.numbers(4).tolist(), self._prices(), strict=True
                )
            ]
            for skus in (first, self.of(_SKUS), self.of(_SKUS))
        ]
        rows = zip(*columns, strict=True)
        return [list(row)[: n + 1] for row, n in zip(rows, self.numbers(3).tolist(), strict=True)]

    def _optional(self) -> list[str]:
        """Return the optional fields: each is in three of ten messages."""
        fields = [f'"{name}": "{_WORDS[place]}", ' for place, name in enumerate(_OPTIONAL)]
        is_there = self._chance.random((self._rows, len(fields))) < _HAS_OPTIONAL
        return [
            "".join(f for f, is_so in zip(fields, row, strict=True) if is_so)
            for row in is_there.tolist()
        ]

    def _prices(self) -> list[float]:
        return [*map(float, self._chance.lognormal(3, 1, self._rows).round(2))]

    def _ranks(self, count: int, flatness: int) -> Ints:
        """Draw a number below *count* for each message, with probability about 1 / number."""
        weights = 1 / (np.arange(count) + flatness)
        return self._chance.choice(count, self._rows, p=weights / weights.sum())

    def _caused(self, field: str, values: list[str]) -> list[str]:
        """Replace values by the cause's value, if the cause of the message is in this field."""
        return [
            cause.value if cause and cause.field == field else value
            for cause, value in zip(self._causes, values, strict=True)
        ]


def _notes() -> list[str]:
    chance = np.random.default_rng(_SEED)
    return [" ".join(chance.choice(_WORDS, 84)) for _ in range(_NOTES)]


_NOTE_TEXTS = _notes()

ROWS_PER_FILE = 2500

_DRAIN_ID = "20261122T000000Z-bench0"


def write_archive(root: Path, messages: int) -> None:
    """Write messages as one drain does."""
    open_archive(str(root), creates=True)
    folder = root / drain_folder(_DRAIN_ID)
    folder.mkdir(parents=True)
    with ProcessPoolExecutor(os.cpu_count()) as executor:
        firsts = range(0, messages, ROWS_PER_FILE)
        list(executor.map(partial(_write_file, folder, messages), firsts))


def beginning_of(archive: Path, part: Path, messages: int) -> None:
    """Make an archive of the first *messages* of another, with hard links to its files.

    Raises:
        ValueError: *messages* is not a multiple of the messages per file.
    """
    if messages % ROWS_PER_FILE:
        raise ValueError(f"{messages} is not a multiple of {ROWS_PER_FILE} messages per file")
    files = sorted((archive / drain_folder(_DRAIN_ID)).iterdir())
    open_archive(str(part), creates=True)
    (part / drain_folder(_DRAIN_ID)).mkdir(parents=True)
    for file in files[: messages // ROWS_PER_FILE]:
        (part / file.relative_to(archive)).hardlink_to(file)


def _write_file(folder: Path, messages: int, first: int) -> None:
    table = file_of(first, min(ROWS_PER_FILE, messages - first))
    name = f"part-{first // ROWS_PER_FILE:05d}-{table.num_rows}-bench.parquet"
    pq.write_table(table, folder / name, compression="zstd")


def file_of(first: int, rows: int) -> pa.Table:
    """Return *rows* messages from number *first* on; the same in every run."""
    draw = Draw(first, rows)
    ids, sent_at = draw.uuids(), draw.moments()
    body = draw.bodies(sent_at)
    error_types, error_messages = draw.errors()
    columns: dict[str, Any] = {
        "message_id": ids,
        "first_id": ids,
        "body": body,
        "attributes": draw.attributes(),
        "source_arn": [f"arn:aws:sqs:{REGION}:{ACCOUNT}:orders-dlq"] * rows,
        "sender_id": ["AROAEXAMPLE:orders"] * rows,
        "sent_at": _times(sent_at),
        "first_received_at": _times(sent_at),
        "receive_count": [1] * rows,
        "replay_count": draw.numbers(7),
        "first_seen_at": _times(sent_at - draw.numbers(7200)),
        "parked_reason": draw.of(("attempts_exhausted", "too_old"), SKEWED),
        "error_type": error_types,
        "error_message": error_messages,
        "body_bytes": [len(text) for text in body],
        "queue_url": [f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/orders-parked"] * rows,
        "drained_at": _times(np.full(rows, FIRST_SECOND + SECONDS)),
    }
    arrays = [
        pa.array(columns.get(field.name, [None] * rows), field.type) for field in ARROW_SCHEMA
    ]
    return pa.table(arrays, schema=ARROW_SCHEMA)


def _times(seconds: Ints) -> "pa.Array[Any]":
    return pa.array(seconds * 1_000_000, pa.timestamp("us", tz="UTC"))
