"""The circuit breaker: when replays pause, what is tried meanwhile, how they resume. Pure.

One breaker guards the dead letters of one source queue that failed with one type of error. While
nearly all first replays come back, it is *open* and messages are held instead of replayed; one
*probe* a minute goes through. After three good probes it closes, and a *ramp* limits how fast the
held messages go back. ``docs/decisions/0004-circuit-breaker.md`` says why.

All workers share a breaker's state, one item of the failure table. They count into it, and change
it only where it is still as they saw it. So ``BreakerState`` is a value, ``Update`` is the change
that a worker wants, and ``apply`` says what becomes of it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import accumulate

UNKNOWN_ERROR = "unknown"
"""The error type of messages whose consumer recorded none."""

SENT, RETURNED, ARRIVED, RELEASED, RETURN_TIMES = "s", "b", "n", "g", "t"
"""What counters are named by: kind and slot, as in ``s29650123``. ``t`` has a bucket, no slot."""

_PROBE = "p"
_BUCKETS = 12


@dataclass(frozen=True, slots=True)
class BreakerRules:
    """Every threshold and duration of the breaker. Durations are in seconds, shares in percent.

    Attributes:
        slot_seconds: what is counted together.
        window_slots: first replays of at most so many consecutive slots are judged together.
        kept_slots: older counts are forgotten.
        open_count: first replays that a judgment needs at least.
        open_percent: the breaker opens when so many of them have returned.
        metric_lag_seconds: the age from which the numbers of a queue's metric are complete.
        hold_min_seconds: a hold is at least so long once the breaker has been open for as long as
            the longest hold.
        hold_max_seconds: the longest hold.
        fifo_hold_min_seconds: a hold on FIFO is at least so long; each look counts as a receive.
        hold_limit_seconds: how long one message is held in total.
        probe_seconds: between two probes.
        good_probes: so many in a row close the breaker.
        return_seconds: a probe is good if it has not come back after this long; used until enough
            return times are known.
        ramp_factor: the ramp begins at so many times the rate at which dead letters arrived while
            the breaker was open, which is the normal load where everything failed.
        ramp_max_factor: it never exceeds so many times that rate.
        ramp_min_count: replays in a slot that the ramp allows at least.
        ramp_growth_percent: how much it grows in each ``ramp_growth_seconds``.
        ramp_growth_seconds: see above.
        few_percent: it grows while no more than so many first replays have returned.
    """

    slot_seconds: int = 60
    window_slots: int = 10
    kept_slots: int = 60
    open_count: int = 20
    open_percent: int = 80
    metric_lag_seconds: int = 180
    hold_min_seconds: int = 450
    hold_max_seconds: int = 900
    fifo_hold_min_seconds: int = 300
    hold_limit_seconds: int = 12 * 3600
    probe_seconds: int = 60
    good_probes: int = 3
    return_seconds: int = 210
    ramp_factor: int = 2
    ramp_max_factor: int = 3
    ramp_min_count: int = 60
    ramp_growth_percent: int = 10
    ramp_growth_seconds: int = 300
    few_percent: int = 20

    def slot(self, seconds: int) -> int:
        """The slot that holds the moment *seconds*, epoch seconds."""
        return seconds // self.slot_seconds


class Phase(StrEnum):
    """What a breaker does with a message that the rules would replay."""

    CLOSED = "closed"
    """It goes."""

    OPEN = "open"
    """It is held, unless it is the probe."""

    RAMP = "ramp"
    """So many a minute go, the others are held."""


@dataclass(frozen=True, slots=True)
class BreakerState:
    """One breaker as one read of its item showed it. A breaker without an item is closed.

    Attributes:
        numbers: counters, and moments in epoch seconds, by the names that they have in the item.
        probes: message ids of confirmed probes, by the moment at which each could be received.
    """

    numbers: Mapping[str, int] = field(default_factory=dict)
    probes: Mapping[int, str] = field(default_factory=dict)

    @property
    def phase(self) -> Phase:
        """Which of the three it is in."""
        if "opened_at" in self.numbers:
            return Phase.OPEN
        return Phase.RAMP if "ramp" in self.numbers else Phase.CLOSED

    def count(self, kind: str, slots: Iterable[int]) -> int:
        """What was counted of *kind* in *slots* together."""
        return sum(self.numbers.get(f"{kind}{slot}", 0) for slot in slots)


@dataclass(frozen=True, slots=True)
class BreakerView:
    """What a worker knows of the breakers while it decides on one batch.

    Attributes:
        rules: the thresholds and durations.
        now_seconds: the moment for which it decides, epoch seconds.
        types: the error type of each message, by message id.
        names: the breaker of each message, by message id: its error type, or the breaker that is
            shared by all types beyond the first few.
        states: by the name of the breaker; one that is missing is closed.
        grants: how many messages a breaker that is not closed lets through, by its name.
    """

    rules: BreakerRules
    now_seconds: int
    types: Mapping[str, str]
    names: Mapping[str, str]
    states: Mapping[str, BreakerState]
    grants: Mapping[str, int] = field(default_factory=dict)

    def state_of(self, message_id: str) -> BreakerState:
        """The breaker of that message."""
        return self.states.get(self.names[message_id], BreakerState())


@dataclass(frozen=True, slots=True)
class Update:
    """A change of a breaker's item, made as a whole or not at all.

    Attributes:
        add: added to numbers; an absent one counts as 0.
        put: set, over what was there.
        remove: taken away.
        expect: numbers that must still be what they were seen as, None for absent. If one is not,
            nothing of the update is done.
    """

    add: Mapping[str, int] = field(default_factory=dict)
    put: Mapping[str, int | str] = field(default_factory=dict)
    remove: frozenset[str] = frozenset()
    expect: Mapping[str, int | None] = field(default_factory=dict)


def apply(state: BreakerState, update: Update) -> BreakerState | None:
    """What *update* makes of *state*; None where it is not as expected."""
    if any(state.numbers.get(name) != value for name, value in update.expect.items()):
        return None
    numbers = {name: n for name, n in state.numbers.items() if name not in update.remove}
    probes = {at: p for at, p in state.probes.items() if _probe_name(at) not in update.remove}
    for name, more in update.add.items():
        numbers[name] = numbers.get(name, 0) + more
    for name, value in update.put.items():
        if isinstance(value, int):
            numbers[name] = value
        else:
            probes[int(name.removeprefix(_PROBE))] = value
    return BreakerState(numbers, probes)


@dataclass(frozen=True, slots=True)
class Window:
    """First replays of consecutive slots that nearly all came back.

    Attributes:
        slots: when they were sent.
        sent: how many there were.
        returned: how many of them have come back.
        arrived: how many new dead letters came in the same slots.
    """

    slots: range
    sent: int
    returned: int
    arrived: int

    @property
    def percent(self) -> int:
        """The share that has returned; above 100 where a return was counted twice."""
        return 100 * self.returned // self.sent


def tripping_windows(
    state: BreakerState, now_seconds: int, rules: BreakerRules
) -> Iterator[Window]:
    """Yield the windows for which a breaker that is not open should open.

    Nothing counts that was sent before the breaker last closed.
    """
    if state.phase is Phase.OPEN:
        return
    this_slot = rules.slot(now_seconds)
    earliest = max(this_slot - rules.kept_slots, _slot_after_closing(state, rules))
    slots = range(earliest, this_slot + 1)
    # Each once, not again for each window that it is in: this runs in every batch.
    counts = [
        tuple(state.numbers.get(f"{kind}{slot}", 0) for kind in (SENT, RETURNED, ARRIVED))
        for slot in slots
    ]
    for index, first in enumerate(slots):
        if not counts[index][0]:
            continue
        sent = returned = arrived = 0
        window = counts[index : index + rules.window_slots]
        for length, (more_sent, more_returned, more_arrived) in enumerate(window, start=1):
            sent, returned = sent + more_sent, returned + more_returned
            arrived += more_arrived
            if sent >= rules.open_count and 100 * returned >= rules.open_percent * sent:
                yield Window(range(first, first + length), sent, returned, arrived)


def metric_slots(window: Window, rules: BreakerRules) -> range:
    """When the main queue may have handled what was sent along with the window's dead letters.

    A message arrives in the DLQ up to ``return_seconds`` after its first try. Without that time
    the end of a burst would look like an outage: its dead letters come, and nothing is deleted.
    """
    earlier = -(-rules.return_seconds // rules.slot_seconds)
    return range(window.slots.start - earlier, window.slots.stop)


def confirmed_by_metric(
    windows: Iterable[Window], deleted: Mapping[int, int], rules: BreakerRules
) -> Window | None:
    """The first window in which at least as many dead letters arrived as messages were deleted.

    Args:
        windows: of ``tripping_windows``.
        deleted: messages that the main queue deleted, by slot; a slot that is missing is unknown,
            and so is every window with it.
        rules: say which slots belong to a window.
    """
    for window in windows:
        slots = metric_slots(window, rules)
        known = [deleted[slot] for slot in slots if slot in deleted]
        if len(known) == len(slots) and window.arrived >= sum(known):
            return window
    return None


def complete_windows(
    windows: Iterable[Window], now_seconds: int, rules: BreakerRules
) -> list[Window]:
    """Those of *windows* for which the main queue's metric can be complete."""
    end = rules.slot(now_seconds - rules.metric_lag_seconds)
    return [window for window in windows if window.slots.stop <= end]


