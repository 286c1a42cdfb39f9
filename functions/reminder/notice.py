"""What a notice says: values of what was read, and their texts for mail and for chat. Pure.

Nothing here is a value of a message, unless the stack's reports show values. A text of the archive
is one line of printable characters, and in chat it is in a code block.
"""

import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto

from dlq_replay.replaying.measures import MAIN_QUEUE_DIMENSION, QUEUE_TAG_DIMENSION

SUBJECT_MAX_CHARACTERS = 100
"""SNS refuses a longer subject: SNS API reference, Publish."""

DESCRIPTION_MAX_CHARACTERS = 8_000
"""Amazon Q Developer in chat applications takes no longer description: "Custom notifications"."""

LOCK_LIFE = timedelta(seconds=120)
"""A run renews its archive lock more often than this. For people: it decides nothing."""

LONGEST_WAIT = timedelta(minutes=20)
"""A ramp that waits for a verdict takes its archive lock again within this time, or ends."""

NEW_FOR = timedelta(hours=25)
"""Time for which a group is new: a notice comes once a day, not to the second."""

NAMED = ("halted", "regressed", "new")
"""Statuses of groups that a notice names, in its order."""

_MOST_GROUPS = 20
"""Groups that the daily notice names, at most."""

_MOST_GROUPS_OF_A_FOLLOW_UP = 5

_MOST_QUEUES = 20
"""Source queues that a notice names, at most."""

_LINE_CHARACTERS = 160
"""Characters of a text from the archive that a notice shows: a title of a report has no more."""

_COLUMNS = 80
"""Width of an e-mail."""

_NOT_KNOWN = "not known"
"""Shown in place of the source queue of a group that has none, or several."""

_WORDS = {MAIN_QUEUE_DIMENSION: "Main queue", QUEUE_TAG_DIMENSION: "Queues with the tag"}
"""The queues of a notice, by the dimension of their metrics."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A notice as it is published.

    Attributes:
        subject: of an e-mail, ASCII.
        text: plain, for e-mail and programs.
        title: for chat. It has no text of the archive.
        description: the text for chat.
    """

    subject: str
    text: str
    title: str
    description: str


@dataclass(frozen=True, slots=True)
class Group:
    """A group of dead letters with pending messages.

    Attributes:
        status: a notice names the group if this is one of ``NAMED``.
        count: its messages at the last analysis.
        report_id: the report that has its texts.
        title, difference: its words in that report; empty if not known, or not to be shown.
        queue: the name of its source queue; empty if it is not known.
    """

    status: str
    group_id: str
    count: int
    first_seen_at: datetime
    report_id: str
    title: str = ""
    difference: str = ""
    queue: str = ""


class RedriveState(Enum):
    """State of a redrive that has not ended."""

    SENDING = auto()  # it holds the archive lock
    WAITING = auto()  # it gave the lock back, to wait for the verdict on a step
    STOPPED = auto()  # nothing was heard of it for too long: it was killed, or its machine sleeps


@dataclass(frozen=True, slots=True)
class QueueStep:
    """The newest step of a ramp to one queue.

    Attributes:
        messages: of this step.
        proven: messages of the same groups in good steps before it.
        left: messages of the same groups behind it.
        is_sent: whether all of the step is sent.
    """

    queue: str
    number: int
    messages: int
    proven: int
    left: int
    is_sent: bool


