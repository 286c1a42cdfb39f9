"""The circuit breaker: how many replays a minute a main queue gets. Pure.

Each main queue has a *limit*: none in normal times, 1 while its consumer does not work, and *full*
while what was held is replayed. Whether the consumer works, the queue's own metric says: how many
messages it deleted. ``docs/decisions/0004-circuit-breaker.md`` says why.

All workers share one item of the failure table. They count into it, and change it only where it is
still as they saw it. So ``BreakerView`` is a value, ``Update`` is the change that a worker wants,
and ``apply`` says what becomes of it.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property

from dlq_replay.wire.message import Message

ARRIVED, RETURNED, TURNED_AWAY, GRANTED = "n", "b", "x", "g"
"""What counters are named by: the kind and the epoch minute, as in ``n29650123``."""

_LIMIT = ("limit", "since", "full", "usual", "silent_since", "read", "resumed")


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
        hold_limit_seconds: how long limits apply to one message at least and at most, by its id, so
            that not all that was held goes at once.
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
class Update:
    """A change of a breaker's item, made as a whole or not at all; None is an absent number.

    Attributes:
        add: added to numbers; an absent one counts as 0. No name is in *put*, too.
        put: set, over what was there.
        expect: numbers that must still be what they were seen as.
    """

    add: Mapping[str, int] = field(default_factory=dict)
    put: Mapping[str, int | None] = field(default_factory=dict)
    expect: Mapping[str, int | None] = field(default_factory=dict)


def apply(numbers: Mapping[str, int], update: Update) -> Mapping[str, int] | None:
    """What *update* makes of an item; None where it is not as expected."""
    if any(numbers.get(name) != seen for name, seen in update.expect.items()):
        return None
    added = {name: numbers.get(name, 0) + more for name, more in update.add.items()}
    changed = {**numbers, **added, **update.put}
    return {name: number for name, number in changed.items() if number is not None}


@dataclass(frozen=True)
class BreakerView:
    """The breaker of one main queue, as a worker sees it at one moment.

    Attributes:
        numbers: of its item, by their names there: counters; and while there is a limit ``limit``
            (replays a minute), ``since`` (epoch seconds), ``full``, ``usual`` (deletes an hour
            before), ``silent_since`` (epoch seconds, where the consumer deletes nothing),
            ``read`` (minute in which the metric was last read), and ``resumed`` (epoch seconds,
            where a person let replay go on after a pause). ``judged`` is the minute of the last
            judgment.
        grants: how many replays of a batch the limit lets through.
    """

    numbers: Mapping[str, int]
    now_seconds: int
    rules: BreakerRules = field(default_factory=BreakerRules)
    grants: int = 0

    @property
    def minute(self) -> int:
        """The minute of *now_seconds*."""
        return self.rules.minute(self.now_seconds)

    @cached_property
    def limit(self) -> int | None:
        """How many replays a minute are allowed; None: all.

        A limit that turned nobody away for long enough is over, whether or not anybody noted it.
        """
        limit, since = self.numbers.get("limit"), self.numbers.get("since")
        if not limit or since is None or self.rules.minute(since) > self.minute + 1:
            return None
        first = self.minute - (self.rules.hour if limit == 1 else self.rules.quiet)
        is_young = self.rules.minute(since) > first
        was_needed = self._count(TURNED_AWAY, range(first, self.minute + 1)) > 0
        return limit if is_young or was_needed else None

    @property
    def in_words(self) -> str:
        """The limit as people read it; empty where there is none."""
        if self.limit is None:
            return ""
        since = datetime.fromtimestamp(self._since, UTC)
        replays = "1 replay" if self.limit == 1 else f"{self.limit:,} replays"
        limited = f"limited to {replays} a minute since {since:%Y-%m-%d %H:%M} UTC; the consumer"
        silent_since = self.numbers.get("silent_since")
        if self.limit > 1 and self._resumed == self._since:
            return limited.replace("; the consumer", ", when replay went on after a pause")
        if self.limit > 1:
            return f"{limited} works again"
        if silent_since is None:
            return f"{limited} deletes less than a third of what is usual"
        minutes = (self.now_seconds - silent_since) // self.rules.minute_seconds
        return f"{limited} has deleted nothing for {minutes:,} minutes"

    def applies_to(self, message: Message) -> bool:
        """Whether the limit holds for a message.

        A first replay is what shows that the consumer works again. So that of a message that no
        limit has touched goes, unless the consumer does nothing at all.
        """
        if self.limit is None:
            return False
        gathered = message.sent_seconds is not None and message.sent_seconds < self._resumed
        return "silent_since" in self.numbers or gathered or was_replayed(message)

    def hold_seconds(self, draw_up_to: Callable[[int], int], *, is_fifo: bool) -> int:
        """Draw how long a message that the limit turns away waits before the next look; at least 1.

        Under a limit of 1 uniform up to its age, so that a limit that was set by mistake delays
        little; once that is the longest hold, not below the shortest, to save requests.
        """
        rules, (shortest, longest) = self.rules, self.rules.hold_seconds
        if self.limit != 1:
            shortest, longest = 0, rules.full_hold_seconds
        elif (age := self.now_seconds - self._since) < longest:
            shortest, longest = 0, max(rules.minute_seconds, age)
        if is_fifo:
            shortest = max(shortest, rules.full_hold_seconds)
            longest = max(longest, shortest)
        return max(1, shortest + draw_up_to(longest - shortest))

    def grant_claim(self, wanted: int) -> tuple[int, Update]:
        """How many of *wanted* replays the limit still allows in this minute, and their claim.

        It is spread evenly over the minute: else the first seconds would use it up.
        """
        name, whole = f"{GRANTED}{self.minute}", self.rules.minute_seconds
        seconds = self.now_seconds % whole + 1
        left = -(-(self.limit or 0) * seconds // whole) - self.numbers.get(name, 0)
        count = max(0, min(wanted, left))
        expect = {seen: self.numbers.get(seen) for seen in ("limit", name)}
        return count, Update(add={name: count}, expect=expect)

    def after_pause(self, gathered: int, paused_seconds: int) -> Update:
        """Limit what gathered in the DLQ while replay was paused, before replay goes on.

        A limit that there was goes on, because nobody saw the consumer meanwhile: 1 becomes full
        when it works. Else the limit is full, of what gathered in a minute. It holds for all that
        was sent before now, also for first replays.

        Args:
            gathered: messages that are due in the DLQ, of all its main queues.
            paused_seconds: how long replay was off.
        """
        rules, numbers = self.rules, self.numbers
        minutes = max(1, paused_seconds / rules.minute_seconds)
        load = math.ceil(rules.full_factor * gathered / minutes)
        is_low = numbers.get("limit") == 1
        so_far = numbers.get("full", 0) if is_low or self.limit else 0
        full = max(rules.full_least, so_far, load)
        return Update(
            put={
                "limit": 1 if is_low else full,
                "since": self.now_seconds,
                "full": full,
                "resumed": self.now_seconds,
                "read": self.minute,
            },
            expect={name: numbers.get(name) for name in ("limit", "since")},
        )

    def renewed_after_pause(self) -> Update | None:
        """Let the limit of ``after_pause`` begin now, as replay does; None if there is none."""
        seen = {name: self.numbers.get(name) for name in ("limit", "since")}
        if None in seen.values() or self._resumed != seen["since"]:
            return None
        return Update(put=dict.fromkeys(("since", "resumed"), self.now_seconds), expect=seen)

    def judgment_claim(self) -> Update | None:
        """The right to judge the consumer, which one worker a minute gets; None: no need."""
        last = self.numbers.get("judged")
        returns = self._count(RETURNED, range(self.minute - self.rules.hour, self.minute + 1))
        is_needed = "limit" in self.numbers or returns >= self.rules.least_returns
        if not is_needed or last == self.minute:
            return None
        return Update(put={"judged": self.minute}, expect={"judged": last})

    def judge(self, deleted: Mapping[int, int]) -> Update | None:
        """Set, raise or end the limit; None where there is nothing to write.

        The caller has the ``judgment_claim``.

        Args:
            deleted: messages that the main queue deleted, by minute of ``rules.metric_range``; a
                minute that is missing had none. Empty: the metric cannot be read.
        """
        put: dict[str, int | None] = {}
        unread = 0 if deleted else self.minute - self.numbers.get("read", self.minute)
        if "limit" in self.numbers and (self.limit is None or unread >= self.rules.unread):
            put |= dict.fromkeys(_LIMIT)
        if deleted:
            put |= self._judged(deleted)
        return Update(put=put, expect={"judged": self.numbers.get("judged")}) if put else None

    def stale(self, names: Iterable[str]) -> frozenset[str]:
        """Those of *names* that are counters which no rule reads any more."""
        newest = self.minute - self.rules.lag
        oldest = newest - self.rules.hour
        kept = {ARRIVED: oldest, RETURNED: oldest, TURNED_AWAY: oldest, GRANTED: newest}
        return frozenset(
            name
            for name in names
            if name[:1] in kept and name[1:].isdigit() and int(name[1:]) < kept[name[:1]]
        )

    def _judged(self, deleted: Mapping[int, int]) -> dict[str, int | None]:
        """The numbers of the limit as they should be; empty where there is none, and no need."""
        rules, is_limited = self.rules, self.limit is not None
        newest = self.minute - rules.lag - 1
        first_known = rules.minute(self._since) + 1 if is_limited else 0
        minutes, usual = self._judged_minutes(deleted, newest)
        if self.limit == 1:
            minutes = range(max(newest - rules.recovered + 1, first_known), newest + 1)
        done = _total(deleted, minutes)
        enough = rules.working_share * usual * len(minutes) / rules.hour
        works = done > 0 and (done > self._count(ARRIVED, minutes) or done >= enough)
        returns = self._count(RETURNED, range(minutes.start, self.minute + 1))
        is_low = not works and (self.limit == 1 or returns >= rules.least_returns)
        if not minutes or minutes.start < first_known:
            # Too few since it was set: it stays.
            is_low = self.limit == 1
        if not is_limited and not is_low:
            return {}
        full = self._full(deleted, newest, usual)
        put: dict[str, int | None] = {"full": full, "usual": usual, "read": self.minute}
        put["limit"] = 1 if is_low else full
        put["silent_since"] = self._silent_since(deleted, newest) if is_low else None
        return put if is_low is (self.limit == 1) else put | {"since": self.now_seconds}

    def _judged_minutes(self, deleted: Mapping[int, int], newest: int) -> tuple[range, int]:
        """The newest minutes in which enough deletes are usual, and what is usual in an hour.

        That is what was deleted in the hour before them, or before the limit was set. A resume that
        set it did not ask for the metric.
        """
        hour, usual = self.rules.hour, self.numbers.get("usual", 0)
        for first in range(newest, newest - hour, -1):
            minutes = range(first, newest + 1)
            if self.limit is None or "usual" not in self.numbers:
                usual = _total(deleted, range(first - hour, first))
            if usual * len(minutes) >= self.rules.judged_deletes * hour:
                break
        return minutes, usual

    def _full(self, deleted: Mapping[int, int], newest: int, usual: int) -> int:
        """What a queue gets that recovers: its normal load three times, and its normal replays.

        Under a limit of 1 it follows a load that grows. Under full it grows where faulty messages
        come back that did not before the limit: else they would be turned away for as long as they
        come, and healthy ones with them. A consumer that does less than its usual work is ill: what
        comes back tells nothing of faulty messages.
        """
        rules, hour = self.rules, range(self.minute - self.rules.hour, self.minute)
        recent = range(newest - rules.peak + 1, newest + 1)
        arrived = returned = 0.0
        if self.limit is None:
            ends = range(hour.start, hour.stop + 1)
            arrived = max(self._mean(ARRIVED, range(m - rules.peak + 1, m + 1)) for m in ends)
            returned = self._mean(RETURNED, hour)
        elif self.limit == 1:
            arrived = self._mean(ARRIVED, hour)
        elif recent.start > rules.minute(self._since):
            healthy = rules.healthy_share * usual * rules.peak / rules.hour
            if _total(deleted, recent) >= max(1, healthy):
                arrived, returned = self._mean(ARRIVED, recent), self._mean(RETURNED, recent)
        known = self.numbers.get("full", 0) if self.limit else 0
        return max(rules.full_least, known, math.ceil(rules.full_factor * arrived + returned))

    def _silent_since(self, deleted: Mapping[int, int], newest: int) -> int | None:
        """The end of the last minute with a delete; None if that is the newest one."""
        last = max((m for m, n in deleted.items() if n and m <= newest), default=min(deleted) - 1)
        return None if last == newest else (last + 1) * self.rules.minute_seconds

    @property
    def _resumed(self) -> int:
        return self.numbers.get("resumed", 0)

    @property
    def _since(self) -> int:
        return self.numbers.get("since", self.now_seconds)

    def _count(self, kind: str, minutes: range) -> int:
        return sum(self.numbers.get(f"{kind}{minute}", 0) for minute in minutes)

    def _mean(self, kind: str, minutes: range) -> float:
        return self._count(kind, minutes) / len(minutes)


def was_replayed(message: Message) -> bool:
    """Whether a dead letter came back, and is no new arrival.

    One that a limit let through may have its old counter, 0; its mark says that it was replayed.
    """
    history = message.history
    return bool(history.replay_count) or history.context.held_seconds is not None


def _total(deleted: Mapping[int, int], minutes: range) -> int:
    return sum(deleted.get(minute, 0) for minute in minutes)