def metric_claim(state: BreakerState, now_seconds: int, rules: BreakerRules) -> Update | None:
    """The right to read the main queue's metric, which one worker a slot gets; None: not now."""
    last = state.numbers.get("read_at")
    if last is not None and now_seconds - last < rules.slot_seconds:
        return None
    return Update(put={"read_at": now_seconds}, expect={"read_at": last})


def opening(state: BreakerState, window: Window, now_seconds: int) -> Update:
    """Open a breaker for *window*; done once, whoever of the workers comes first.

    What the window had is kept for people, under ``judged_sent`` and ``judged_returned``.
    """
    closed_at = state.numbers.get("closed_at")
    gone = {"ramp", "ramp_max", "ramp_at", "turned_away_at"}
    judged = {name for name in state.numbers if name[0] in "sbg" and name[1:].isdigit()}
    return Update(
        put={
            "opened_at": now_seconds,
            "judged_sent": window.sent,
            "judged_returned": min(window.returned, window.sent),
        },
        remove=frozenset(gone | judged),
        expect={"opened_at": None, "closed_at": closed_at},
    )


def hold_seconds(
    state: BreakerState,
    now_seconds: int,
    rules: BreakerRules,
    draw_up_to: Callable[[int], int],
    *,
    is_fifo: bool,
) -> int:
    """Draw how long a message waits before the next look, at least 1.

    Uniform up to the time since the opening, so that a breaker that opened by mistake delays
    little; once that is the longest hold, not below ``hold_min_seconds``, to save requests. During
    the ramp from half of that up to it, because the last message decides when an outage is over.
    On FIFO the message holds up its group, so during the ramp it waits for the next slot only.
    """
    opened_at = state.numbers.get("opened_at")
    if opened_at is None and is_fifo:
        return rules.slot_seconds + draw_up_to(rules.slot_seconds)
    if opened_at is None:
        shortest, longest = rules.hold_min_seconds // 2, rules.hold_min_seconds
    else:
        longest = min(rules.hold_max_seconds, max(0, now_seconds - opened_at))
        shortest = rules.hold_min_seconds if longest == rules.hold_max_seconds else 0
    if is_fifo:
        shortest = max(shortest, rules.fifo_hold_min_seconds)
        longest = max(longest, shortest)
    return max(1, shortest + draw_up_to(longest - shortest))