@dataclass(frozen=True, slots=True)
class Redrive:
    """A redrive that has not ended.

    Attributes:
        who: the person who started it, as the archive names them.
        began_at: by the clock of the machine that runs it.
        heard_at: when it last changed its archive lock.
        steps: of its plan's ramps, those of the newest queues first; empty without a ramp.
        more_queues: queues with a ramp that are not in *steps*.
        failed_again: messages of the plan that had failed again when they were last counted.
    """

    state: RedriveState
    plan_id: str
    who: str
    began_at: datetime
    heard_at: datetime
    steps: Sequence[QueueStep] = ()
    more_queues: int = 0
    failed_again: int = 0

    def text(self) -> str:
        """Return a sentence on the redrive, and a line for each queue of *steps*."""
        by = f"plan {self.plan_id}, started by {self.who}, {_minute(self.began_at)}"
        match self.state:
            case RedriveState.SENDING:
                sentence = f"A redrive is under way: {by}."
            case RedriveState.WAITING:
                sentence = f"A redrive waits to see whether its last step fails again: {by}."
            case RedriveState.STOPPED:
                sentence = (
                    f"A redrive stopped without an end, last heard of {_minute(self.heard_at)}: "
                    f"{by}. The next redrive goes on with what is left."
                )

        lines = [_wrapped(sentence)]
        for step in self.steps:
            progress = "is sent" if step.is_sent else "has begun"
            line = (
                f"  {step.queue}: step {step.number} ({_counted(step.messages, 'message')}) "
                f"{progress}; {step.proven:,} in good steps before it, {step.left:,} left"
            )
            lines.append(_wrapped(line))
        if self.more_queues:
            lines.append(f"  and to {_counted(self.more_queues, 'more queue')}")
        if self.failed_again:
            lines.append(f"  Failed again, when last counted: {self.failed_again:,}")
        return "\n".join(lines)


def redrive_state(
    *, is_released: bool, is_recorded: bool, has_ended: bool, quiet: timedelta
) -> RedriveState | None:
    """Return the state of the run that had the newest archive lock; None if it has ended.

    Args:
        is_released: whether the run gave the lock back.
        is_recorded: whether the archive has a record of the run.
        has_ended: whether the run was closed.
        quiet: how long ago the run changed its lock, by the clock of S3.
    """
    if has_ended:
        return None
    if not is_released:
        return RedriveState.SENDING if quiet < LOCK_LIFE else RedriveState.STOPPED
    # It was refused before it recorded anything.
    if not is_recorded:
        return None
    return RedriveState.WAITING if quiet < LONGEST_WAIT else RedriveState.STOPPED


@dataclass(frozen=True, slots=True)
class Waiting:
    """Messages that wait for a decision.

    Attributes:
        dimension: the dimension of the stack's metrics: of a main queue, or of a fleet's tag.
        queues: the name of the main queue, or the value of the tag.
        stack: the name of the stack.
        parked: approximate number of messages in the parked queues.
        groups: groups of the last analysis. None where no analysis left a record.
        pending: messages in the archive without a decision, at the end of the last run of the
            job; None where no run left a record.
        oldest_pending_seconds: how long the oldest of them had waited then.
        blocked: pending messages of a FIFO queue that wait behind another of their message group.
        blockers: ids of the messages that most others wait for, each with the number of others.
        drained_at: when the last run that emptied the parked queue began; None as above.
        parked_queue: name of the parked queue with most messages, if ``dlq look`` does not take it
            by itself; else empty.
        archive: the place of the archive; empty for a stack without one.
        analyzed_at: the time of the last analysis; None where none left a record.
        redrive: a redrive that has not ended; None if there is none, or if that is not known.
    """

    dimension: str
    queues: str
    stack: str
    parked: int
    groups: Sequence[Group] | None = None
    pending: int | None = None
    oldest_pending_seconds: int = 0
    blocked: int = 0
    blockers: Sequence[tuple[str, int]] = ()
    drained_at: datetime | None = None
    parked_queue: str = ""
    archive: str = ""
    analyzed_at: datetime | None = None
    redrive: Redrive | None = None

    @property
    def named(self) -> list[Group]:
        """The groups that a notice names, in its order."""
        named = [group for group in self.groups or () if group.status in NAMED]
        return sorted(
            named, key=lambda group: (NAMED.index(group.status), -group.count, group.group_id)
        )

    @property
    def by_queue(self) -> dict[str, list[Group]]:
        """The groups of each source queue; first the queue with most groups that a notice names.

        Empty for a stack with one queue.
        """
        by_queue = defaultdict[str, list[Group]](list)
        for group in self.groups or ():
            by_queue[group.queue or _NOT_KNOWN].append(group)
        if self.dimension == MAIN_QUEUE_DIMENSION and len(by_queue) == 1:
            return {}

        named = Counter(group.queue or _NOT_KNOWN for group in self.named)
        names = sorted(by_queue, key=lambda name: (-named[name], -_messages(by_queue[name]), name))
        return {name: by_queue[name] for name in names}

    @property
    def is_due(self) -> bool:
        """True if a daily notice is due, also for parked messages, which no earlier one named.

        Groups of other statuses were named before.
        """
        if self.parked > 0:
            return True
        if self.groups is None:
            return bool(self.pending)
        return bool(self.named)


