"""The circuit breaker: the number of replays a minute that a main queue gets. Pure.

Each main queue has a *limit*: none in normal times, 1 while its consumer does not work, and *full*
while held messages are replayed. The queue's own metric shows whether the consumer works: the
number of messages that it deleted. ``docs/decisions/0004-circuit-breaker.md`` has the reasons.

All workers share one item of the failure table. They count into it, and change it only where it is
still as they saw it. So ``BreakerView`` is a value, ``Update`` is the change that a worker wants,
and ``apply`` returns the result.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property

from dlq_replay.wire.addresses import QueueAddress
from dlq_replay.wire.message import Message

ARRIVED = "n"
RETURNED = "b"
TURNED_AWAY = "x"
GRANTED = "g"
"""Kinds of counters. A counter's name is the kind and the epoch minute, as in ``n29650123``."""

_LIMIT = ("limit", "since", "began", "full", "silent_since", "read", "resumed")
_BEFORE = ("usual", "pause", "recovered")
"""Numbers of the limit, and those that are kept for an hour after it became full."""


@dataclass(frozen=True, slots=True)
class BreakerRules:
    """Every threshold and duration of the breaker, in minutes unless the name says otherwise.

    Attributes:
        minute_seconds: the interval of counters, and the longest hold under a new limit; shorter in
            a demonstration.
        lag: the newest minutes for which the metric is not complete.
        hour: the longest time that is judged; the time before it whose mean is *usual*; and how
            long a limit of 1 lasts that turns no message away.
        judged_deletes: the consumer is judged by the newest minutes in which this many deletes are
            usual, and by an ``hour`` at most.
        pauses: and by more minutes than this many times the longest pause that is usual.
        least_known: minutes of the hour before those that must be known to judge by, at least; 0
            in a demonstration, whose queues are new.
        least_returns: messages that came back in or since those minutes, at least.
        least_arrivals: messages that newly failed in those minutes, at least.
        failing_share: and at least this share of the deletes that are usual in them.
        failing: minutes since the first of these failed, at least.
        working_share: the consumer works if it deletes this share of what is usual.
        healthy_share: full grows only while the consumer deletes this share of what is usual.
        recovered: the consumer works again if it worked over this many of the last minutes.
        peak: the normal load is the highest mean of this many minutes.
        full_factor: full is this many times the normal load, plus the normal replays.
        full_least: replays a minute that full allows at least.
        quiet: full ends when no message was turned away for this long.
        unread: nothing is judged by a metric that is later than this, beside the ``lag``; a limit
            ends when it was late for this long.
        hold_seconds: shortest and longest hold under a limit of 1 that is as old as the longest.
        full_hold_seconds: shortest and longest hold under full.
        hold_limit_seconds: how long limits apply to one message at least and at most, by its id, so
            that not all that was held goes at once.
        main_receives: of a FIFO queue: how often SQS hands out a message before it is a dead
            letter, 0 where that is not known; None of a standard queue.
    """

    minute_seconds: int = 60
    lag: int = 3
    hour: int = 60
    judged_deletes: int = 30
    pauses: int = 2
    least_known: int = 30
    least_returns: int = 5
    least_arrivals: int = 3
    failing_share: float = 1 / 6
    failing: int = 1
    working_share: float = 1 / 3
    healthy_share: float = 9 / 10
    recovered: int = 5
    peak: int = 10
    full_factor: int = 3
    full_least: int = 20
    quiet: int = 3
    unread: int = 10
    hold_seconds: tuple[int, int] = (450, 900)
    full_hold_seconds: tuple[int, int] = (0, 300)
    hold_limit_seconds: tuple[int, int] = (11 * 3600, 12 * 3600)
    main_receives: int | None = None

    @property
    def is_fifo(self) -> bool:
        """True if they are those of a FIFO queue."""
        return self.main_receives is not None

    def minute(self, seconds: int) -> int:
        """Return the minute of the moment *seconds*, epoch seconds."""
        return seconds // self.minute_seconds

    def metric_range(self, now_seconds: int) -> tuple[int, int]:
        """Return start and end of the metric that is needed at *now_seconds*, epoch seconds."""
        end = self.minute(now_seconds) - self.lag
        return (end - 2 * self.hour) * self.minute_seconds, end * self.minute_seconds