def probe_claim(state: BreakerState, now_seconds: int, rules: BreakerRules) -> Update | None:
    """The right to send the next probe; None where none is due.

    A worker that claims and then sends nothing has used it up: the next is due a minute later.
    """
    last = state.numbers.get("probe_at")
    if state.phase is not Phase.OPEN or (
        last is not None and now_seconds - last < rules.probe_seconds
    ):
        return None
    return Update(
        put={"probe_at": now_seconds},
        expect={"probe_at": last, "opened_at": state.numbers["opened_at"]},
    )


def probe_sent(state: BreakerState, message_id: str, visible_at: int) -> Update:
    """Remember a probe that SQS confirmed, and when it can be received at the earliest."""
    # The probe before may have a timer that ends in the same second.
    while visible_at in state.probes:
        visible_at += 1
    return Update(
        put={_probe_name(visible_at): message_id},
        expect={"opened_at": state.numbers.get("opened_at")},
    )


def probe_returned(state: BreakerState, sent_at: int) -> Update:
    """Remember that the probe sent at *sent_at* came back: those up to it count no longer."""
    sent_at = max(sent_at, state.numbers.get("returned_at", 0))
    return Update(
        put={"returned_at": sent_at},
        remove=frozenset(_probe_name(at) for at in state.probes if at <= sent_at),
        expect={"opened_at": state.numbers.get("opened_at")},
    )