def daily_notice(waiting: Waiting) -> Notice:
    """Return the daily notice: counts, a redrive, queues, groups, and what to do."""
    headline = _headline(waiting)

    def text(most_groups: int) -> str:
        heading = "Groups, each with its messages at the last analysis:"
        return _paragraphs(
            _counts(waiting),
            _redrive(waiting),
            _queues(waiting),
            _groups(waiting, heading, most_groups),
            _next_steps(waiting, _daily_command(waiting)),
            _DAILY,
        )

    return _notice(headline, _subject(waiting, headline), text, _MOST_GROUPS)


def alarm_notice(waiting: Waiting, alarm: str) -> Notice:
    """Return the follow-up to an alarm: what the alarm's own text cannot say.

    *alarm* is the name of the alarm.
    """
    counts = [f"{waiting.parked:,} parked"]
    if waiting.pending is not None:
        counts.append(f"{waiting.pending:,} pending")
    headline = f"Follow-up to an alarm: {', '.join(counts)}"

    opening = f"{line_of(alarm)} is in ALARM. Its own notice says what to do first."
    if waiting.redrive:
        opening += " What arrives may be what a redrive has sent: see below."
    heading = ""
    if waiting.analyzed_at:
        heading = (
            f"Groups of the last analysis, {_minute(waiting.analyzed_at)}, each with its messages "
            "then. What came since is not counted:"
        )

    def text(most_groups: int) -> str:
        return _paragraphs(
            _wrapped(opening, indent=""),
            _counts(waiting),
            _redrive(waiting),
            # With what just arrives unexplained, no group has a command.
            _groups(waiting, heading, most_groups, has_commands=False),
            _next_steps(waiting, _alarm_command(waiting)),
        )

    subject = _ascii(f"{headline}, {_WORDS[waiting.dimension].lower()} {waiting.queues}")
    return _notice(headline, subject, text, _MOST_GROUPS_OF_A_FOLLOW_UP)


def run_notice(waiting: Waiting) -> Notice:
    """Return the follow-up to a run, whose groups are those that its analysis changed."""
    headline = _headline(waiting)
    opening = (
        "A run of the Spark job has ended. By its analysis these groups are halted, regressed or "
        "new, and were not so before."
    )

    def text(most_groups: int) -> str:
        return _paragraphs(
            _wrapped(opening, indent=""),
            _counts(waiting),
            _redrive(waiting),
            _groups(waiting, "", most_groups),
            _next_steps(waiting, _SEE_GROUPS),
        )

    return _notice(headline, _subject(waiting, headline), text, _MOST_GROUPS_OF_A_FOLLOW_UP)


def failure_notice(job: str, run_id: str, state: str, exit_code: str) -> Notice:
    """Return the notice of a failed run. *exit_code* is empty if it is not known."""
    lines = [f"Job: {line_of(job)}", f"Run: {line_of(run_id)}", f"State: {line_of(state)}"]
    if exit_code in _MEANINGS:
        lines.append(f"Exit code: {exit_code}, {_MEANINGS[exit_code]}")
    text = "\n".join([*lines, "", "No message is lost: the next run continues."])

    title = f"The scheduled run over the parked queue ended as {line_of(state)}"
    return Notice(_ascii(title), text, title, _for_chat(text))


def news(groups: Sequence[Group], before: Sequence[Group]) -> list[Group]:
    """Return the groups that a notice names, and that had another status before, or none."""
    statuses = {group.group_id: group.status for group in before}
    return [
        group
        for group in groups
        if group.status in NAMED and statuses.get(group.group_id) != group.status
    ]


