"""One game day: sends the test message, watches each joint, cleans up.

Whatever ends it, nothing stays for good. The test message is marked, its counter makes the function
park it, and the next game day or the next drain deletes it from the parked queue.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from dlq_cli.gameday.alarms import (
    RINGING_REASON,
    AlarmState,
    alarm_to_ring,
    judge_alarms,
    judge_job,
    judge_ring,
    judge_topics,
    no_action_taken,
)
from dlq_cli.gameday.joints import (
    RECEIVABLE_MESSAGES,
    Joint,
    Name,
    Report,
    Sighting,
    Verdict,
    failed,
    judge_consumer,
    judge_function,
    judge_parked,
    judge_settings,
    metric_is_missing,
    passed,
    skipped,
    unknown,
    why_not_fed,
)
from dlq_cli.gameday.watch import NotObservedError, Watch
from dlq_cli.stack.facts import Installation, QueueFacts
from dlq_cli.stack.rules import WHY_NOT_DEAD, Finding, Severity, broken, examine, findings
from dlq_cli.stack.survey import survey
from dlq_cli.stack_values import clients_of, read_stack
from dlq_replay.decision import ParkReason
from dlq_replay.gameday import gameday_entry, gameday_of, new_run_id
from dlq_replay.measures import parked_metric
from dlq_replay.message import Message, SendEntry
from dlq_replay.sending import Confirmed, Refused
from spark_reprocess.clients import QueueCounts
from spark_reprocess.errors import InputError
from spark_reprocess.figures import counted

if TYPE_CHECKING:
    from boto3.session import Session

TOTAL_SECONDS = 900.0
FUNCTION_SECONDS = 180.0
"""A batching window of 60 s, the poller's own wait of 20 s, a cold start, and the log's delay."""

SECOND_SIGN_SECONDS = 60.0
"""How long the log and the parked queue may differ."""

METRIC_SECONDS = 300.0
RING_SECONDS = 90.0
CONSUMER_MAX_SECONDS = 500.0
"""What the main queue may need to give a message up, so that all fits into 15 minutes."""

_POLL_SECONDS = 2.0
_METRIC_POLL_SECONDS = 10.0
_SWEEP_SECONDS = 10.0
_SWEEP_UNSEEN_SECONDS = 60.0
"""Between sweeps of the parked queue: where the message should be in it, and where nothing says so.
"""

_CLOCKS_DIFFER = timedelta(seconds=30)
"""How much faster than AWS's the clock of this machine may be."""

_SEND_TRIES = 3
_LOG_LEVELS_WITHOUT_PARKED = {"ERROR", "CRITICAL"}
_PARKED_METRIC = parked_metric(ParkReason.ATTEMPTS_EXHAUSTED)


@dataclass(frozen=True, slots=True)
class Clock:
    """The time, and how to let it pass.

    Attributes:
        now: with a time zone.
        sleep: waits so many seconds.
    """

    now: Callable[[], datetime]
    sleep: Callable[[float], object]


