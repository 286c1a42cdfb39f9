"""Amounts that fall due later, spread over steps of time. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Run:
    """The same share in each step from ``first`` to before ``end``, counted from a start."""

    first: int
    end: int
    share: float


def runs_of(shares: Mapping[int, float], step_seconds: int) -> Sequence[Run]:
    """Spell shares by seconds as runs of steps; a second counts to the step it is nearest to.

    A uniform draw becomes a handful of runs, however long it is.
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
    """What falls due in each step. Adding costs as many operations as the amount has runs."""

    def __init__(self) -> None:
        self._changes: defaultdict[int, float] = defaultdict(float)
        self._level = 0.0

    def add(self, start: int, amount: float, runs: Sequence[Run]) -> None:
        """Let *amount* fall due in *runs* from step *start* on, which is still to be taken."""
        for run in runs:
            level = amount * run.share
            self._changes[start + run.first] += level
            self._changes[start + run.end] -= level

    def take(self, step: int) -> float:
        """What falls due in *step*. Ask for every step once, in order."""
        self._level += self._changes.pop(step, 0.0)
        if not self._changes:
            # Nothing is left but what rounding did.
            self._level = 0.0
        return max(0.0, self._level)

    def is_pending(self) -> bool:
        """Whether anything will fall due in a step that was not taken yet."""
        return bool(self._changes)
