"""What one worker does for the circuit breakers of its queue: count, claim, open and close.

``breaker`` has the rules. A worker keeps what it counted until it may write it, at most once a
second, and what it last read. Where the table fails it goes on with what it knows for a minute;
then it does as if there were no breaker. It never raises for what the table does.
"""

import math
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from dlq_replay.breaker import (
    ARRIVED,
    RETURNED,
    SENT,
    UNKNOWN_ERROR,
    BreakerRules,
    BreakerState,
    BreakerView,
    Phase,
    Update,
    Window,
    closing,
    closing_slots,
    complete_windows,
    confirmed_by_metric,
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
    were_probes_deleted,
)
from dlq_replay.decision import Hold, Replay
from dlq_replay.errors import BreakerTableError
from dlq_replay.failures import Failure
from dlq_replay.message import Message
from dlq_replay.outgoing import is_counted_return
from dlq_replay.plan import Passage, Step
from dlq_replay.retry import awake_seconds
from dlq_replay.sending import Confirmed, SendResult

OTHER_ERRORS = "other"
"""The breaker of all error types beyond the first eight."""

BEHIND_FAILURE = "dlq_replay.consumer.errors.BehindFailureError"
"""The error type of a FIFO message that was not tried, because one of its group failed before it.

It has no breaker of its own. It returns as long as any message before it fails, for whatever
reason, so a single faulty message could keep such a breaker open for all groups.
"""

MAX_TYPES = 8
MAX_ITEMS = 4
"""Items that one round of writes counts into."""

MAX_RETURNS = 1000
"""Ids of returned messages that a worker remembers, the newest."""

READ_SECONDS = 2.0
WRITE_SECONDS = 1.0
PAUSE_SECONDS = 5.0
"""How long nothing is asked of a table that failed."""

BLIND_SECONDS = 60.0
"""How long the last known state is acted upon."""

ReadDeletions = Callable[[int, int], Mapping[int, int]]
"""Messages that the main queue deleted between two moments, epoch seconds: by slot, without those
that the metric does not have. Empty where it cannot be read; never raises."""


class BreakerTable(Protocol):
    """The breakers of one source queue. ``breaker_table.DynamoDbBreakers`` is one.

    Each method raises BreakerTableError where the table is missing, refuses or does not answer.
    """

    def read(
        self, names: Iterable[str], *, is_consistent: bool = False
    ) -> tuple[frozenset[str], Mapping[str, BreakerState]]:
        """Read the error types that have a breaker, their breakers, and those of *names*."""

    def register(self, types: Sequence[str], room: int) -> frozenset[str]:
        """Give *types* breakers of their own if at most *room* types have one; say which do."""

    def update(self, name: str, update: Update) -> tuple[bool, BreakerState]:
        """Change a breaker; whether that was done, and what its state is now."""


@dataclass(frozen=True, slots=True)
class BreakerReport:
    """What a batch had to do with the breakers.

    Attributes:
        is_open: whether one of them is open, as far as the worker knows.
        held: how many messages were held for them.
        events: which of them this worker opened or closed, and why, a line each.
        fault: why the table cannot be used, when that was first noticed; else None.
    """

    is_open: bool
    held: int
    events: tuple[str, ...] = ()
    fault: str | None = None


