"""The circuit breaker: how many replays a minute a main queue gets. Pure.

Each main queue has a *limit*: none in normal times, 1 while its consumer does not work, and *full*
while what was held goes back. Whether the consumer works, the queue's own metric says: how many
messages it deleted. ``docs/decisions/0004-circuit-breaker.md`` says why.

All workers share one item of the failure table. They count into it, and change it only where it is
still as they saw it. So ``BreakerState`` is a value, ``Update`` is the change that a worker wants,
and ``apply`` says what becomes of it.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

ARRIVED, RETURNED, TURNED_AWAY, GRANTED = "n", "b", "x", "g"
"""What counters are named by: the kind and the epoch minute, as in ``n29650123``."""

_LIMIT = frozenset({"limit", "since", "full", "usual", "silent_since", "read"})


@dataclass(frozen=True, slots=True)
class BreakerRules:
    """Every threshold and duration of the breaker, in minutes unless the name says otherwise.

    Attributes:
        minute_seconds: what is counted together; shorter in a demonstration.
        kept: older counts are forgotten.
        lag: the newest minutes for which the metric is not complete.
        judged_deletes: the consumer is judged by the newest minutes in which so many deletes are
            usual, and by ``longest_judged`` at most.
        longest_judged: see above; also the time before it whose mean is *usual*.
        least_returns: messages that came back in or since those minutes, at least.
        working_share: the consumer works if it deletes this share of what is usual.
        healthy_share: full grows only while the consumer deletes this share of what is usual.
        recovered: the consumer works again if it did so over the last so many.
        peak: the normal load is the highest mean of so many.
        full_factor: full is so many times the normal load, and the replays that were normal.
        full_least: replays a minute that full allows at least.
        quiet: full ends when nobody was turned away for so long.
        abandoned: a limit of 1 ends when nobody was turned away for so long.
        unread: a limit ends when the metric could not be read for so long.
        hold_seconds: shortest and longest hold under a limit of 1 that is as old as the longest.
        first_hold_seconds: the longest hold when it was set.
        full_hold_seconds: the longest hold under full.
        fifo_hold_seconds: the shortest hold on FIFO, where each look counts as a receive.
        hold_limit_seconds: how long limits apply to one message, plus a part of
            ``hold_limit_spread_seconds`` by its id.
        hold_limit_spread_seconds: see above.
    """

    minute_seconds: int = 60
    kept: int = 64
    lag: int = 3
    judged_deletes: int = 30
    longest_judged: int = 60
    least_returns: int = 5
    working_share: float = 1 / 3
    healthy_share: float = 3 / 4
    recovered: int = 5
    peak: int = 10
    full_factor: int = 3
    full_least: int = 20
    quiet: int = 3
    abandoned: int = 60
    unread: int = 10
    hold_seconds: tuple[int, int] = (450, 900)
    first_hold_seconds: int = 60
    full_hold_seconds: int = 300
    fifo_hold_seconds: int = 300
    hold_limit_seconds: int = 11 * 3600
    hold_limit_spread_seconds: int = 3600

    def minute(self, seconds: int) -> int:
        """The minute that holds the moment *seconds*, epoch seconds."""
        return seconds // self.minute_seconds

    def metric_range(self, now_seconds: int) -> tuple[int, int]:
        """From when until when the metric is needed at *now_seconds*, epoch seconds."""
        end = self.minute(now_seconds) - self.lag
        return (end - 2 * self.longest_judged) * self.minute_seconds, end * self.minute_seconds


@dataclass(frozen=True, slots=True)
class BreakerState:
    """The breaker of one main queue, as one read of its item showed it.

    Attributes:
        numbers: by the names that they have in the item: counters; and while there is a limit
            ``limit`` (replays a minute), ``since`` (epoch seconds), ``full``, ``usual`` (deletes
            an hour before), ``silent_since`` (epoch seconds, where the consumer deletes nothing)
            and ``read`` (minute in which the metric was last read). ``judged`` is the minute of
            the last judgment.
    """

    numbers: Mapping[str, int] = field(default_factory=dict)

    def count(self, kind: str, minutes: Iterable[int]) -> int:
        """What was counted of *kind* in *minutes* together."""
        return sum(self.numbers.get(f"{kind}{minute}", 0) for minute in minutes)

    def limit_at(self, now_seconds: int, rules: BreakerRules) -> int | None:
        """How many replays a minute are allowed at *now_seconds*; None: all.

        A limit that turned nobody away for long enough is over, whether or not anybody noted it.
        """
        limit, since = self.numbers.get("limit", 0), self.numbers.get("since")
        this = rules.minute(now_seconds)
        if limit < 1 or since is None or rules.minute(since) > this + 1:
            return None
        lasts = rules.abandoned if limit == 1 else rules.quiet
        since_minute = rules.minute(since)
        is_needed = this - since_minute < lasts or any(
            self.numbers.get(f"{TURNED_AWAY}{minute}") for minute in range(this - lasts, this + 1)
        )
        return limit if is_needed else None


@dataclass(frozen=True, slots=True)
class BreakerView:
    """What a worker knows of one main queue's breaker while it decides on one batch.

    Attributes:
        rules: the thresholds and durations.
        now_seconds: the moment for which it decides, epoch seconds.
        limit: replays a minute; None: all.
        since_seconds: since when it is so, epoch seconds.
        is_silent: whether the consumer deletes nothing at all.
        grants: how many replays of the batch the limit allows.
    """

    rules: BreakerRules
    now_seconds: int
    limit: int | None = None
    since_seconds: int = 0
    is_silent: bool = False
    grants: int = 0

    @classmethod
    def of(cls, state: BreakerState, now_seconds: int, rules: BreakerRules) -> Self:
        """Read it from *state*, without grants."""
        numbers = state.numbers
        limit = state.limit_at(now_seconds, rules)
        is_silent = "silent_since" in numbers
        return cls(rules, now_seconds, limit, numbers.get("since", now_seconds), is_silent)

    def applies_to(self, replay_count: int, held_seconds: int | None) -> bool:
        """Whether the limit holds for a message with this counter and mark.

        A first replay is what shows that the consumer works again. So that of a message that no
        limit has touched goes, unless the consumer does nothing at all.
        """
        is_first = replay_count == 0 and held_seconds is None
        return self.limit is not None and (self.is_silent or not is_first)


@dataclass(frozen=True, slots=True)
class Update:
    """A change of a breaker's item, made as a whole or not at all.

    Attributes:
        add: added to numbers; an absent one counts as 0.
        put: set, over what was there.
        remove: taken away.
        expect: numbers that must still be what they were seen as, None for absent.
        at_most: numbers that must not be above these before the change; an absent one is not.
    """

    add: Mapping[str, int] = field(default_factory=dict)
    put: Mapping[str, int] = field(default_factory=dict)
    remove: frozenset[str] = frozenset()
    expect: Mapping[str, int | None] = field(default_factory=dict)
    at_most: Mapping[str, int] = field(default_factory=dict)


def apply(state: BreakerState, update: Update) -> BreakerState | None:
    """What *update* makes of *state*; None where it is not as expected."""
    seen = state.numbers
    if any(seen.get(name) != value for name, value in update.expect.items()):
        return None
    if any(seen.get(name, 0) > most for name, most in update.at_most.items()):
        return None
    numbers = {name: n for name, n in seen.items() if name not in update.remove}
    for name, more in update.add.items():
        numbers[name] = numbers.get(name, 0) + more
    return BreakerState({**numbers, **update.put})


def stale_names(state: BreakerState, now_seconds: int, rules: BreakerRules) -> frozenset[str]:
    """The counters that no rule reads any more."""
    this = rules.minute(now_seconds)
    kept = dict.fromkeys((ARRIVED, RETURNED, TURNED_AWAY), this - rules.kept) | {GRANTED: this}
    return frozenset(
        name
        for name in state.numbers
        if name[:1] in kept and name[1:].isdigit() and int(name[1:]) < kept[name[:1]]
    )


def grant_claim(
    state: BreakerState, wanted: int, now_seconds: int, rules: BreakerRules
) -> tuple[int, Update]:
    """How many of *wanted* replays the limit still allows in this minute, and the claim of them.

    It is spread evenly over the minute: else the first seconds would use it up.
    """
    name = f"{GRANTED}{rules.minute(now_seconds)}"
    limit = state.limit_at(now_seconds, rules) or 0
    seconds = now_seconds % rules.minute_seconds + 1
    so_far = -(-limit * seconds // rules.minute_seconds)
    count = max(0, min(wanted, so_far - state.numbers.get(name, 0)))
    expect = {"limit": state.numbers.get("limit")}
    return count, Update(add={name: count}, expect=expect, at_most={name: so_far - count})


def judgment_claim(state: BreakerState, now_seconds: int, rules: BreakerRules) -> Update | None:
    """The right to judge the consumer, which one worker a minute gets; None: there is no need."""
    this, last = rules.minute(now_seconds), state.numbers.get("judged")
    hour = range(this - rules.longest_judged, this + 1)
    needed = "limit" in state.numbers or state.count(RETURNED, hour) >= rules.least_returns
    if not needed or last == this:
        return None
    return Update(put={"judged": this}, expect={"judged": last})


def judge(
    state: BreakerState, deleted: Mapping[int, int], now_seconds: int, rules: BreakerRules
) -> Update | None:
    """Set, raise or end the limit; None where it stays as it is.

    Args:
        state: of which this worker has the ``judgment_claim``.
        deleted: messages that the main queue deleted, by minute of ``rules.metric_range``; a
            minute that is missing had none. Empty: the metric cannot be read.
        now_seconds: epoch seconds.
        rules: thresholds.
    """
    this = rules.minute(now_seconds)
    limit = state.limit_at(now_seconds, rules)
    expect = {name: state.numbers.get(name) for name in ("limit", "since")}
    if not deleted:
        is_unread = this - state.numbers.get("read", this) >= rules.unread
        is_over = "limit" in state.numbers and (limit is None or is_unread)
        return Update(remove=_LIMIT, expect=expect) if is_over else None
    newest = this - rules.lag - 1
    if limit == 1:
        return _judge_limited(state, deleted, newest, now_seconds, rules)
    minutes, usual = _judged_minutes(state, deleted, newest, limit, rules)
    since = minutes.start
    if limit is not None:
        since = max(since, rules.minute(state.numbers["since"]) + 1)
    returns = state.count(RETURNED, range(since, this + 1))
    if (
        minutes
        and returns >= rules.least_returns
        and not _works(state, deleted, minutes, usual, rules)
    ):
        full = _full(state, this, rules) if limit is None else state.numbers.get("full", limit)
        silent = _silent_since(deleted, newest, rules)
        is_silent = not any(deleted.get(minute) for minute in minutes)
        kept = usual if limit is None else state.numbers.get("usual", usual)
        put = {"limit": 1, "since": now_seconds, "full": full, "usual": kept, "read": this}
        put |= {"silent_since": silent} if is_silent else {}
        remove = frozenset() if is_silent else frozenset({"silent_since"})
        return Update(put=put, remove=remove, expect=expect)
    if limit is None and "limit" in state.numbers:
        return Update(remove=_LIMIT, expect=expect)
    if limit is None:
        return None
    higher = _raised(state, deleted, newest, limit, rules)
    return Update(put={"read": this, "limit": higher, "full": higher}, expect=expect)


def hold_seconds(view: BreakerView, draw_up_to: Callable[[int], int], *, is_fifo: bool) -> int:
    """Draw how long a message that the limit turns away waits before the next look, at least 1.

    Under a limit of 1 uniform up to its age, so that a limit that was set by mistake delays little;
    once that is the longest hold, not below the shortest, to save requests.
    """
    rules, (shortest, longest) = view.rules, view.rules.hold_seconds
    if view.limit != 1:
        shortest, longest = 0, rules.full_hold_seconds
    elif (age := view.now_seconds - view.since_seconds) < longest:
        shortest, longest = 0, max(rules.first_hold_seconds, age)
    if is_fifo:
        shortest = max(shortest, rules.fifo_hold_seconds)
        longest = max(longest, shortest)
    return max(1, shortest + draw_up_to(longest - shortest))


def hold_limit_seconds(message_id: str, rules: BreakerRules) -> int:
    """How long limits apply to a message; spread by its id, so that they do not all go at once."""
    part = int.from_bytes(hashlib.sha256(message_id.encode()).digest()[:4]) / 2**32
    return rules.hold_limit_seconds + int(part * rules.hold_limit_spread_seconds)


def _judge_limited(
    state: BreakerState,
    deleted: Mapping[int, int],
    newest: int,
    now_seconds: int,
    rules: BreakerRules,
) -> Update:
    """Raise a limit of 1 to full if the consumer works again, or note what was seen."""
    numbers, this = state.numbers, rules.minute(now_seconds)
    expect = {name: numbers.get(name) for name in ("limit", "since")}
    hour = state.count(ARRIVED, range(this - rules.longest_judged, this))
    load = -(-rules.full_factor * hour // rules.longest_judged)
    full = max(rules.full_least, numbers.get("full", 0), load)
    first = max(newest - rules.recovered + 1, rules.minute(numbers["since"]) + 1)
    minutes = range(first, newest + 1)
    if minutes and _works(state, deleted, minutes, numbers.get("usual", 0), rules):
        put = {"limit": full, "since": now_seconds, "full": full, "read": this}
        return Update(put=put, remove=frozenset({"silent_since"}), expect=expect)
    put = {"full": full, "read": this}
    if any(deleted.get(minute) for minute in range(newest - rules.recovered + 1, newest + 1)):
        return Update(put=put, remove=frozenset({"silent_since"}), expect=expect)
    silent = numbers.get("silent_since", _silent_since(deleted, newest, rules))
    return Update(put=put | {"silent_since": silent}, expect=expect)


def _judged_minutes(
    state: BreakerState,
    deleted: Mapping[int, int],
    newest: int,
    limit: int | None,
    rules: BreakerRules,
) -> tuple[range, int]:
    """The newest minutes in which enough deletes are usual, and what is usual in an hour.

    Under full only minutes since it was set count; none, as long as those are too few.
    """
    kept = state.numbers.get("usual", 0)
    oldest = newest - rules.longest_judged + 1
    if limit is not None:
        oldest = max(oldest, rules.minute(state.numbers["since"]) + 1)
    usual = kept
    for first in range(newest, oldest - 1, -1):
        if limit is None:
            usual = sum(deleted.get(m, 0) for m in range(first - rules.longest_judged, first))
        if usual * (newest + 1 - first) >= rules.judged_deletes * rules.longest_judged:
            return range(first, newest + 1), usual
    is_enough = newest + 1 - oldest >= rules.longest_judged
    return range(oldest, newest + 1) if is_enough else range(0), usual


def _works(
    state: BreakerState,
    deleted: Mapping[int, int],
    minutes: range,
    usual: int,
    rules: BreakerRules,
) -> bool:
    """Whether the consumer deleted more than newly failed, or enough of what is usual."""
    done = sum(deleted.get(minute, 0) for minute in minutes)
    expected = rules.working_share * usual * len(minutes) / rules.longest_judged
    return done > 0 and (done > state.count(ARRIVED, minutes) or done >= expected)


def _full(state: BreakerState, this: int, rules: BreakerRules) -> int:
    """What a queue gets that recovers: its normal load three times, and its normal replays."""
    hour = range(this - rules.longest_judged, this + 1)
    arrived = max(state.count(ARRIVED, range(m - rules.peak + 1, m + 1)) for m in hour)
    returned = state.count(RETURNED, range(this - rules.longest_judged, this))
    load = rules.full_factor * arrived / rules.peak + returned / rules.longest_judged
    return max(rules.full_least, round(load))


def _raised(
    state: BreakerState, deleted: Mapping[int, int], newest: int, full: int, rules: BreakerRules
) -> int:
    """What full should be, where faulty messages come back that did not before the limit.

    Else they would be turned away for as long as they come, and healthy ones with them. A consumer
    that does less than its usual work is ill: what comes back tells nothing of faulty messages.
    """
    minutes = range(newest - rules.peak + 1, newest + 1)
    is_young = minutes.start <= rules.minute(state.numbers["since"])
    usual = state.numbers.get("usual", 0) * rules.peak / rules.longest_judged
    if is_young or sum(deleted.get(m, 0) for m in minutes) < max(1, rules.healthy_share * usual):
        return full
    load = rules.full_factor * state.count(ARRIVED, minutes) + state.count(RETURNED, minutes)
    return max(full, -(-load // rules.peak))


def _silent_since(deleted: Mapping[int, int], newest: int, rules: BreakerRules) -> int:
    """The end of the last minute with a delete, or of the oldest that is known, epoch seconds."""
    last = max((m for m, n in deleted.items() if n and m <= newest), default=min(deleted) - 1)
    return (last + 1) * rules.minute_seconds


def limit_in_words(
    state: BreakerState, now_seconds: int, rules: BreakerRules, since: str = ""
) -> str | None:
    """What people read of the limit, with *since* behind its number; None where there is none."""
    limit = state.limit_at(now_seconds, rules)
    if limit is None:
        return None
    if limit > 1:
        return f"limited to {limit:,} replays a minute{since}; the consumer works again"
    consumer = f"limited to 1 replay a minute{since}; the consumer"
    silent = state.numbers.get("silent_since")
    if silent is None:
        return f"{consumer} deletes less than a third of what is usual"
    minutes = max(1, (now_seconds - silent) // rules.minute_seconds)
    ago = "1 minute" if minutes == 1 else f"{minutes:,} minutes"
    return f"{consumer} has deleted nothing for {ago}"