_FIFO_HOLD_SECONDS = (300, 450)
_FIFO_QUIET = 8
_FIFO_FAILING = 5
"""A message waits in place, and each look counts as a receive, so that holds are long from the
first: a limit must not be set at the end of an outage of a few minutes. Full must outlast a hold.
"""


def rules_for(queue: QueueAddress, max_receive_count: int | None = None) -> BreakerRules:
    """Return the rules of a main queue; *max_receive_count* is that of its redrive policy."""
    if not queue.is_fifo:
        return BreakerRules()
    return BreakerRules(
        failing=_FIFO_FAILING,
        quiet=_FIFO_QUIET,
        full_hold_seconds=_FIFO_HOLD_SECONDS,
        main_receives=max_receive_count or 0,
    )


def known_minutes(deleted: Mapping[int, int], active: Iterable[int]) -> Mapping[int, int]:
    """Return the number of messages that a queue deleted in each minute in which it was watched.

    SQS does not promise a 0 for a minute without a delete, and metrics may be late: a missing value
    is not 0. The metric of waiting messages, which SQS publishes while a queue is used, tells the
    two apart.

    Args:
        deleted: NumberOfMessagesDeleted, by minute; may lack minutes without a delete.
        active: minutes that ApproximateNumberOfMessagesVisible has.

    Returns:
        Deletes by minute, 0 where only the second metric is there. A minute that neither has, and
        one that is newer than the second metric, is not known and left out.
    """
    deletes = {minute: deleted.get(minute, 0) for minute in active}
    newest = max(deletes, default=-1)
    for minute, count in deleted.items():
        if minute <= newest:
            deletes[minute] = count
    return deletes


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
    """Return the item after *update*; None where it is not as expected."""
    for name, expected in update.expect.items():
        if numbers.get(name) != expected:
            return None

    changed = dict(numbers)
    for name, more in update.add.items():
        changed[name] = changed.get(name, 0) + more
    for name, number in update.put.items():
        if number is None:
            changed.pop(name, None)
        else:
            changed[name] = number
    return changed