@dataclass(slots=True)
class GameDay:
    """One game day of one installation. Make it with ``prepare``; call ``run`` once.

    Attributes:
        run_id: the mark of its message.
        through_consumer: whether the message goes to the main queue instead of the DLQ.
        ringing: the alarm to ring; None to ring none.
        subscribers: how many its topics notify.
    """

    session: "Session"
    watch: Watch
    installation: Installation
    clock: Clock
    run_id: str
    through_consumer: bool = False
    ringing: AlarmState | None = None
    subscribers: int = 0
    _started: datetime = field(init=False)
    _sent_at: datetime = field(init=False)
    _is_sent: bool = False
    _is_removed: bool = False
    _removed_before: int = 0
    _seen: Sighting | None = None

    def __post_init__(self) -> None:
        """Take the time."""
        self._started = self._sent_at = self.clock.now()

    @property
    def target(self) -> QueueFacts:
        """The queue that the test message is sent to."""
        of = self.installation
        return of.main if self.through_consumer else of.dlq

    def run(self, report: Callable[[Joint], object]) -> Report:
        """Go through all joints; clean up, also after an error or Ctrl-C.

        Args:
            report: called with each joint as soon as it is known.
        """
        joints: list[Joint] = []

        def add(joint: Joint) -> None:
            joints.append(joint)
            report(joint)

        self._remove_what_was_left()
        try:
            for joint in self._observe():
                add(joint)
        except BaseException:
            # The caller has to see the error, whatever becomes of this.
            with suppress(NotObservedError):
                self._clean_up()
            raise
        add(self._tried(Name.CLEAN_UP, self._clean_up))
        return Report(
            stack=self.watch.values.stack,
            run_id=self.run_id,
            started_at=self._started.isoformat(),
            message_id=self._seen.message_id if self._seen else None,
            announced=tuple(announcement(self)),
            joints=tuple(joints),
            seconds=self._since(self._started),
        )

    def _observe(self) -> Iterator[Joint]:
        of = self.installation
        bad = [one for one in examine(of) if one.severity is Severity.BROKEN]
        yield judge_settings(bad, of.unknown)
        yield from self._observe_message()
        yield from self._observe_alarms()
        yield self._tried(Name.DRAIN, lambda: judge_job(self.watch.job(of.parked)))
        if self.ringing:
            alarm = self.ringing
            yield self._tried(Name.RING, lambda: self._ring(alarm))

    def _since(self, moment: datetime) -> float:
        return (self.clock.now() - moment).total_seconds()

    def _sleep(self, seconds: float) -> None:
        if self._since(self._started) >= TOTAL_SECONDS:
            raise NotObservedError("not seen yet, and the 15 minutes of a game day are over")
        self.clock.sleep(seconds)

    @staticmethod
    def _tried(name: Name, observe: Callable[[], Joint]) -> Joint:
        try:
            return observe()
        except NotObservedError as error:
            return unknown(name, str(error))

    # --- the message

    def _observe_message(self) -> Iterator[Joint]:
        of, seen = self.installation, None
        first = Name.CONSUMER if self.through_consumer else Name.FUNCTION
        if blockers := self._blockers():
            yield skipped(Name.SENT, f"it would stay in {self.target.name}")
            yield failed(first, "cannot take a message", blockers)
        else:
            entry = gameday_entry(self.run_id, of.settings.policy)
            yield self._send(entry)
            seen = self._seen
        if seen is None:
            rest = (Name.PARKED, Name.METRIC) if blockers else (first, Name.PARKED, Name.METRIC)
            yield from (skipped(one, "no message to watch") for one in rest)
            return
        limit = FUNCTION_SECONDS + (self.consumer_seconds if self.through_consumer else 0.0)
        self._look_for(seen, limit)
        of = of if seen.is_parked or seen.line else self._survey_again()
        judge = judge_consumer if self.through_consumer else judge_function
        yield judge(seen, of, limit)
        parked = judge_parked(seen, entry, of)
        yield parked
        if not seen.is_parked or parked.verdict is Verdict.FAILED:
            yield skipped(Name.METRIC, "nothing was parked as it should be")
        elif seen.line is None and not seen.log_fault:
            yield skipped(Name.METRIC, "metrics are made of the log, which has nothing")
        else:
            yield self._tried(Name.METRIC, self._metric)

    @property
    def consumer_seconds(self) -> float:
        """How long the main queue gives a message to consumers before it is a dead letter."""
        main = self.installation.main
        return main.visibility_timeout_seconds * (main.max_receive_count or 1) + 60.0

    def _blockers(self) -> list[Finding]:
        """Return what would keep a test message where it is sent to, for good."""
        of = self.installation
        found = [] if of.is_fed else why_not_fed(of)
        if self.through_consumer:
            dead = findings(of, WHY_NOT_DEAD)
            found += [one for one in dead if one.severity is Severity.BROKEN]
        return found

    def _survey_again(self) -> Installation:
        """What is wrong now matters, not what was wrong before the message was sent."""
        try:
            return survey(self.session, self.watch.values.stack, peek=False)
        except InputError:
            return self.installation

    def _send(self, entry: SendEntry) -> Joint:
        target, queue = self.target, self.watch.queue(self.target.url)
        self._sent_at, self._is_sent = self.clock.now(), True
        for _ in range(_SEND_TRIES):
            (result,) = queue.send([entry])
            if isinstance(result, Confirmed):
                self._seen = Sighting(result.message_id)
                observed = f"to {target.name} as {result.message_id}"
                return passed(Name.SENT, observed, self._since(self._sent_at))
            if isinstance(result, Refused):
                self._is_sent = False
                fault = f"it does not take your message: {result.text or result.code}"
                fix = "allow sqs:SendMessage to your credentials, and the use of its key"
                return failed(Name.SENT, "refused", [broken(target.name, fault, fix)])
            # No answer. A second copy is recognised and removed like the first.
        return unknown(Name.SENT, f"{target.name} did not answer; the message may be there")

    def _look_for(self, seen: Sighting, limit_seconds: float) -> None:
        """Look at log and parked queue until both show the message, or time is over."""
        until = limit_seconds
        next_sweep = _SWEEP_UNSEEN_SECONDS
        while True:
            self._look_at_log(seen)
            waited = self._since(self._sent_at)
            is_due = bool(seen.log_fault) or (seen.line is not None and seen.line.is_parked)
            if waited >= next_sweep or (is_due and next_sweep == _SWEEP_UNSEEN_SECONDS):
                self._look_into_parked_queue(seen)
                next_sweep = waited + (_SWEEP_SECONDS if is_due else _SWEEP_UNSEEN_SECONDS)
            if seen.is_settled or waited >= until:
                return
            if seen.sees_nothing and waited >= SECOND_SIGN_SECONDS:
                # It is no throttling of some calls, which would have ended by now.
                return
            if seen.is_parked and not seen.is_limit_shortened:
                # One sign is there: the other one follows soon, or not at all.
                seen.is_limit_shortened, until = True, min(until, waited + SECOND_SIGN_SECONDS)
            self.clock.sleep(_POLL_SECONDS)

    def _look_at_log(self, seen: Sighting) -> None:
        level = self.installation.settings.log_level
        if level in _LOG_LEVELS_WITHOUT_PARKED:
            seen.log_fault = f"LogLevel {level} leaves out what is parked"
            return
        # The id is unique, and the clock of this machine may be fast.
        since = self._sent_at - timedelta(minutes=10)
        try:
            line = self.watch.log_line(self.installation.log_group, seen.message_id, since)
        except NotObservedError as error:
            seen.log_fault = str(error)
            return
        seen.log_fault = ""
        if line and line != seen.line:
            seen.line, seen.line_seconds = line, self._since(self._sent_at)

    def _look_into_parked_queue(self, seen: Sighting) -> None:
        parked = self.installation.parked
        try:
            seen.receive_fault = self.watch.why_not_received(parked)
            found = None if seen.receive_fault else self._remove_from(parked)
        except NotObservedError as error:
            seen.receive_fault = str(error)
            return
        if found and seen.copy is None:
            seen.copy, seen.copy_seconds = found, self._since(self._sent_at)

    def _remove_from(self, queue: QueueFacts) -> Message | None:
        """Delete all test messages in *queue*; return that of this game day."""
        swept = self.watch.sweep(queue)
        own = [one for one in swept.tests if gameday_of(one) == self.run_id]
        if own and not set(map(id, own)) & set(map(id, swept.left)):
            self._is_removed = True
        return own[0] if own else None

    def _metric(self) -> Joint:
        began, main = self.clock.now(), self.installation.main.name
        since = self._sent_at - _CLOCKS_DIFFER
        while self.watch.metric_total(_PARKED_METRIC, main, since) < 1:
            if self._since(began) >= METRIC_SECONDS:
                return metric_is_missing(_PARKED_METRIC, METRIC_SECONDS, self.installation)
            self._sleep(_METRIC_POLL_SECONDS)
        return passed(Name.METRIC, f"CloudWatch has {_PARKED_METRIC}", self._since(self._sent_at))

    # --- what is only read, and the alarm that rings

    def _observe_alarms(self) -> Iterator[Joint]:
        try:
            alarms = self.watch.alarms()
        except NotObservedError as error:
            yield unknown(Name.ALARMS, str(error))
            yield unknown(Name.TOPIC, "the alarms could not be read")
            return
        yield judge_alarms(alarms, self.installation.main.name)
        yield self._tried(Name.TOPIC, lambda: judge_topics(self.watch.topics(alarms)))

    def _ring(self, alarm: AlarmState) -> Joint:
        rang_at = self.clock.now()
        self.watch.set_alarm(alarm, "ALARM", f"{RINGING_REASON} {self.run_id}: a test, do nothing")
        while not (results := self.watch.actions(alarm, rang_at - _CLOCKS_DIFFER)):
            if self._since(rang_at) >= RING_SECONDS:
                return no_action_taken(alarm, RING_SECONDS)
            self._sleep(_POLL_SECONDS)
        return judge_ring(alarm, results, self._since(rang_at))

    # --- before and after

    def _remove_what_was_left(self) -> None:
        of = self.installation
        for queue in (of.parked,) if of.is_fed else (of.parked, of.dlq):
            with suppress(NotObservedError):
                if not self.watch.why_not_received(queue):
                    self._removed_before += len(self.watch.sweep(queue).tests)
        with suppress(NotObservedError):
            self._silence()

    def _silence(self) -> None:
        for alarm in self.watch.alarms():
            if alarm.state == "ALARM" and alarm.reason.startswith(RINGING_REASON):
                self.watch.set_alarm(alarm, "OK", f"{RINGING_REASON}: the test is over")

    def _clean_up(self) -> Joint:
        name, of = Name.CLEAN_UP, self.installation
        before = f"; {self._removed_before} of an earlier game day" if self._removed_before else ""
        if self.ringing:
            self._silence()
        if not self._is_sent:
            return passed(name, f"nothing was sent{before}")
        was_parked = self._seen is not None and self._seen.is_parked
        reasons = []
        for queue in (of.parked,) if was_parked else (of.parked, of.dlq):
            if self._is_removed:
                break
            try:
                why = self.watch.why_not_received(queue)
                if not why and self._remove_from(queue) and not self._is_removed:
                    why = f"{queue.name} did not confirm the deletion"
            except NotObservedError as error:
                why = str(error)
            reasons += [why] if why else []
        if self._is_removed:
            return passed(name, f"the test message is deleted{before}")
        if was_parked:
            why = f"{'; '.join(reasons)}: " if reasons else f"{of.parked.name} does not have it; "
            return passed(name, f"{why}the next drain deletes the test message{before}")
        return unknown(
            name,
            f"the test message may still be on its way from {self.target.name}: the function parks "
            f"it, then the next game day or drain deletes it{before}",
        )