class BreakerWorker:
    """The breakers of one source queue, as one execution environment works with them.

    Not safe to share between threads: an environment has one invocation at a time.

    Args:
        table: their state.
        rules: thresholds and durations.
        read_deletions: the metric of the main queue.
        max_receive_count: of the main queue on FIFO, where the receive count says which look is
            the first; None on standard queues.
        clock_seconds: see ``awake_seconds``.
    """

    def __init__(
        self,
        table: BreakerTable,
        rules: BreakerRules,
        read_deletions: ReadDeletions,
        max_receive_count: int | None = None,
        clock_seconds: Callable[[], float] = awake_seconds,
    ) -> None:
        self._table, self._rules, self._read_deletions = table, rules, read_deletions
        self._max_receive_count, self._clock_seconds = max_receive_count, clock_seconds
        self._types: frozenset[str] = frozenset()
        self._states: dict[str, BreakerState] = {}
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._turned_away: dict[str, int] = {}
        self._came_back: deque[str] = deque(maxlen=MAX_RETURNS)
        self._returned: dict[str, int] = {}
        self._read_at = self._wrote_at = self._claimed_at = self._paused_until = -math.inf
        self._writes_fail_since: float | None = None
        self._fault: str | None = None
        self._is_fault_new = False

    def look(
        self, messages: Sequence[Message], failures: Mapping[str, Failure], now_seconds: int
    ) -> BreakerView | None:
        """Count the dead letters that are new here, and say what is known of their breakers.

        None where nothing is known: then all is as without a breaker.
        """
        came_back = [
            one.message_id
            for one in messages
            if (one.history.replay_count or 0) > 0 and self._is_first_look(one)
        ]
        self._came_back.extend(came_back)
        self._refresh(has_returns=bool(came_back))
        if self._is_blind():
            return None
        types = {one.message_id: _error_type(one, failures) for one in messages}
        self._register(types.values())
        names = {message_id: self._name(error_type) for message_id, error_type in types.items()}
        view = BreakerView(self._rules, now_seconds, types, names, dict(self._states))
        for message in messages:
            self._count_look(message, view)
        return view

    def wants_candidates(self, view: BreakerView) -> bool:
        """Whether a breaker that is not closed might let a message through now."""
        return any(
            probe_claim(state, view.now_seconds, self._rules)
            or (state.phase is Phase.RAMP and self._may_claim_release())
            for state in map(view.states.get, set(view.names.values()))
            if state is not None
        )

    def claim(self, view: BreakerView, candidates: Mapping[str, int]) -> BreakerView:
        """Claim probes and the share of ramps, for so many *candidates* of each breaker."""
        grants = {}
        may_release = self._may_claim_release()
        for name, wanted in candidates.items():
            state = self._states[name]
            if state.phase is Phase.RAMP and may_release:
                grants[name] = self._claim_release(name, wanted, view.now_seconds)
            elif claim := probe_claim(state, view.now_seconds, self._rules):
                grants[name] = 1 if self._update(name, claim) else 0
        return replace(view, grants=grants)

    def finish(
        self, steps: Sequence[Step], results: Mapping[str, SendResult], view: BreakerView | None
    ) -> BreakerReport:
        """Count what was sent, confirm the probe, write, and open or close what is due.

        *view* is what ``look`` gave for the batch; where it gave None, nothing is done.
        """
        fault = self._fault if self._is_fault_new else None
        self._is_fault_new = False
        if view is None:
            return BreakerReport(is_open=False, held=0, fault=fault)
        self._count_steps(steps, results, view)
        self._find_returned_probes()
        for name, sent_at in list(self._returned.items()):
            if self._update(name, probe_returned(self._state(name), sent_at)) is not None:
                del self._returned[name]
        events: list[str] = []
        if self._may_write():
            written = self._write_counts(view.now_seconds)
            for name in sorted({*view.names.values(), *written}):
                events.extend(self._change_phase(name, view.now_seconds))
        held = sum(step.passage is Passage.HELD for step in steps)
        return BreakerReport(self._is_any_open(), held, tuple(events), fault)

    def _refresh(self, *, has_returns: bool) -> None:
        """Read the breakers, but not twice in two seconds.

        A returned message may be a probe that another worker sent a moment ago. So while a breaker
        is open, the table is read for each batch with such a message, consistently.
        """
        clock = self._clock_seconds()
        may_be_probe = has_returns and self._is_any_open()
        read_from = self._read_at + (0 if may_be_probe else READ_SECONDS)
        if clock < max(read_from, self._paused_until):
            return
        names = {UNKNOWN_ERROR, OTHER_ERRORS, *self._types}
        try:
            self._types, read = self._table.read(names, is_consistent=has_returns)
        except BreakerTableError as error:
            self._note_failure(error)
        else:
            self._states, self._read_at = dict(read), clock

    def _is_blind(self) -> bool:
        clock = self._clock_seconds()
        if clock - self._read_at > BLIND_SECONDS:
            return True
        if self._writes_fail_since is None or clock - self._writes_fail_since <= BLIND_SECONDS:
            return False
        return self._update(UNKNOWN_ERROR, Update()) is None

    def _register(self, types: Iterable[str]) -> None:
        new = [one for one in dict.fromkeys(types) if one not in {*self._types, UNKNOWN_ERROR}]
        room = MAX_TYPES - len(self._types)
        if not (new and room > 0 and self._may_write()):
            return
        self._wrote_at = self._clock_seconds()
        try:
            self._types = self._table.register(new[:room], MAX_TYPES - len(new[:room]))
        except BreakerTableError as error:
            self._note_failure(error)

    def _name(self, error_type: str) -> str:
        return error_type if error_type in {*self._types, UNKNOWN_ERROR} else OTHER_ERRORS

    def _count_look(self, message: Message, view: BreakerView) -> None:
        if not self._is_first_look(message):
            return
        count, context = message.history.replay_count, message.history.context
        replayed_at = context.first_replay_seconds
        this_slot = self._rules.slot(view.now_seconds)
        if count == 0 and context.plan_id is None:
            self._counts[view.names[message.message_id]][f"{ARRIVED}{this_slot}"] += 1
        elif count == 1 and replayed_at is not None:
            slot = self._rules.slot(replayed_at)
            if this_slot - self._rules.kept_slots <= slot <= this_slot:
                counts = self._counts[self._name(context.error_type or UNKNOWN_ERROR)]
                counts[f"{RETURNED}{slot}"] += 1
                counts[return_time_counter(view.now_seconds - replayed_at, self._rules)] += 1

    def _find_returned_probes(self) -> None:
        """Find the probes among the messages that came back, now or in an earlier batch.

        A consumer that fails at once returns a probe before its sender has stored the id. So the
        ids of messages that came back are compared again with what later reads show.
        """
        for name, state in self._states.items():
            for sent_at, probe_id in state.probes.items():
                if probe_id in self._came_back:
                    self._returned[name] = max(sent_at, self._returned.get(name, 0))

    def _is_first_look(self, message: Message) -> bool:
        """Whether the message is new in the DLQ: a held copy is not, and was counted before."""
        if self._max_receive_count is None:
            return message.due_seconds is None
        received = message.system.get("ApproximateReceiveCount", "")
        return received.isdigit() and int(received) <= self._max_receive_count + 1

    def _count_steps(
        self, steps: Sequence[Step], results: Mapping[str, SendResult], view: BreakerView
    ) -> None:
        for step in steps:
            message_id = step.record.message_id
            if not isinstance(step.fate, Replay | Hold):
                continue
            name, phase = view.names[message_id], view.state_of(message_id).phase
            if step.passage is Passage.HELD and phase is Phase.RAMP:
                # With no counts, so that it is written where nothing but held copies come.
                self._counts[name].update()
                self._turned_away[name] = view.now_seconds
            result = results.get(message_id)
            if not (isinstance(step.fate, Replay) and isinstance(result, Confirmed)):
                continue
            if step.fate.number == 1 and step.entry is not None and is_counted_return(step.entry):
                self._counts[name][f"{SENT}{self._rules.slot(view.now_seconds)}"] += 1
            if step.passage is Passage.GRANTED and phase is Phase.OPEN:
                visible_at = view.now_seconds + step.fate.delay_seconds
                self._update(name, probe_sent(self._state(name), result.message_id, visible_at))

    def _claim_release(self, name: str, wanted: int, now_seconds: int) -> int:
        """Claim as much as the ramp allows, once more where another worker came first."""
        for _ in range(2):
            state = self._state(name)
            count, claim = release_claim(state, wanted, now_seconds, self._rules)
            if count == 0 or state.phase is not Phase.RAMP:
                break
            self._claimed_at = self._clock_seconds()
            is_done = self._update(name, claim)
            if is_done:
                return count
            if is_done is None:
                break
        return 0

    def _write_counts(self, now_seconds: int) -> Sequence[str]:
        """Write what was counted most of; returns the names of those breakers."""
        self._wrote_at = self._clock_seconds()
        busiest = sorted(self._counts, key=lambda name: -self._counts[name].total())[:MAX_ITEMS]
        for name in busiest:
            counts = self._counts.pop(name)
            turned_away = self._turned_away.get(name)
            put = {} if turned_away is None else {"turned_away_at": turned_away}
            stale = stale_names(self._state(name), now_seconds, self._rules) - counts.keys()
            if self._update(name, Update(add=counts, put=put, remove=stale)) is None:
                self._counts[name].update(counts)
                break
            self._turned_away.pop(name, None)
        return busiest

    def _change_phase(self, name: str, now_seconds: int) -> Iterable[str]:
        state = self._state(name)
        close = closing(state, now_seconds, self._rules)
        if close and self._may_close(name, now_seconds) and self._update(name, close):
            good = self._rules.good_probes
            yield f"circuit breaker closed for {name}: {good} probes in a row did not return"
        step = ramp_step(state, now_seconds, self._rules)
        if step and self._update(name, step) and not step.put:
            yield f"circuit breaker for {name}: all that was held may go"
        window = self._tripping_window(name, now_seconds)
        if window and self._update(name, opening(self._state(name), window, now_seconds)):
            yield (
                f"circuit breaker opened for {name}: {min(100, window.percent)} % of "
                f"{window.sent} first replays returned"
            )

    def _may_close(self, name: str, now_seconds: int) -> bool:
        """Ask the metric on FIFO; False also where another worker has asked in this minute."""
        if self._max_receive_count is None:
            return True
        state = self._state(name)
        slots = closing_slots(state, now_seconds, self._rules)
        claim = metric_claim(state, now_seconds, self._rules)
        if not (slots and claim and self._update(name, claim)):
            return False
        return were_probes_deleted(slots, self._read_slots(slots), self._rules)

    def _read_slots(self, slots: range) -> Mapping[int, int]:
        seconds = self._rules.slot_seconds
        return self._read_deletions(seconds * slots.start, seconds * slots.stop)

    def _tripping_window(self, name: str, now_seconds: int) -> Window | None:
        state = self._state(name)
        windows = list(tripping_windows(state, now_seconds, self._rules))
        if name != UNKNOWN_ERROR:
            return windows[0] if windows else None
        windows = complete_windows(windows, now_seconds, self._rules)
        claim = metric_claim(state, now_seconds, self._rules)
        if not (windows and claim and self._update(name, claim)):
            return None
        slots = [metric_slots(window, self._rules) for window in windows]
        deleted = self._read_slots(
            range(min(one.start for one in slots), max(one.stop for one in slots))
        )
        return confirmed_by_metric(windows, deleted, self._rules)

    def _is_any_open(self) -> bool:
        return any(state.phase is Phase.OPEN for state in self._states.values())

    def _state(self, name: str) -> BreakerState:
        return self._states.get(name, BreakerState())

    def _may_write(self) -> bool:
        clock = self._clock_seconds()
        return clock >= max(self._wrote_at + WRITE_SECONDS, self._paused_until)

    def _may_claim_release(self) -> bool:
        clock = self._clock_seconds()
        return clock >= max(self._claimed_at + WRITE_SECONDS, self._paused_until)

    def _update(self, name: str, update: Update) -> bool | None:
        """Change a breaker: done, or not because it has changed; None where the table failed."""
        if self._clock_seconds() < self._paused_until:
            return None
        try:
            is_done, self._states[name] = self._table.update(name, update)
        except BreakerTableError as error:
            self._note_failure(error)
            if self._writes_fail_since is None:
                self._writes_fail_since = self._clock_seconds()
            return None
        self._writes_fail_since = self._fault = None
        return is_done

    def _note_failure(self, error: BreakerTableError) -> None:
        self._paused_until = self._clock_seconds() + PAUSE_SECONDS
        self._is_fault_new = self._fault is None
        self._fault = str(error)


def _error_type(message: Message, failures: Mapping[str, Failure]) -> str:
    failure, context = failures.get(message.message_id), message.history.context
    if failure is not None and failure.error_type == BEHIND_FAILURE:
        return UNKNOWN_ERROR
    if failure is not None:
        return failure.to_failure_error().type
    is_held = message.due_seconds is not None
    return (context.error_type if is_held else None) or UNKNOWN_ERROR