def closing(state: BreakerState, now_seconds: int, rules: BreakerRules) -> Update | None:
    """Close an open breaker and begin its ramp; None where too few probes in a row were good."""
    if state.phase is not Phase.OPEN:
        return None
    if len(_good_probes(state, now_seconds, rules)) < rules.good_probes:
        return None
    arrived = _arrivals_per_slot(state, now_seconds, rules)
    gone = {"opened_at", "probe_at", "returned_at", "read_at"}
    counters = {name for name in state.numbers if name[0] in "sbnt" and name[1:].isdigit()}
    return Update(
        put={
            "closed_at": now_seconds,
            "ramp": max(rules.ramp_min_count, rules.ramp_factor * arrived),
            "ramp_max": max(rules.ramp_min_count, rules.ramp_max_factor * arrived),
            "ramp_at": now_seconds,
        },
        remove=frozenset(gone | counters | {_probe_name(at) for at in state.probes}),
        expect={
            "opened_at": state.numbers["opened_at"],
            "returned_at": state.numbers.get("returned_at"),
        },
    )


def closing_slots(state: BreakerState, now_seconds: int, rules: BreakerRules) -> range:
    """When the main queue deleted the good probes, if they were handled; without the last minutes.

    Of those the metric is not complete yet.
    """
    row = _good_probes(state, now_seconds, rules)[-rules.good_probes :]
    return range(rules.slot(min(row)), rules.slot(now_seconds - rules.metric_lag_seconds))


def were_probes_deleted(slots: range, deleted: Mapping[int, int], rules: BreakerRules) -> bool:
    """Whether the main queue *deleted* as many messages as a row of good probes has.

    On FIFO a probe waits in the main queue behind its message group. It may stay away because the
    group fails, and the probe has not been tried. A slot of *slots* that is missing in *deleted* is
    unknown; then they count as deleted.
    """
    known = [deleted[slot] for slot in slots if slot in deleted]
    return len(known) < len(slots) or sum(known) >= rules.good_probes


