"""Find the groups that each field is a cause of. Pure.

Where one group fails because a field is missing, the field is present in all messages of each other
group, and in fewer "elsewhere": a difference, but none that says anything about that other group.
So a condition about a field is compared without the groups of which this field is the cause: no
other group gets the complement as a difference.

Of a condition and its complement one has to be chosen. A field is a cause of the group that is the
most unlike the median of the other groups in it; of two that are equally unlike, of the one whose
condition is rarer among all messages, else of the one that lacks the field. Then the search repeats
among the others without that group: a field may be a cause of several groups.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dlq.explain.differences.comparison import SampledGroup
from dlq.explain.differences.contrast import balanced, evidence
from dlq.explain.differences.features import MISSING, NULL, PRESENT, TYPES
from dlq.explain.differences.predicates import FeatureTable, Flags, Floats, Ints
from dlq.explain.findings import LEAST_GROUP

_MOST_GROUPS = 100
"""Only the largest groups are compared. Smaller ones hardly change what is usual elsewhere."""

_LEAST_MESSAGES = 5
"""Groups with fewer messages to which a condition applies do not count for what is usual."""

_LEAST_DIFFERENCE = 0.2
"""A group is unlike the others if its share of messages with a condition is larger by this much."""

_MISSING = 3
_NULL = 2
_OTHER = 1
_PLAIN = 0
"""Ranks of a condition. A plain one says no more than that a field is not missing or null."""

_DECIMALS = 2
"""Groups whose strengths differ by less are equally unlike the others."""


@dataclass(frozen=True)
class Causes:
    """The groups of which each field is a cause. Arrays by row and by field.

    Attributes:
        row_of: of each group of the sample its row. Groups that were not compared share the last
            row, in which nothing is a cause.
        is_cause: whether the field is a cause of the group.
        is_absence: the same where the group fails because the field is missing or null.
        is_missing: the same where it is missing.
        field_of: of each predicate its field.
        is_plain: of each predicate, whether it says no more than that a field is not missing or
            null: "is present", "is text", …
    """

    row_of: Ints
    is_cause: Flags
    is_absence: Flags
    is_missing: Flags
    field_of: Ints
    is_plain: Flags

    def left_out(self, group: int) -> Flags:
        """Return, by row and predicate, the groups that a comparison of *group* leaves out.

        Where the groups that a field is a cause of are no exception among the other groups, each
        has a kind of its own, and no group is left out. Of two groups nothing but the lack of a
        field tells which of two complements is the cause: only what is plain is then left out, in
        full.
        """
        left_out = np.zeros((len(self.is_cause), len(self.field_of)), bool)
        # Most fields are a cause of nothing.
        is_some_cause = np.asarray(self.is_cause.any(axis=0), bool)
        columns = np.flatnonzero(is_some_cause[self.field_of])
        fields = self.field_of[columns]
        row = self.row_of[group]
        owners = self.is_cause[:, fields].copy()
        owners[row] = False

        owning = owners.sum(axis=0)
        others = len(owners) - 1 - (row < len(owners) - 1)
        is_exception = owning <= others - owning
        lacking = self.is_absence[:, fields] & owners
        left_out[:, columns] = np.where(is_exception, owners, lacking & self.is_plain[columns])
        return left_out

    def lacked_by_others(self, group: int) -> Flags:
        """Return, by field, whether another group fails because the field is missing."""
        others = np.delete(self.is_missing, self.row_of[group], axis=0)
        return np.asarray(others.any(axis=0), bool)

    def lacking(self, group: int) -> Flags:
        """Return for each group whether it is another one that fails because it lacks a field."""
        rows = np.asarray(self.is_missing.any(axis=1), bool)
        rows[self.row_of[group]] = False
        return np.asarray(rows[self.row_of], bool)


def find_causes(table: FeatureTable, groups: Sequence[SampledGroup], needed: float) -> Causes:
    """Return the groups of which each field of the sample is a cause.

    Args:
        table: features of the sample's messages.
        groups: all groups of the sample; small ones have no causes.
        needed: nats of evidence from which on one condition is significant.
    """
    numbers = [n for n, group in enumerate(groups) if len(group.messages) >= LEAST_GROUP]
    numbers.sort(key=lambda number: -len(groups[number].messages))
    numbers = numbers[:_MOST_GROUPS]
    compared = [groups[number] for number in numbers]

    row_of = np.full(len(groups), len(compared))
    row_of[numbers] = np.arange(len(compared))
    is_cause = np.zeros((len(compared) + 1, len(table.paths)), bool)
    is_absence = is_cause.copy()
    is_missing = is_cause.copy()
    ranks = np.array([_rank(table, predicate) for predicate in range(len(table.field_of))])

    if len(compared) > 1:
        shares, applies = _shares(table, compared)
        populations = np.array([group.population for group in compared], float)
        for field, predicates in _candidates(table, shares):
            owners = _owners(
                shares[:, predicates],
                applies[:, predicates],
                populations,
                ranks[predicates].tolist(),
                needed,
            )
            for row, rank in owners:
                is_cause[row, field] = True
                is_absence[row, field] = rank >= _NULL
                is_missing[row, field] = rank == _MISSING
    return Causes(
        row_of=row_of,
        is_cause=is_cause,
        is_absence=is_absence,
        is_missing=is_missing,
        field_of=table.field_of,
        is_plain=ranks == _PLAIN,
    )


def _shares(table: FeatureTable, groups: Sequence[SampledGroup]) -> tuple[Floats, Floats]:
    """Return shares, NaN where too few messages count, and to how many each predicate applies."""
    rows_of_shares = []
    rows_of_applies = []
    for group in groups:
        counts = table.counts(group.messages, np.ones(len(group.messages)))
        rows_of_shares.append(counts.shares)
        rows_of_applies.append(counts.applies)

    shares = np.array(rows_of_shares)
    applies = np.array(rows_of_applies)
    shares[applies < _LEAST_MESSAGES] = np.nan
    return shares, applies


def _candidates(table: FeatureTable, shares: Floats) -> Iterator[tuple[int, Ints]]:
    """Yield each field in which groups differ, with its predicates."""
    highest = np.where(np.isnan(shares), 0.0, shares).max(axis=0)
    lowest = np.where(np.isnan(shares), 1.0, shares).min(axis=0)
    differs = table.is_predicate & (highest - lowest >= _LEAST_DIFFERENCE)
    fields = table.field_of[np.flatnonzero(differs)]

    by_field = np.argsort(table.field_of, kind="stable")
    starts = np.searchsorted(table.field_of[by_field], np.arange(len(table.paths) + 1))
    for field in np.unique(fields).tolist():
        of_field = by_field[starts[field] : starts[field + 1]]
        yield field, of_field[differs[of_field]]


def _rank(table: FeatureTable, number: int) -> int:
    """Return the rank of a predicate as a condition."""
    tag = table.predicate(number).tag
    if tag == MISSING:
        return _MISSING
    if tag == NULL:
        return _NULL
    if tag == PRESENT or tag in TYPES:
        return _PLAIN
    return _OTHER


def _owners(
    shares: Floats, applies: Floats, populations: Floats, ranks: Sequence[int], needed: float
) -> list[tuple[int, int]]:
    """Return the groups, as rows, of which one field is a cause, each with its condition's rank.

    Columns are the conditions of the field.
    """
    owners: dict[int, int] = {}
    while True:
        rows = np.delete(np.arange(len(shares)), list(owners))
        strength = _strength(shares[rows], applies[rows], needed)
        holding = np.nan_to_num(shares[rows]).T @ populations[rows]
        rarity = -np.round(holding / populations[rows].sum(), _DECIMALS)

        candidates: list[tuple[tuple[float, float, int], int]] = []
        for position, column in np.argwhere(strength > 0).tolist():
            key = float(strength[position, column]), float(rarity[column]), ranks[column]
            candidates.append((key, int(rows[position])))
        if not candidates:
            return list(owners.items())
        (_, _, rank), row = max(candidates)
        owners[row] = rank


def _strength(shares: Floats, applies: Floats, needed: float) -> Floats:
    """Return how unlike all others each group is in each condition; 0 where not significant."""
    is_known = ~np.isnan(shares)
    is_compared = is_known & (is_known.sum(axis=0) > 1)
    usual = _median_of_others(shares)
    known_applies = np.where(is_known, applies, 0.0)
    others = known_applies.sum(axis=0) - known_applies

    is_unlike = is_compared & (shares - usual >= _LEAST_DIFFERENCE)
    own_shares = shares[is_unlike]
    other_shares = usual[is_unlike]
    nats = evidence(own_shares, applies[is_unlike], other_shares, others[is_unlike])
    difference = np.round(balanced(own_shares, other_shares), _DECIMALS)

    strength = np.zeros(shares.shape)
    strength[is_unlike] = np.where(nats >= needed, difference, 0.0)
    return strength


def _median_of_others(values: Floats) -> Floats:
    """Return for each cell the median of the known values of the other rows of its column.

    NaN is unknown. What is returned for an unknown cell, or for the only known one, means nothing.
    """
    order = np.argsort(values, axis=0, kind="stable")
    in_order = np.take_along_axis(values, order, axis=0)
    rank = np.argsort(order, axis=0, kind="stable")

    others = np.maximum((~np.isnan(values)).sum(axis=0) - 1, 1)
    upper = np.broadcast_to(others // 2, values.shape)
    lower = np.broadcast_to((others - 1) // 2, values.shape)
    # From its own rank on, the values of the others are one place further back.
    last = len(values) - 1
    lower = np.minimum(lower + (lower >= rank), last)
    upper = np.minimum(upper + (upper >= rank), last)
    lower_values = np.take_along_axis(in_order, lower, axis=0)
    upper_values = np.take_along_axis(in_order, upper, axis=0)
    return np.asarray((lower_values + upper_values) / 2)