def prepare(
    session: "Session", stack: str, clock: Clock, *, through_consumer: bool, ring: bool
) -> GameDay:
    """Read what a game day has to know, and nothing else.

    Raises:
        InputError: the installation cannot be read, no alarm can ring, or the main queue needs too
            long to give a message up.
    """
    installation = survey(session, stack, peek=False)
    watch = Watch(clients_of(session), read_stack(session, stack), clock.now)
    day = GameDay(
        session,
        watch,
        installation,
        clock,
        run_id=new_run_id(clock.now(), secrets.token_hex(4)),
        through_consumer=through_consumer,
    )
    if through_consumer and day.consumer_seconds > CONSUMER_MAX_SECONDS:
        raise InputError(
            f"--through-consumer: {installation.main.name} may take {day.consumer_seconds:.0f} s "
            f"until a message is a dead letter (VisibilityTimeout · maxReceiveCount), and a game "
            f"day waits {CONSUMER_MAX_SECONDS:.0f} s at most; run it without the option"
        )
    if ring:
        try:
            alarms = watch.alarms()
            day.ringing = alarm_to_ring(alarms)
            if day.ringing is None:
                raise InputError("--ring: no alarm of the stack is quiet and has a topic to notify")
            day.subscribers = sum(one.confirmed for one in watch.topics([day.ringing]))
        except NotObservedError as error:
            raise InputError(f"--ring: {error}") from error
    return day