def ramp_step(state: BreakerState, now_seconds: int, rules: BreakerRules) -> Update | None:
    """End the ramp, or raise its limit; None where neither is due.

    It ends once nobody was turned away for longer than a hold lasts, because all that was held has
    gone; and at the latest when nothing that it holds may be held any longer.
    """
    if state.phase is not Phase.RAMP:
        return None
    ramp_at = state.numbers.get("ramp_at", 0)
    closed_at = state.numbers.get("closed_at", 0)
    quiet_since = max(closed_at, state.numbers.get("turned_away_at", 0))
    is_quiet = now_seconds - quiet_since > rules.hold_max_seconds + rules.slot_seconds
    if is_quiet or now_seconds - closed_at > rules.hold_limit_seconds:
        gone = frozenset({"ramp", "ramp_max", "ramp_at", "turned_away_at"})
        return Update(remove=gone, expect={"ramp_at": ramp_at, "opened_at": None})
    slots = range(
        max(rules.slot(now_seconds) - rules.window_slots, _slot_after_closing(state, rules)),
        rules.slot(now_seconds) + 1,
    )
    few = rules.few_percent * state.count(SENT, slots) >= 100 * state.count(RETURNED, slots)
    if now_seconds - ramp_at < rules.ramp_growth_seconds or not few:
        return None
    ramp = state.numbers["ramp"]
    grown = min(
        state.numbers.get("ramp_max", ramp),
        -(-ramp * (100 + rules.ramp_growth_percent) // 100),
    )
    return Update(
        put={"ramp": grown, "ramp_at": now_seconds},
        expect={"ramp_at": ramp_at, "opened_at": None},
    )


def release_claim(
    state: BreakerState, wanted: int, now_seconds: int, rules: BreakerRules
) -> tuple[int, Update]:
    """How many of *wanted* replays the ramp allows now, and the claim of them.

    The limit of a slot is spread evenly over it.
    """
    slot, into_slot = divmod(now_seconds, rules.slot_seconds)
    name = f"{RELEASED}{slot}"
    so_far = state.numbers.get("ramp", 0) * (into_slot + 1) // rules.slot_seconds
    count = max(0, min(wanted, so_far - state.numbers.get(name, 0)))
    expect = {name: state.numbers.get(name), "closed_at": state.numbers.get("closed_at")}
    return count, Update(add={name: count}, expect={**expect, "opened_at": None})


def return_time_counter(seconds: int, rules: BreakerRules) -> str:
    """The counter for a first replay that came back after *seconds*: its slots, to a power of 2."""
    slots = -(-max(0, seconds) // rules.slot_seconds)
    return f"{RETURN_TIMES}{min(max(0, slots - 1).bit_length(), _BUCKETS - 1)}"


def stale_names(state: BreakerState, now_seconds: int, rules: BreakerRules) -> frozenset[str]:
    """The counters that no rule reads any more, and good probes beyond those that close."""
    kept_from = rules.slot(now_seconds) - rules.kept_slots
    counters = {
        name
        for name in state.numbers
        if name[0] in "sbng" and name[1:].isdigit() and int(name[1:]) < kept_from
    }
    surplus = _good_probes(state, now_seconds, rules)[: -rules.good_probes]
    return frozenset(counters | {_probe_name(at) for at in surplus})


def _good_probes(state: BreakerState, now_seconds: int, rules: BreakerRules) -> list[int]:
    """The moments of the probes in a row that have stayed away for long enough, in order."""
    returned_at = state.numbers.get("returned_at", 0)
    good_from = now_seconds - _return_seconds(state, rules)
    return sorted(at for at in state.probes if returned_at < at <= good_from)


def _return_seconds(state: BreakerState, rules: BreakerRules) -> int:
    """What 95 % of the return times seen do not exceed."""
    counts = [state.numbers.get(f"{RETURN_TIMES}{bucket}", 0) for bucket in range(_BUCKETS)]
    if sum(counts) < rules.open_count:
        return rules.return_seconds
    enough = -(-95 * sum(counts) // 100)
    bucket = next(i for i, total in enumerate(accumulate(counts)) if total >= enough)
    return rules.slot_seconds << bucket


def _arrivals_per_slot(state: BreakerState, now_seconds: int, rules: BreakerRules) -> int:
    """The mean of the last hour, or of the time since the opening where that is shorter."""
    this_slot = rules.slot(now_seconds)
    opened = rules.slot(state.numbers["opened_at"])
    slots = range(max(opened, this_slot - rules.kept_slots), max(opened + 1, this_slot))
    return -(-state.count(ARRIVED, slots) // len(slots))


def _slot_after_closing(state: BreakerState, rules: BreakerRules) -> int:
    closed_at = state.numbers.get("closed_at")
    return 0 if closed_at is None else rules.slot(closed_at) + 1


def _probe_name(visible_at: int) -> str:
    return f"{_PROBE}{visible_at}"