def line_of(text: object) -> str:
    """Return a text of the archive in one line without control characters, cut if it is long.

    Raises:
        TypeError: it is no text.
    """
    if not isinstance(text, str):
        raise TypeError(type(text).__name__)
    printable = "".join(character if character.isprintable() else " " for character in text)
    line = " ".join(printable.split())
    return line if len(line) <= _LINE_CHARACTERS else f"{line[: _LINE_CHARACTERS - 1]}…"


def _notice(headline: str, subject: str, text: Callable[[int], str], most_groups: int) -> Notice:
    """Return a notice; for chat with as many groups as fit, up to *most_groups*.

    *text* returns the text with up to a number of groups.
    """
    fewer = most_groups
    description = _for_chat(text(fewer))
    while fewer > 0 and len(description) > DESCRIPTION_MAX_CHARACTERS:
        fewer -= 1
        description = _for_chat(text(fewer))
    return Notice(subject, text(most_groups), headline, description)


def _headline(waiting: Waiting) -> str:
    """Return the number of groups to decide about, ``1 halted, 2 new``, or of messages."""
    counts = Counter(group.status for group in waiting.named)
    if counts:
        statuses = ", ".join(f"{count} {status}" for status, count in counts.items())
        return f"{statuses}: groups of dead letters"
    messages = waiting.parked + (waiting.pending or 0)
    return f"{_counted(messages, 'dead letter')} waiting"


def _subject(waiting: Waiting, headline: str) -> str:
    words = _WORDS[waiting.dimension].lower()
    if waiting.dimension == QUEUE_TAG_DIMENSION and waiting.named:
        queues = {group.queue for group in waiting.named}
        words = f"{_counted(len(queues), 'queue')} with the tag"
    return _ascii(f"{headline}, {words} {waiting.queues}")


def _ascii(subject: str) -> str:
    """Return a subject as SNS takes it: short, ASCII, without control characters."""
    line = line_of(subject).encode("ascii", "replace").decode()
    return line[:SUBJECT_MAX_CHARACTERS]


def _counts(waiting: Waiting) -> str:
    lines = [
        f"{_WORDS[waiting.dimension]}: {line_of(waiting.queues)}",
        f"In the parked queue: {waiting.parked:,}",
    ]
    if waiting.pending is not None:
        days = waiting.oldest_pending_seconds // 86_400
        age = f", the oldest for {_counted(days, 'day')}" if days else ""
        lines.append(f"Pending in the archive: {waiting.pending:,}{age}")

    if waiting.blocked:
        most = ", ".join(f"{message_id} ({count})" for message_id, count in waiting.blockers)
        sentence = (
            f"Of them, {waiting.blocked:,} wait behind an earlier message of their message group, "
            f"which comes first: {most}"
        )
        lines.append(_wrapped(sentence))
    return "\n".join(lines)


def _redrive(waiting: Waiting) -> str:
    return waiting.redrive.text() if waiting.redrive else ""


def _queues(waiting: Waiting) -> str:
    """Return a line for each source queue; empty for a stack with one."""
    by_queue = waiting.by_queue
    if not by_queue:
        return ""

    lines = ["Source queues at the last analysis:"]
    for name, groups in list(by_queue.items())[:_MOST_QUEUES]:
        counts = [_counted(len(groups), "group"), _counted(_messages(groups), "message")]
        counts.append(f"{sum(group.status == 'new' for group in groups)} new")
        lines.append(f"  {name}: {', '.join(counts)}")
    if len(by_queue) > _MOST_QUEUES:
        lines.append(f"  and {len(by_queue) - _MOST_QUEUES} more: see dlq groups")
    return "\n".join(lines)


