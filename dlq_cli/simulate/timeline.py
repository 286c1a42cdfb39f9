"""Amounts that are due in later steps. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Run:
    """The same share in each step from ``first`` (included) to ``end`` (excluded)."""

    first: int
    end: int
    share: float


def runs_of(shares: Mapping[int, float], step_seconds: int) -> Sequence[Run]:
    """Convert shares by seconds to runs of steps. A second counts for the nearest step.

    A uniform distribution of any length becomes a few runs.
    """
    by_step: defaultdict[int, float] = defaultdict(float)
    for seconds, share in shares.items():
        by_step[(seconds + step_seconds // 2) // step_seconds] += share
    runs: list[Run] = []
    for step, share in sorted(by_step.items()):
        last = runs[-1] if runs else None
        if last and last.end == step and abs(last.share - share) < 1e-12:  # noqa: PLR2004 - rounding
            runs[-1] = Run(last.first, step + 1, last.share)
        else:
            runs.append(Run(step, step + 1, share))
    return runs


class Timeline:
    """The amount that is due in each step. The time to add an amount depends only on its runs."""

    def __init__(self) -> None:
        self._changes: defaultdict[int, float] = defaultdict(float)
        self._level = 0.0

    def add(self, start: int, amount: float, runs: Sequence[Run]) -> None:
        """Add *amount*, due in *runs* counted from step *start*, which must not be taken yet."""
        for run in runs:
            level = amount * run.share
            self._changes[start + run.first] += level
            self._changes[start + run.end] -= level

    def take(self, step: int) -> float:
        """Return the amount due in *step*. Call this once for every step, in order."""
        self._level += self._changes.pop(step, 0.0)
        if not self._changes:
            # Only a rounding error is left.
            self._level = 0.0
        return max(0.0, self._level)

    def is_pending(self) -> bool:
        """Return whether any amount is due in a later step."""
        return bool(self._changes)
