"""The circuit breaker of a simulated queue: the rules of the product, with expected numbers. Pure.

``dlq_replay.breaker`` decides. It is the breaker of messages without a recorded error, so it asks
the main queue's metric before it opens. Expected numbers are fractions, therefore:

- a counter shows the whole messages that were counted so far;
- a probe is one message, or less where fewer are candidates; it is replayed without a delay;
- a return was sent in the middle of the slot that its copy names;
- how long a message was held is known to a twenty-fourth of the limit; the ends of those holds are
  spread evenly over that time;
- a wait that the rules spend in the DLQ, above 900 s, is not interrupted by a look.

Each worker sees each change at once.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache

from dlq_cli.simulate.timeline import Run, runs_of
from dlq_replay.breaker import (
    ARRIVED,
    RELEASED,
    RETURNED,
    SENT,
    BreakerRules,
    BreakerState,
    Phase,
    Update,
    apply,
    closing,
    complete_windows,
    confirmed_by_metric,
    hold_seconds,
    metric_claim,
    metric_slots,
    opening,
    probe_claim,
    probe_returned,
    probe_sent,
    ramp_step,
    release_claim,
    return_time_counter,
    stale_names,
    tripping_windows,
)

_FIRST_SLOT = 28_333_333
"""The slot in which the outage begins. Any works: the rules use differences only."""

_HELD_PARTS = 24
_UNLIMITED = 10**12


class SimulatedBreaker:
    """One breaker and what it saw.

    Times are in seconds from the beginning of the outage.

    Args:
        rules: of the product.
        arrivals_per_second: what the consumer handled before the outage.
        step_seconds: length of a step.

    Attributes:
        opened_seconds: when it opened.
        closed_seconds: when it closed.
    """

    def __init__(self, rules: BreakerRules, arrivals_per_second: float, step_seconds: int) -> None:
        self._rules, self._step_seconds = rules, step_seconds
        self._state = BreakerState()
        self._fractions: defaultdict[str, float] = defaultdict(float)
        self._handled_before = arrivals_per_second * rules.slot_seconds
        self._handled: defaultdict[int, float] = defaultdict(float)
        self._began_seconds = _FIRST_SLOT * rules.slot_seconds
        self._now = self._began_seconds
        self.opened_seconds: list[int] = []
        self.closed_seconds: list[int] = []

    @property
    def phase(self) -> Phase:
        """Which of the three it is in."""
        return self._state.phase

    @property
    def slot(self) -> int:
        """The slot of this step."""
        return self._rules.slot(self._now)

    def begin_step(self, step: int) -> None:
        """Pass on to the last second of *step*."""
        self._now = self._began_seconds + (step + 1) * self._step_seconds - 1

    def count_arrived(self, size: float) -> None:
        """Count new dead letters."""
        self._count(f"{ARRIVED}{self.slot}", size)

    def count_sent(self, size: float) -> None:
        """Count first replays."""
        self._count(f"{SENT}{self.slot}", size)

    def count_returned(self, size: float, slot: int) -> None:
        """Count first replays of *slot* that came back."""
        if self.slot - self._rules.kept_slots <= slot:
            self._count(f"{RETURNED}{slot}", size)
            sent = slot * self._rules.slot_seconds + self._rules.slot_seconds // 2
            self._count(return_time_counter(self._now - sent, self._rules), size)

    def count_handled(self, size: float) -> None:
        """Count messages that the main queue deleted."""
        self._handled[self.slot] += size

    def note_probe_returned(self, sent_at: int) -> None:
        """Note that the probe of that moment came back."""
        if sent_at in self._state.probes:
            self._apply(probe_returned(self._state, sent_at))

    def held_part(self) -> int:
        """Now, as exactly as it is known since when a message is held."""
        return self._now * _HELD_PARTS // self._rules.hold_limit_seconds

    def may_hold(self, held_part: int | None) -> bool:
        """Whether what is held since then may be held any longer."""
        return self._left_seconds(held_part) > 0

    def hold_runs(self, held_part: int | None, delays: tuple[Run, ...]) -> Sequence[Run]:
        """When messages that are held now are due: the longer of the hold and of *delays*."""
        bounds = [
            hold_seconds(self._state, self._now, self._rules, draw, is_fifo=False)
            for draw in (lambda _: 0, lambda longest: longest)
        ]
        shortest, longest = (max(1, round(one / self._step_seconds)) for one in bounds)
        left = max(1, self._left_seconds(held_part) // self._step_seconds)
        end = max(longest, delays[-1].end)
        part = max(1, self._rules.hold_limit_seconds // _HELD_PARTS // self._step_seconds)
        limits = range(left, left + part) if left < end else None
        return _longer_of(shortest, longest, delays, limits)

    def claim_probe(self) -> int | None:
        """Claim the right to send a probe; returns its moment, None where none is due."""
        claim = probe_claim(self._state, self._now, self._rules)
        if claim is None:
            return None
        self._apply(claim)
        self._apply(probe_sent(self._state, "probe", self._now))
        return self._now

    def claim_release(self, wanted: float) -> float:
        """Claim as many of *wanted* replays as the ramp allows; note if some are turned away."""
        allowed, _ = release_claim(self._state, _UNLIMITED, self._now, self._rules)
        name = f"{RELEASED}{self.slot}"
        count = min(wanted, max(0.0, allowed - self._fractions[name]))
        self._count(name, count)
        if count < wanted:
            self._apply(Update(put={"turned_away_at": self._now}))
        return count

    def change_phase(self) -> None:
        """Open or close the breaker, raise the limit of its ramp or end it, if that is due."""
        now, rules = self._now, self._rules
        stale = stale_names(self._state, now, rules)
        if stale:
            self._apply(Update(remove=stale))
        if close := closing(self._state, now, rules):
            self._apply(close)
            self.closed_seconds.append(now - self._began_seconds)
        if step := ramp_step(self._state, now, rules):
            self._apply(step)
        windows = complete_windows(tripping_windows(self._state, now, rules), now, rules)
        claim = metric_claim(self._state, now, rules)
        if not (windows and claim):
            return
        self._apply(claim)
        slots = [metric_slots(window, rules) for window in windows]
        deleted = self._deleted(min(s.start for s in slots), max(s.stop for s in slots))
        if window := confirmed_by_metric(windows, deleted, rules):
            self._apply(opening(self._state, window, now))
            self.opened_seconds.append(now - self._began_seconds)

    def _deleted(self, first: int, end: int) -> Mapping[int, int]:
        return {
            slot: round(self._handled_before if slot < _FIRST_SLOT else self._handled[slot])
            for slot in range(first, end)
        }

    def _left_seconds(self, held_part: int | None) -> int:
        limit = self._rules.hold_limit_seconds
        if held_part is None:
            return limit
        return limit - (self._now - held_part * limit // _HELD_PARTS)

    def _count(self, name: str, size: float) -> None:
        whole, self._fractions[name] = divmod(self._fractions[name] + size, 1)
        if whole:
            self._apply(Update(add={name: int(whole)}))

    def _apply(self, update: Update) -> None:
        # Nothing else changes the state, so each update finds what it expects.
        self._state = apply(self._state, update) or self._state


@lru_cache(maxsize=1024)
def _longer_of(
    shortest: int, longest: int, delays: tuple[Run, ...], limits: range | None
) -> Sequence[Run]:
    """The longer of a uniform draw and of *delays*, but at most one of *limits*. In steps."""
    count = longest - shortest + 1
    if delays[-1].end <= shortest + 1 and limits is None:
        return (Run(shortest, longest + 1, 1 / count),)
    shares: defaultdict[int, float] = defaultdict(float)
    by_delay = {step: run.share for run in delays for step in range(run.first, run.end)}
    delayed = sum(share for step, share in by_delay.items() if step < shortest)
    before = 0.0
    for step in range(shortest, max(longest + 1, delays[-1].end)):
        delayed += by_delay.get(step, 0.0)
        both = delayed * min(1.0, (step - shortest + 1) / count)
        if limits is not None and step >= limits.start:
            break
        shares[step] += both - before
        before = both
    if limits is not None:
        for step in limits:
            shares[step] += (1 - before) / len(limits)
    return runs_of(shares, 1)