def _groups(waiting: Waiting, heading: str, most_groups: int, *, has_commands: bool = True) -> str:
    """Return the paragraphs on up to *most_groups* groups; empty if there are no groups."""
    named = waiting.named
    if not named:
        return ""

    parts = [_wrapped(heading, indent="")]
    names_queue = bool(waiting.by_queue)
    for group in named[:most_groups]:
        end = _command(group, waiting.stack) if has_commands else f"group: {group.group_id}"
        parts.append(_group(group, end, names_queue=names_queue))
    if len(named) > most_groups:
        parts.append(f"and {len(named) - most_groups} more: see dlq groups")
    if named[0].status == "halted":
        parts.append(_OF_HALTED)
    return _paragraphs(*parts)


def _command(group: Group, stack: str) -> str:
    """Return the command about a group. A redrive of a halted one would send nothing."""
    if group.status == "halted":
        return f"once it is fixed: dlq decide {group.group_id} redrive --stack {stack}"
    return f"dlq redrive --group {group.group_id} --stack {stack}"


def _group(group: Group, end: str, *, names_queue: bool) -> str:
    lines = [_wrapped(f"{group.status}  {group.count:,}  {group.title or group.group_id}")]
    if names_queue:
        lines.append(f"  queue: {group.queue or _NOT_KNOWN}")
    if group.difference:
        lines.append(_wrapped(f"  differs: {group.difference}"))
    lines.append(f"  first seen: {_minute(group.first_seen_at)}")
    lines.append(f"  {end}")
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class _Command:
    """A command of ``dlq`` without ``--stack``, and what it is for."""

    words: str
    purpose: str


_SEE_GROUPS = _Command("groups", "See all groups, and what to do about each")


def _daily_command(waiting: Waiting) -> _Command:
    if not waiting.archive:
        return _Command("collect --archive FOLDER", "Archive in FOLDER what is parked, in groups")
    if waiting.parked:
        return _Command("collect", "Archive what is in the parked queue, in groups")
    if waiting.groups is None:
        return _Command("collect --only analyze", "Group what is pending in the archive")
    return _SEE_GROUPS


def _alarm_command(waiting: Waiting) -> _Command:
    # Dead letters that wait for their replay are hidden from a look.
    if not waiting.parked:
        return _Command("status", "See what waits, and whether replays are limited")
    words = f"look {waiting.parked_queue}".rstrip()
    return _Command(words, "See in groups what is parked now; this moves nothing")


def _next_steps(waiting: Waiting, command: _Command) -> str:
    """Return the paragraph with the command, the console's command, and the archive's place."""
    place = "" if waiting.archive else " --archive FOLDER"
    lines = [
        f"{command.purpose}:",
        f"  dlq {command.words} --stack {waiting.stack}",
        "Or all of it in a browser, on your machine:",
        f"  dlq console{place} --stack {waiting.stack}",
    ]
    if waiting.archive:
        lines.append(f"The archive: {waiting.archive}")
    return "\n".join(lines)


def _paragraphs(*parts: str) -> str:
    """Return the parts that are not empty, an empty line between two."""
    return "\n\n".join(filter(None, parts))


def _messages(groups: Sequence[Group]) -> int:
    return sum(group.count for group in groups)


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _minute(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M} UTC"


def _wrapped(text: str, indent: str = "    ") -> str:
    return textwrap.fill(text, _COLUMNS, subsequent_indent=indent, break_on_hyphens=False)


_DAILY = """\
This notice comes once a day while messages are in the parked queue, a group is
halted, regressed or new, or messages wait that nothing has grouped."""

_OF_HALTED = """\
Halted: too much of a redrive failed again. Nothing more of the group is sent
until somebody decides again, and then redrives."""

_MEANINGS: Mapping[str, str] = {
    "1": "Spark itself failed",
    "2": "bad arguments or input, or a drain that was stopped by an error",
    "3": "too much of a redrive failed again",
    "4": "some messages could not be sent",
}
"""Exit codes of the job."""

_CHAT_CHARACTERS = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "`": "'"})
"""Slack reads entities within code, too. Nothing else has a meaning there but the backtick."""


def _for_chat(text: str) -> str:
    """Return *text* as a code block of Slack and Teams; it has no link where code is not known."""
    escaped = text.translate(_CHAT_CHARACTERS).replace("](", "] (")
    return f"```\n{escaped}\n```"