@dataclass(frozen=True)
class BreakerView:
    """The breaker of one main queue, as a worker sees it at one moment.

    Attributes:
        numbers: of its item, by their names there: counters; and while there is a limit ``limit``
            (replays a minute), ``since`` (epoch seconds), ``began`` (when none became 1, epoch
            seconds), ``full``, ``usual`` (deletes an hour before), ``pause`` (the longest without
            a delete in that hour, minutes), ``silent_since`` (epoch seconds, where the consumer
            deletes nothing), ``read`` (minute in which the metric was last good enough to judge
            by), and ``resumed`` (epoch seconds, where a person let replay go on after a pause).
            ``recovered`` is when 1 became full, epoch seconds, and ``judged`` the minute of the
            last judgment. ``unread_since`` is there while the metric is not good enough to judge
            by, epoch seconds.
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
        """The number of replays a minute that are allowed; None: all.

        A limit that turned none away for long enough has ended, even if no worker recorded that.
        """
        limit = self.numbers.get("limit")
        since = self.numbers.get("since")
        if not limit or since is None or self.rules.minute(since) > self.minute + 1:
            return None
        first = self.minute - (self.rules.hour if limit == 1 else self.rules.quiet)
        if self.rules.minute(since) > first:
            return limit
        # From the newest: most often the first that is asked for is there.
        for minute in range(self.minute, first - 1, -1):
            if self._count(TURNED_AWAY, [minute]):
                return limit
        return None

    @property
    def in_words(self) -> str:
        """The limit as people read it; empty where there is none."""
        if self.limit is None:
            return ""

        since = datetime.fromtimestamp(self._since, UTC)
        replays = "1 replay" if self.limit == 1 else f"{self.limit:,} replays"
        limited = f"limited to {replays} a minute since {since:%Y-%m-%d %H:%M} UTC"
        if self.limit > 1 and self._resumed == self._since:
            return f"{limited}, when replay went on after a pause"
        if self.limit > 1:
            return f"{limited}; the consumer works again"

        silent_since = self.numbers.get("silent_since")
        if silent_since is None:
            return f"{limited}; the consumer deletes less than a third of what is usual"
        minutes = (self.now_seconds - silent_since) // self.rules.minute_seconds
        return f"{limited}; the consumer has deleted nothing for {minutes:,} minutes"

    @property
    def unjudged_in_words(self) -> str:
        """Why the consumer cannot be judged, as people read it; empty where it can.

        As of the last judgment, and there is one only where a limit may be needed.
        """
        unread_since = self.numbers.get("unread_since")
        if unread_since is None:
            return ""
        judged_seconds = self.numbers.get("judged", 0) * self.rules.minute_seconds
        first = datetime.fromtimestamp(unread_since, UTC)
        last = datetime.fromtimestamp(max(unread_since, judged_seconds), UTC)
        return (
            "cannot judge the consumer, and sets no limit: the metric NumberOfMessagesDeleted of "
            f"the main queue was needed from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} "
            "UTC, and could not be read or was not there"
        )

    def applies_to(self, message: Message) -> bool:
        """Return whether the limit holds for a message.

        A first replay is what shows that the consumer works again. So that of a message that no
        limit has touched goes, unless the consumer does nothing at all.
        """
        if self.limit is None:
            return False
        gathered = message.sent_seconds is not None and message.sent_seconds < self._resumed
        return "silent_since" in self.numbers or gathered or self._was_touched(message)

    def _was_touched(self, message: Message) -> bool:
        """Return whether a limit has held the message before, or has let a replay of it through.

        On FIFO nothing can be written into a message that waits in place. One that was there
        before the limit, or that was looked at before, may have been held.
        """
        if was_replayed(message):
            return True
        if not self.rules.is_fifo:
            return False
        moved = message.sent_seconds
        was_there = moved is not None and moved < self._since
        return was_there or not is_first_look(message, self.rules)

    def held_since_seconds(self, message: Message) -> int:
        """Since when limits have applied to *message*, epoch seconds; now if they never did.

        On FIFO, where a held message has no mark, not before the first limit was set that it can
        have met in the DLQ.
        """
        held = message.history.context.held_seconds
        moved = message.sent_seconds
        if held is None and self.rules.is_fifo and moved is not None:
            held = max(int(moved), self.numbers.get("began", self._since))
        # Any producer can write a time of the future, and the clock of SQS may be ahead.
        return self.now_seconds if held is None else min(held, self.now_seconds)

    def hold_seconds(self, draw_up_to: Callable[[int], int]) -> int:
        """Draw how long a message that the limit turns away waits before the next look; at least 1.

        Under a limit of 1 uniform up to its age, so that a limit that was set by mistake delays
        little; once that is the longest hold, not below the shortest, to save requests.
        """
        rules = self.rules
        shortest, longest = rules.hold_seconds if self.limit == 1 else rules.full_hold_seconds
        age_seconds = self.now_seconds - self._since
        if self.limit == 1 and age_seconds < longest:
            shortest = 0
            longest = max(rules.minute_seconds, age_seconds)
        if rules.is_fifo:
            shortest = max(shortest, rules.full_hold_seconds[0])
            longest = max(longest, shortest)
        return max(1, shortest + draw_up_to(longest - shortest))

    def grant_claim(self, wanted: int) -> tuple[int, Update]:
        """Return how many of *wanted* replays the limit still allows in this minute, and the claim.

        The limit is spread evenly over the minute: else the first seconds would use it up.
        """
        counter = f"{GRANTED}{self.minute}"
        minute_seconds = self.rules.minute_seconds
        passed_seconds = self.now_seconds % minute_seconds + 1
        allowed = -(-(self.limit or 0) * passed_seconds // minute_seconds)
        count = max(0, min(wanted, allowed - self.numbers.get(counter, 0)))
        return count, Update(add={counter: count}, expect=self._seen("limit", counter))

    def _seen(self, *names: str) -> dict[str, int | None]:
        """Return numbers for ``Update.expect``."""
        return {name: self.numbers.get(name) for name in names}

    def after_pause(self, gathered: int, paused_seconds: int) -> Update:
        """Limit the messages that gathered in the DLQ during a pause, before replay goes on.

        An earlier limit goes on, because no worker watched the consumer meanwhile: 1 becomes full
        when it works. Else the limit is full, by the messages that gathered in a minute. It holds
        for all messages that were sent before now, also for first replays.

        Args:
            gathered: messages that are due in the DLQ, of all its main queues.
            paused_seconds: how long replay was off.
        """
        rules = self.rules
        numbers = self.numbers
        minutes = max(1, paused_seconds / rules.minute_seconds)
        load = math.ceil(rules.full_factor * gathered / minutes)
        is_low = numbers.get("limit") == 1
        full_before = numbers.get("full", 0) if is_low or self.limit else 0
        full = max(rules.full_least, full_before, load)

        put: dict[str, int | None] = {}
        if not full_before:
            put |= dict.fromkeys(_BEFORE)
        put |= {
            "limit": 1 if is_low else full,
            "since": self.now_seconds,
            "full": full,
            "resumed": self.now_seconds,
            "read": self.minute,
        }
        return Update(put=put, expect=self._seen("limit", "since"))

    def renewed_after_pause(self) -> Update | None:
        """Let the limit of ``after_pause`` begin now, as replay does; None if there is none."""
        seen = self._seen("limit", "since")
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

    def judge(self, deletes: Mapping[int, int]) -> Update | None:
        """Set, raise or end the limit; None where there is nothing to write.

        The caller has the ``judgment_claim``.

        Args:
            deletes: ``known_minutes`` of ``rules.metric_range``. Empty: the metric cannot be read.
        """
        numbers = self.numbers
        rules = self.rules
        put: dict[str, int | None] = {}
        complete = self.minute - rules.lag - 1
        newest = max((minute for minute in deletes if minute <= complete), default=None)
        is_readable = newest is not None and newest >= complete - rules.unread
        unread = 0 if is_readable else self.minute - numbers.get("read", self.minute)

        is_over = self.limit is None or unread >= rules.unread
        if "limit" in numbers and is_over:
            put |= dict.fromkeys(_LIMIT)
        if is_over and self._recovered is None:
            put |= dict.fromkeys(name for name in _BEFORE if name in numbers)
        if newest is not None and is_readable:
            put |= self._judged(deletes, newest)

        was_readable = "unread_since" not in numbers
        if is_readable is not was_readable:
            put["unread_since"] = None if is_readable else self.now_seconds
        return Update(put=put, expect={"judged": numbers.get("judged")}) if put else None

    def stale(self, names: Iterable[str]) -> frozenset[str]:
        """Return those of *names* that are counters which no rule reads any more."""
        newest = self.minute - self.rules.lag
        oldest = newest - self.rules.hour
        oldest_read = {ARRIVED: oldest, RETURNED: oldest, TURNED_AWAY: oldest, GRANTED: newest}

        stale = set[str]()
        for name in names:
            kind = name[:1]
            minute = name[1:]
            if kind in oldest_read and minute.isdigit() and int(minute) < oldest_read[kind]:
                stale.add(name)
        return frozenset(stale)

    def _judged(self, deletes: Mapping[int, int], newest: int) -> dict[str, int | None]:
        """Return the numbers of the limit that is due; empty where there is none, and no need."""
        is_limited = self.limit is not None
        if self.limit == 1:
            stretch = self._recent(deletes, newest)
            is_low = not self._works(stretch)
        else:
            stretch = self._judged_by(deletes, newest)
            is_low = stretch.is_enough and self._fails(stretch)
        if not is_limited and not is_low:
            return {}

        put: dict[str, int | None] = {
            "limit": 1,
            "full": self._full(deletes, newest, stretch.usual),
            "usual": stretch.usual,
            "pause": stretch.pause,
            "silent_since": self._silent_since(deletes, newest),
            "read": self.minute,
        }
        if not is_low:
            put |= {"limit": put["full"], "silent_since": None}
        if is_low is not (self.limit == 1):
            put["since"] = self.now_seconds
        if self.limit == 1 and not is_low:
            put["recovered"] = self.now_seconds
        if not is_limited:
            put["began"] = self.now_seconds
        return put

    def _works(self, stretch: "_Stretch") -> bool:
        """Return whether the consumer deleted more than newly failed, or enough of the usual."""
        enough = self.rules.working_share * self._usual_in(stretch)
        is_enough = stretch.deleted > self._newly_failed(stretch) or stretch.deleted >= enough
        return stretch.deleted > 0 and is_enough

    def _fails(self, stretch: "_Stretch") -> bool:
        """Return whether the consumer does not work, so that a limit has to be set.

        Silence alone is no proof: a consumer pauses, is deployed, or has nothing to do. In an
        outage of most of the traffic, messages fail that never failed before.
        """
        rules = self.rules
        newly_failed = self._newly_failed(stretch)
        first = stretch.minutes[0]
        newest = stretch.minutes[-1]
        long_ago = range(first, newest - rules.failing + 2)
        return (
            not self._works(stretch)
            and self._count(RETURNED, range(first, self.minute + 1)) >= rules.least_returns
            and self._count(ARRIVED, long_ago) > 0
            and newly_failed >= rules.least_arrivals
            and newly_failed >= rules.failing_share * self._usual_in(stretch)
        )

    def _newly_failed(self, stretch: "_Stretch") -> int:
        return self._count(ARRIVED, stretch.minutes)

    def _usual_in(self, stretch: "_Stretch") -> float:
        return stretch.usual * len(stretch.minutes) / self.rules.hour

    def _recent(self, deletes: Mapping[int, int], newest: int) -> "_Stretch":
        """Return the newest complete minutes since a limit of 1 was set, as far as they are known.

        Those before it tell less: replays that were on their way succeed now and then in an outage
        in which not every try fails.
        """
        rules = self.rules
        first = max(newest - rules.recovered + 1, rules.minute(self._since) + 1)
        usual = self.numbers.get("usual", 0)
        pause = self.numbers.get("pause", 0)
        return _Stretch.of(deletes, range(first, newest + 1), usual, pause)

    def _judged_by(self, deletes: Mapping[int, int], newest: int) -> "_Stretch":
        """Return the newest minutes that are enough to judge by, or an hour.

        After full, only minutes since then: minutes of an outage tell nothing of the next. The
        usual numbers are those of the hour before these minutes, or were stored before the limit.
        A resume that set the limit did not ask for the metric.
        """
        rules = self.rules
        hour = rules.hour
        since = self._recovered if self.limit is None else self._since
        is_stored = since is not None and "usual" in self.numbers
        oldest = newest - hour + 1
        if since is not None:
            oldest = max(oldest, rules.minute(since) + 1)

        usual = self.numbers.get("usual", 0)
        pause = self.numbers.get("pause", 0)
        stretch = _Stretch((), 0, usual, pause)
        for first in range(newest, oldest - 1, -1):
            if not is_stored:
                before = [deletes[m] for m in range(first - hour, first) if m in deletes]
                if len(before) < rules.least_known:
                    return stretch
                usual = round(sum(before) * hour / max(1, len(before)))
                pause = _longest_pause(before, rules.working_share * usual / hour)

            stretch = _Stretch.of(deletes, range(first, newest + 1), usual, pause)
            length = len(stretch.minutes)
            has_deletes = self._usual_in(stretch) >= rules.judged_deletes
            if has_deletes and length >= rules.failing and length > rules.pauses * pause:
                return replace(stretch, is_enough=True)

        is_an_hour = newest - oldest + 1 >= hour
        is_known = len(stretch.minutes) >= rules.least_known
        return replace(stretch, is_enough=is_an_hour and is_known)

    def _full(self, deletes: Mapping[int, int], newest: int, usual: int) -> int:
        """Return the limit of a queue that recovers: three times its normal load, plus its replays.

        Under a limit of 1 it follows a load that grows, by the hour's mean: the work that waited
        for a consumer that was off may fail at once. Under full it grows where faulty messages come
        back that did not before the limit: else they would be turned away for as long as they come,
        and healthy ones with them. A consumer that does less than its usual work is ill: its
        returns tell nothing of faulty messages.
        """
        rules = self.rules
        hour = range(self.minute - rules.hour, self.minute)
        recent = range(newest - rules.peak + 1, newest + 1)
        arrived = 0.0
        returned = 0.0
        if self.limit is None:
            arrived = self._peak_arrivals(hour)
            returned = self._mean(RETURNED, hour)
        elif self.limit == 1:
            arrived = self._mean(ARRIVED, hour)
        elif recent.start > rules.minute(self._since):
            healthy = rules.healthy_share * usual * rules.peak / rules.hour
            if sum(deletes.get(minute, 0) for minute in recent) >= max(1, healthy):
                arrived = self._mean(ARRIVED, recent)
                returned = self._mean(RETURNED, recent)

        full_before = self.numbers.get("full", 0) if self.limit else 0
        load = math.ceil(rules.full_factor * arrived + returned)
        return max(rules.full_least, full_before, load)

    def _peak_arrivals(self, hour: range) -> float:
        """Return the highest mean of ``rules.peak`` minutes, of all that end in *hour* or now."""
        peak = self.rules.peak
        minutes = range(hour.start - peak, self.minute + 1)
        arrivals = [self._count(ARRIVED, [minute]) for minute in minutes]
        ends = range(peak, len(arrivals))
        return max(sum(arrivals[end - peak + 1 : end + 1]) for end in ends) / peak

    def _silent_since(self, deletes: Mapping[int, int], newest: int) -> int | None:
        """Return the end of the last minute with a delete; None if that is the newest one."""
        last = min(deletes) - 1
        for minute, count in deletes.items():
            if count and minute <= newest:
                last = max(last, minute)
        return None if last == newest else (last + 1) * self.rules.minute_seconds

    @property
    def _recovered(self) -> int | None:
        """The time when a limit of 1 became full, if within the last hour."""
        recovered = self.numbers.get("recovered", 0)
        is_recent = self.rules.minute(recovered) > self.minute - self.rules.hour
        return recovered if is_recent else None

    @property
    def _resumed(self) -> int:
        return self.numbers.get("resumed", 0)

    @property
    def _since(self) -> int:
        return self.numbers.get("since", self.now_seconds)

    def _count(self, kind: str, minutes: Iterable[int]) -> int:
        return sum(self.numbers.get(f"{kind}{minute}", 0) for minute in minutes)

    def _mean(self, kind: str, minutes: range) -> float:
        return self._count(kind, minutes) / len(minutes)


def was_replayed(message: Message) -> bool:
    """Return whether a dead letter came back, and is no new arrival.

    One that a limit let through may have its old counter, 0; its mark says that it was replayed.
    """
    history = message.history
    return bool(history.replay_count) or history.context.held_seconds is not None


def is_first_look(message: Message, rules: BreakerRules) -> bool:
    """Return whether SQS has handed out a copy for the first time since it moved it to the DLQ.

    Always so on a standard queue, where a copy leaves the DLQ when it was looked at.
    """
    if rules.main_receives is None:
        return True
    received = message.receive_count
    return received is not None and received <= rules.main_receives + 1


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Minutes by which a consumer is judged.

    Attributes:
        minutes: those of which the metric is known, in their order.
        deleted: in all of them.
        usual: deletes in an hour.
        pause: the longest that is usual without a delete, minutes.
        is_enough: whether they are enough to judge by.
    """

    minutes: Sequence[int]
    deleted: int
    usual: int
    pause: int
    is_enough: bool = False

    @classmethod
    def of(cls, deletes: Mapping[int, int], within: range, usual: int, pause: int) -> "_Stretch":
        minutes = [minute for minute in within if minute in deletes]
        deleted = sum(map(deletes.__getitem__, minutes))
        return cls(minutes, deleted, usual, pause)


def _longest_pause(deleted: Sequence[int], least: float) -> int:
    """The most minutes in a row that have no delete, or fewer than *least* a minute on average."""
    # A stretch is a pause if the balance, deletes less the least, is lower after it than before it.
    # It can only begin where the balance is higher than ever before.
    balance = 0.0
    highest = -math.inf
    starts: list[tuple[float, int]] = []
    longest = 0
    length = 0
    for end, count in enumerate(deleted):
        if balance > highest:
            highest = balance
            starts.append((balance, end))
        balance += count - least
        start = next((start for high, start in starts if high > balance), end + 1)
        length = 0 if count else length + 1
        longest = max(longest, length, end + 1 - start)
    return longest
