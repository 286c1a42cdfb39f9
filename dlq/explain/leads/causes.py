"""Find the groups that each field is a cause of: no other group is told its complement. Pure.

Where one group fails because a field is missing, the field is present in all messages of each other
group, and in fewer "elsewhere": a difference, but none that says anything about that other group.
So a condition about a field is compared without the groups of which this field is the cause.

Of a condition and its complement one has to be chosen. A field is a cause of the group that is the
most unlike the median of the other groups in it; of two that are equally unlike, of the one whose
condition is rarer among all messages, else of the one that lacks the field. Then the others are
looked at again without that group: a field may be a cause of several groups.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dlq.explain.findings import LEAST_GROUP
from dlq.explain.leads.comparison import SampledGroup
from dlq.explain.leads.contrast import balanced, evidence
from dlq.explain.leads.features import MISSING, NULL, PRESENT, TYPES
from dlq.explain.leads.predicates import FeatureTable, Flags, Floats, Ints

_MOST_GROUPS = 100
"""The largest are looked at. Smaller ones change hardly what is usual elsewhere."""

_LEAST_MESSAGES = 5
"""Groups with fewer messages to which a condition applies do not count for what is usual."""

_LEAST_DIFFERENCE = 0.2
"""A group is unlike the others if it has a condition so much more often, as a share."""

_MISSING, _NULL = 3, 2

_DECIMALS = 2
"""Groups whose strengths differ by less are equally unlike the others."""


@dataclass(frozen=True)
class Causes:
    """Of which groups each field is a cause. Arrays by row and by field.

    Attributes:
        row_of: of each group of the sample its row. Groups that were not looked at share the last
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
        """Return, by row and predicate, whom a comparison of *group* leaves out.

        Where the groups that a field is a cause of are no exception among the other groups, each
        has a kind of its own, and nobody is left out. Of two groups nothing but the lack of a field
        tells which of two complements is the cause: only what is plain is then left out, in full.
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
        return np.asarray(np.delete(self.is_missing, self.row_of[group], axis=0).any(axis=0), bool)

    def lacking(self, group: int) -> Flags:
        """Return, by group of the sample, whether it is another that fails for lack of a field."""
        rows = np.asarray(self.is_missing.any(axis=1), bool)
        rows[self.row_of[group]] = False
        return np.asarray(rows[self.row_of], bool)


def find_causes(table: FeatureTable, groups: Sequence[SampledGroup], needed: float) -> Causes:
    """Return of which of *groups* each field of the sample is a cause.

    Args:
        table: features of the sample's messages.
        groups: all groups of the sample; small ones have no causes.
        needed: nats of evidence from which on one condition is significant.
    """
    places = [n for n, group in enumerate(groups) if len(group.messages) >= LEAST_GROUP]
    places.sort(key=lambda place: -len(groups[place].messages))
    places = places[:_MOST_GROUPS]

    row_of = np.full(len(groups), len(places))
    row_of[places] = np.arange(len(places))
    is_cause = np.zeros((len(places) + 1, len(table.paths)), bool)
    is_absence = is_cause.copy()
    is_missing = is_cause.copy()
    ranks = np.array([_absence(table, number) for number in range(len(table.field_of))])

    if len(places) > 1:
        shares, applies = _shares(table, [groups[place] for place in places])
        populations = np.array([groups[place].population for place in places], float)
        for field, predicates in _candidates(table, shares):
            columns = shares[:, predicates], applies[:, predicates]
            for row, rank in _owners(*columns, populations, ranks[predicates].tolist(), needed):
                is_cause[row, field] = True
                is_absence[row, field] = rank >= _NULL
                is_missing[row, field] = rank == _MISSING
    return Causes(row_of, is_cause, is_absence, is_missing, table.field_of, ranks == 0)


def _shares(table: FeatureTable, groups: Sequence[SampledGroup]) -> tuple[Floats, Floats]:
    """Return shares, NaN where too few messages count, and to how many each predicate applies."""
    counts = [table.counts(group.messages, np.ones(len(group.messages))) for group in groups]
    applies = np.array([count.applies for count in counts])
    shares = np.array([count.shares for count in counts])
    shares[applies < _LEAST_MESSAGES] = np.nan
    return shares, applies


def _candidates(table: FeatureTable, shares: Floats) -> Iterator[tuple[int, Ints]]:
    """Yield each field in which groups differ, with its predicates."""
    known = np.where(np.isnan(shares), 0.0, shares)
    lowest = np.where(np.isnan(shares), 1.0, shares).min(axis=0)
    differs = table.is_predicate & (known.max(axis=0) - lowest >= _LEAST_DIFFERENCE)
    fields = table.field_of[np.flatnonzero(differs)]
    by_field = np.argsort(table.field_of, kind="stable")
    starts = np.searchsorted(table.field_of[by_field], np.arange(len(table.paths) + 1))
    for field in np.unique(fields).tolist():
        of_field = by_field[starts[field] : starts[field + 1]]
        yield field, of_field[differs[of_field]]


def _absence(table: FeatureTable, number: int) -> int:
    """Return 3 for a condition that a field is missing, 2 for null, 0 for their plain opposites."""
    tag = table.predicate(number).tag
    if tag == MISSING:
        return _MISSING
    if tag == NULL:
        return _NULL
    return 0 if tag == PRESENT or tag in TYPES else 1


def _owners(
    shares: Floats, applies: Floats, populations: Floats, ranks: Sequence[int], needed: float
) -> list[tuple[int, int]]:
    """Return the groups, as rows, of which one field is a cause, each with its condition's rank.

    Columns are the conditions of the field.
    """
    owners: dict[int, int] = {}
    while True:
        left = np.array([row for row in range(len(shares)) if row not in owners])
        strength = _strength(shares[left], applies[left], needed)
        holding = np.nan_to_num(shares[left]).T @ populations[left]
        rarity = -np.round(holding / populations[left].sum(), _DECIMALS)

        unlike: list[tuple[tuple[float, float, int], int]] = []
        for place, column in np.argwhere(strength > 0).tolist():
            key = float(strength[place, column]), float(rarity[column]), ranks[column]
            unlike.append((key, int(left[place])))
        if not unlike:
            return list(owners.items())
        (_, _, rank), row = max(unlike)
        owners[row] = rank


def _strength(shares: Floats, applies: Floats, needed: float) -> Floats:
    """Return how unlike all others each group is in each condition; 0 where not significant."""
    is_known = ~np.isnan(shares)
    is_compared = is_known & (is_known.sum(axis=0) > 1)
    usual = _median_of_others(shares)
    known_applies = np.where(is_known, applies, 0.0)
    others = known_applies.sum(axis=0) - known_applies

    is_unlike = is_compared & (shares - usual >= _LEAST_DIFFERENCE)
    strength = np.zeros(shares.shape)
    own, other = shares[is_unlike], usual[is_unlike]
    is_significant = evidence(own, applies[is_unlike], other, others[is_unlike]) >= needed
    unlike = np.round(balanced(own, other), _DECIMALS)
    strength[is_unlike] = np.where(is_significant, unlike, 0.0)
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
    # From its own rank on, the values of the others stand one place further back.
    last = len(values) - 1
    middle = (
        np.take_along_axis(in_order, np.minimum(lower + (lower >= rank), last), axis=0),
        np.take_along_axis(in_order, np.minimum(upper + (upper >= rank), last), axis=0),
    )
    return np.asarray((middle[0] + middle[1]) / 2)
