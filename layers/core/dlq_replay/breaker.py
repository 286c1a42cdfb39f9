"""The circuit breaker: how many replays a minute a main queue gets. Pure.

Each main queue has a *limit*: none in normal times, 1 while its consumer does not work, and *full*
while what was held goes back. Whether the consumer works, the queue's own metric says: how many
messages it deleted. ``docs/decisions/0004-circuit-breaker.md`` says why.

All workers share one item of the failure table. They count into it, and change it only where it is
still as they saw it. So ``BreakerState`` is a value, ``Update`` is the change that a worker wants,
and ``apply`` says what becomes of it.
"""

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Self

from dlq_replay.message import Message

ARRIVED, RETURNED, TURNED_AWAY, GRANTED = "n", "b", "x", "g"
"""What counters are named by: the kind and the epoch minute, as in ``n29650123``."""

_LIMIT = ("limit", "since", "full", "usual", "silent_since", "read")


@dataclass(frozen=True, slots=True)
class BreakerRules:
    """Every threshold and duration of the breaker, in minutes unless the name says otherwise.

    Attributes:
        minute_seconds: what is counted together, and the longest hold under a new limit; shorter
            in a demonstration.
        lag: the newest minutes for which the metric is not complete.
        hour: the longest time that is judged; the time before it whose mean is *usual*; and how
            long a limit of 1 lasts that turns nobody away.
        judged_deletes: the consumer is judged by the newest minutes in which so many deletes are
            usual, and by an ``hour`` at most.
        least_returns: messages that came back in or since those minutes, at least.
        working_share: the consumer works if it deletes this share of what is usual.
        healthy_share: full grows only while the consumer deletes this share of what is usual.
        recovered: the consumer works again if it did so over the last so many.
        peak: the normal load is the highest mean of so many.
        full_factor: full is so many times the normal load, and the replays that were normal.
        full_least: replays a minute that full allows at least.
        quiet: full ends when nobody was turned away for so long.
        unread: a limit ends when the metric could not be read for so long.
        hold_seconds: shortest and longest hold under a limit of 1 that is as old as the longest.
        full_hold_seconds: the longest hold under full, and the shortest of all on FIFO, where each
            look counts as a receive.
        hold_limit_seconds: how long limits apply to one message, from the first to the second by
            its id.
    """

    minute_seconds: int = 60
    lag: int = 3
    hour: int = 60
    judged_deletes: int = 30
    least_returns: int = 5
    working_share: float = 1 / 3
    healthy_share: float = 3 / 4
    recovered: int = 5
    peak: int = 10
    full_factor: int = 3
    full_least: int = 20
    quiet: int = 3
    unread: int = 10
    hold_seconds: tuple[int, int] = (450, 900)
    full_hold_seconds: int = 300
    hold_limit_seconds: tuple[int, int] = (11 * 3600, 12 * 3600)

    def minute(self, seconds: int) -> int:
        """The minute that holds the moment *seconds*, epoch seconds."""
        return seconds // self.minute_seconds

    def metric_range(self, now_seconds: int) -> tuple[int, int]:
        """From when until when the metric is needed at *now_seconds*, epoch seconds."""
        end = self.minute(now_seconds) - self.lag
        return (end - 2 * self.hour) * self.minute_seconds, end * self.minute_seconds


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

    def mean(self, kind: str, minutes: range) -> float:
        """What was counted of *kind* a minute."""
        return self.count(kind, minutes) / len(minutes)

    def limit_at(self, now_seconds: int, rules: BreakerRules) -> int | None:
        """How many replays a minute are allowed at *now_seconds*; None: all.

        A limit that turned nobody away for long enough is over, whether or not anybody noted it.
        """
        limit, since = self.numbers.get("limit"), self.numbers.get("since")
        this = rules.minute(now_seconds)
        if not limit or since is None or rules.minute(since) > this + 1:
            return None
        first = this - (rules.hour if limit == 1 else rules.quiet)
        is_young = rules.minute(since) > first
        return limit if is_young or self.count(TURNED_AWAY, range(first, this + 1)) else None


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
        numbers, limit = state.numbers, state.limit_at(now_seconds, rules)
        since = numbers.get("since", now_seconds)
        return cls(rules, now_seconds, limit, since, "silent_since" in numbers)

    def applies_to(self, message: Message) -> bool:
        """Whether the limit holds for a message.

        A first replay is what shows that the consumer works again. So that of a message that no
        limit has touched goes, unless the consumer does nothing at all.
        """
        return self.limit is not None and (self.is_silent or was_replayed(message))


def was_replayed(message: Message) -> bool:
    """Whether a dead letter came back, and is no new arrival.

    One that a limit let through may have its old counter, 0; its mark says that it was replayed.
    """
    history = message.history
    return bool(history.replay_count) or history.context.held_seconds is not None