def announcement(day: GameDay) -> list[str]:
    """Return what the game day does, and what it costs."""
    of = day.installation
    parked, count = of.parked.name, QueueCounts.of(of.parked.attributes).visible
    way = f"A test message goes to {day.target.name} and ends in {parked}."
    before = (
        f"before that your consumer has to fail on it, for up to {day.consumer_seconds:.0f} s"
        if day.through_consumer
        else "no consumer sees it"
    )
    receives = (
        f"To find and delete it, all messages of {parked} (about {count}) are received, hidden for "
        "some seconds and given back, a few times at most."
        if count <= RECEIVABLE_MESSAGES
        else f"{parked} has {count:,} messages, so none is received: the next drain deletes the "
        "test message and does not archive it."
    )
    lines = [
        f"{way} It is marked; no message of yours is changed or deleted.",
        f"Its replay count is MaxAttempts, so the function parks it; {before}.",
        receives,
        f"If the function does not take it, it is removed from {of.dlq.name} in the same way.",
        "Log, metrics, alarms, topics, keys and the Spark job are only read.",
        "It takes about 3 minutes, 15 at most, and some hundred requests: below 1 US cent.",
    ]
    if day.ringing:
        lines.insert(-1, who_is_notified(day.ringing, day.subscribers))
    return lines


def who_is_notified(alarm: AlarmState, subscribers: int) -> str:
    """Return whom an alarm notifies."""
    return f"{alarm.name} rings: this notifies {counted(subscribers, 'subscriber')}."