@dataclass(frozen=True, slots=True)
class Update:
    """A change of a breaker's item, made as a whole or not at all.

    Attributes:
        add: added to numbers; an absent one counts as 0. No name is in *put*, too.
        put: set, over what was there; None takes it away.
        expect: numbers that must still be what they were seen as, None for absent.
    """

    add: Mapping[str, int] = field(default_factory=dict)
    put: Mapping[str, int | None] = field(default_factory=dict)
    expect: Mapping[str, int | None] = field(default_factory=dict)


def apply(state: BreakerState, update: Update) -> BreakerState | None:
    """What *update* makes of *state*; None where it is not as expected."""
    seen = state.numbers
    if any(seen.get(name) != value for name, value in update.expect.items()):
        return None
    added = {name: seen.get(name, 0) + more for name, more in update.add.items()}
    numbers = {**seen, **added, **update.put}
    return BreakerState({name: n for name, n in numbers.items() if n is not None})


def stale_names(names: Iterable[str], now_seconds: int, rules: BreakerRules) -> frozenset[str]:
    """Those of *names* that are counters which no rule reads any more."""
    newest = rules.minute(now_seconds) - rules.lag
    kept = dict.fromkeys((ARRIVED, RETURNED, TURNED_AWAY), newest - rules.hour) | {GRANTED: newest}
    return frozenset(
        name
        for name in names
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
    left = -(-limit * seconds // rules.minute_seconds) - state.numbers.get(name, 0)
    count = max(0, min(wanted, left))
    expect = {seen: state.numbers.get(seen) for seen in ("limit", name)}
    return count, Update(add={name: count}, expect=expect)


def judgment_claim(state: BreakerState, now_seconds: int, rules: BreakerRules) -> Update | None:
    """The right to judge the consumer, which one worker a minute gets; None: there is no need."""
    this, last = rules.minute(now_seconds), state.numbers.get("judged")
    returns = state.count(RETURNED, range(this - rules.hour, this + 1))
    is_needed = "limit" in state.numbers or returns >= rules.least_returns
    if not is_needed or last == this:
        return None
    return Update(put={"judged": this}, expect={"judged": last})


def judge(
    state: BreakerState, deleted: Mapping[int, int], now_seconds: int, rules: BreakerRules
) -> Update | None:
    """Set, raise or end the limit; None where there is nothing to write.

    Args:
        state: of which this worker has the ``judgment_claim``.
        deleted: messages that the main queue deleted, by minute of ``rules.metric_range``; a
            minute that is missing had none. Empty: the metric cannot be read.
        now_seconds: epoch seconds.
        rules: thresholds.
    """
    this, numbers = rules.minute(now_seconds), state.numbers
    put: dict[str, int | None] = {}
    is_unread = not deleted and this - numbers.get("read", this) >= rules.unread
    if "limit" in numbers and (is_unread or state.limit_at(now_seconds, rules) is None):
        put |= dict.fromkeys(_LIMIT)
    if deleted:
        put |= _judged(state, deleted, now_seconds, rules)
    return Update(put=put, expect={"judged": numbers.get("judged")}) if put else None


def hold_seconds(view: BreakerView, draw_up_to: Callable[[int], int], *, is_fifo: bool) -> int:
    """Draw how long a message that the limit turns away waits before the next look, at least 1.

    Under a limit of 1 uniform up to its age, so that a limit that was set by mistake delays little;
    once that is the longest hold, not below the shortest, to save requests.
    """
    rules, (shortest, longest) = view.rules, view.rules.hold_seconds
    if view.limit != 1:
        shortest, longest = 0, rules.full_hold_seconds
    elif (age := view.now_seconds - view.since_seconds) < longest:
        shortest, longest = 0, max(rules.minute_seconds, age)
    if is_fifo:
        shortest = max(shortest, rules.full_hold_seconds)
        longest = max(longest, shortest)
    return max(1, shortest + draw_up_to(longest - shortest))


def hold_limit_seconds(message_id: str, rules: BreakerRules) -> int:
    """How long limits apply to a message; spread by its id, so that they do not all go at once."""
    part = int.from_bytes(hashlib.sha256(message_id.encode()).digest()[:4]) / 2**32
    shortest, longest = rules.hold_limit_seconds
    return shortest + int(part * (longest - shortest))


def limit_in_words(state: BreakerState, now_seconds: int, rules: BreakerRules) -> str:
    """What people read of the limit; empty where there is none."""
    limit = state.limit_at(now_seconds, rules)
    if limit is None:
        return ""
    now, since = (datetime.fromtimestamp(at, UTC) for at in (now_seconds, state.numbers["since"]))
    then = f"{since:%H:%M}" if since.date() == now.date() else f"{since:%Y-%m-%d %H:%M}"
    if limit > 1:
        return f"limited to {limit:,} replays a minute since {then} UTC; the consumer works again"
    consumer = f"limited to 1 replay a minute since {then} UTC; the consumer"
    silent = state.numbers.get("silent_since")
    if silent is None:
        return f"{consumer} deletes less than a third of what is usual"
    minutes = (now_seconds - silent) // rules.minute_seconds
    return f"{consumer} has deleted nothing for {minutes:,} minutes"


def _judged(
    state: BreakerState, deleted: Mapping[int, int], now_seconds: int, rules: BreakerRules
) -> dict[str, int | None]:
    """The numbers of the limit as they should be; empty where there is none and none is needed."""
    this, numbers = rules.minute(now_seconds), state.numbers
    limit, newest = state.limit_at(now_seconds, rules), this - rules.lag - 1
    since = rules.minute(numbers["since"]) if limit else 0
    minutes, usual = _judged_minutes(
        deleted, newest, numbers.get("usual", 0) if limit else None, rules
    )
    if limit == 1:
        minutes = range(max(newest - rules.recovered, since) + 1, newest + 1)
    done = _total(deleted, minutes)
    enough = rules.working_share * usual * len(minutes) / rules.hour
    works = done > 0 and (done > state.count(ARRIVED, minutes) or done >= enough)
    returns = state.count(RETURNED, range(minutes.start, this + 1))
    is_low = not works and (limit == 1 or returns >= rules.least_returns)
    if not minutes or minutes.start <= since:
        # Too few since it was set: it stays.
        is_low = limit == 1
    if limit is None and not is_low:
        return {}
    full = _full(state, deleted, usual, now_seconds, rules)
    silent_since = _silent_since(deleted, newest, rules) if is_low else None
    put = {"limit": 1 if is_low else full, "full": full, "usual": usual, "read": this}
    is_changed = is_low is not (limit == 1)
    return put | {"silent_since": silent_since} | ({"since": now_seconds} if is_changed else {})


def _judged_minutes(
    deleted: Mapping[int, int], newest: int, kept: int | None, rules: BreakerRules
) -> tuple[range, int]:
    """The newest minutes in which enough deletes are usual, an hour at most; what is in an hour.

    *kept* is what was usual when the limit was set; None: as in the hour before the minutes.
    """
    for first in range(newest, newest - rules.hour, -1):
        minutes = range(first, newest + 1)
        usual = _total(deleted, range(first - rules.hour, first)) if kept is None else kept
        if usual * len(minutes) >= rules.judged_deletes * rules.hour:
            break
    return minutes, usual


def _full(
    state: BreakerState,
    deleted: Mapping[int, int],
    usual: int,
    now_seconds: int,
    rules: BreakerRules,
) -> int:
    """What a queue gets that recovers: its normal load three times, and its normal replays.

    Under a limit of 1 it follows a load that grows. Under full it grows where faulty messages come
    back that did not before the limit: else they would be turned away for as long as they come, and
    healthy ones with them. A consumer that does less than its usual work is ill: what comes back
    tells nothing of faulty messages.
    """
    this, limit = rules.minute(now_seconds), state.limit_at(now_seconds, rules)
    hour, newest = range(this - rules.hour, this), this - rules.lag - 1
    arrived = returned = 0.0
    if limit is None:
        ends = range(this - rules.hour, this + 1)
        arrived = max(state.mean(ARRIVED, range(m - rules.peak + 1, m + 1)) for m in ends)
        returned = state.mean(RETURNED, hour)
    elif limit == 1:
        arrived = state.mean(ARRIVED, hour)
    else:
        minutes = range(newest - rules.peak + 1, newest + 1)
        healthy = rules.healthy_share * usual * rules.peak / rules.hour
        is_old = minutes.start > rules.minute(state.numbers["since"])
        if is_old and _total(deleted, minutes) >= max(1, healthy):
            arrived, returned = state.mean(ARRIVED, minutes), state.mean(RETURNED, minutes)
    known = state.numbers.get("full", 0) if limit else 0
    return max(rules.full_least, known, math.ceil(rules.full_factor * arrived + returned))


def _total(deleted: Mapping[int, int], minutes: range) -> int:
    return sum(deleted.get(minute, 0) for minute in minutes)


def _silent_since(deleted: Mapping[int, int], newest: int, rules: BreakerRules) -> int | None:
    """The end of the last minute with a delete, or of the oldest that is known, epoch seconds.

    None where there was one in the newest minute.
    """
    last = max((m for m, n in deleted.items() if n and m <= newest), default=min(deleted) - 1)
    return None if last == newest else (last + 1) * rules.minute_seconds
