"""Sentences of a look, before and after it, and the commands that follow. Pure."""

import shlex
from collections.abc import Iterator, Sequence

from dlq.cli.suggested import FOLDER
from dlq.explain.findings import Findings, in_rows
from dlq.figures import counted, second
from dlq.look.look import Received
from dlq.look.queue_facts import LEAST_RECEIVES, RECENT_MINUTES, QueueFacts, target_name
from dlq.look.receiver import HIDDEN_SECONDS, MOST_BYTES, RECEIVE_SECONDS, RECEIVES_LEFT, End

_NAMED = 10
"""Messages that are named one by one, at most."""

_MINUTES_HIDDEN = HIDDEN_SECONDS // 60


def before(facts: QueueFacts, limit: int) -> Iterator[str]:
    """Yield what is in the queue, what a look costs, and what it cannot see."""
    queue = facts.queue
    counts = queue.counts
    yield (
        f"{queue.name}: about {counts.visible:,} visible, {counts.in_flight:,} in flight, "
        f"{counts.delayed:,} delayed"
    )

    changes = "its receive count and its time of first receive"
    if not queue.is_fifo:
        changes += (
            ", and its place in the queue; SQS's age metric leaves out what was received 3 times"
        )
    yield (
        f"a look receives at most {counted(limit, 'message')} and gives them back; of each it "
        f"changes {changes}"
    )
    yield from _not_reached(facts, limit)

    if queue.max_receive_count is not None:
        yield (
            f"SQS moves a message to {target_name(queue)} after "
            f"{counted(queue.max_receive_count, 'receive')}, those of looks included"
        )
    if facts.readers:
        yield (
            f"{' and '.join(facts.readers)} read this queue, too: the look sees what they leave, "
            f"and hides what it sees from them for up to {_MINUTES_HIDDEN} min"
        )
    elif facts.recent_receives:
        yield (
            f"somebody received {counted(facts.recent_receives, 'message')} of this queue in the "
            f"last {RECENT_MINUTES} min: the look sees what they leave"
        )
    yield from facts.unknown


def _not_reached(facts: QueueFacts, limit: int) -> Iterator[str]:
    """Yield which messages the look does not see."""
    queue = facts.queue
    counts = queue.counts
    if counts.in_flight or counts.delayed:
        held = (
            "those that replay holds are in flight"
            if queue.is_fifo
            else "those that replay holds are delayed"
        )
        yield (
            f"it cannot see the {counts.in_flight + counts.delayed:,} in flight or delayed ({held})"
        )
    if queue.is_fifo:
        yield (
            "FIFO: it sees about the first ten messages of each message group, and locks the "
            "groups until it ends"
        )
    if counts.visible > limit:
        yield f"it leaves about {counts.visible - limit:,} unseen: --limit"


def after(received: Received, facts: QueueFacts) -> Iterator[str]:
    """Yield how much was seen, why no more, and what is still hidden."""
    queue = facts.queue
    seen = f"seen: {counted(received.messages, 'message')}"
    visible = queue.counts.visible
    if received.messages < visible:
        seen += f" of about {visible:,}"
    if not received.hidden:
        seen += ", all given back" if received.messages else ""
    yield seen

    if received.tests:
        yield f"{counted(received.tests, 'test message')} of dlq doctor: not counted"
    yield from _end(received, facts)
    most = facts.queue.max_receive_count
    if most is not None and most < LEAST_RECEIVES:
        target = target_name(facts.queue)
        yield (
            f"messages that had {counted(most, 'receive')} before are not seen: SQS has moved them "
            f"to {target}"
        )

    if received.hidden:
        yield (
            f"{counted(len(received.hidden), 'message')} could not be given back; SQS shows each "
            "again by itself:"
        )
        for message in received.hidden[:_NAMED]:
            yield f"  {message.message_id}: visible at {second(message.visible_at)} UTC"
        if len(received.hidden) > _NAMED:
            latest = max(message.visible_at for message in received.hidden)
            more = len(received.hidden) - _NAMED
            yield f"  and {more:,} more, the last at {second(latest)} UTC"
    if received.faults:
        yield (
            f"{counted(len(received.faults), 'message')} could not be read, and stay hidden for "
            f"{_MINUTES_HIDDEN} min:"
        )
        for fault in received.faults[:_NAMED]:
            yield f"  {fault}"


def _end(received: Received, facts: QueueFacts) -> Iterator[str]:
    """Yield why the receives ended, if the queue may have more messages."""
    queue = facts.queue
    match received.end:
        case End.SECONDS:
            yield f"the look ended after {RECEIVE_SECONDS} s; there may be more"
        case End.BYTES:
            yield f"the look ended at {MOST_BYTES // 1024**2} MiB; there may be more"
        case End.RECEIVE_COUNT:
            yield f"the look ended at a message with {RECEIVES_LEFT} receives left, or fewer"
        case End.ERROR:
            yield f"the look ended early: {received.error}"
        case End.INTERRUPTED:
            yield "interrupted; nothing was moved"
        case End.EMPTY if queue.is_fifo and received.messages < queue.counts.visible:
            yield (
                "SQS shows no more of a message group while messages of it are in flight: "
                "dlq collect takes all"
            )


def next_steps(
    facts: QueueFacts,
    received: Received,
    findings: Findings,
    place_words: Sequence[str] = (),
    stack_words: Sequence[str] = (),
) -> Iterator[str]:
    """Yield the commands that put the messages back; SQS's own where that is enough.

    It is enough where all failed in the same way, and where nothing is hidden: SQS moves only what
    is visible. *place_words* are the options for Region and profile that the look was given,
    *stack_words* those that keep its stack away, whose queues are others.
    """
    queue = facts.queue
    rows = in_rows(findings.groups, findings.similar)
    is_one_failure = len(rows) == 1 and received.end in {End.EMPTY, End.LIMIT}
    if facts.sources and is_one_failure and not received.hidden:
        command = ["aws", "sqs", "start-message-move-task", "--source-arn", queue.arn, *place_words]
        yield "next, once it is fixed: SQS itself puts all of them back, at once, with no record"
        yield f"  {shlex.join(command)}"
        yield "or archive them, then put back some of them, step by step:"
    else:
        yield "next: archive them, then put back group by group, with a record:"

    archive = ["--archive", FOLDER, *stack_words, *place_words]
    destination = ["--to-queue-url", "URL"]
    if facts.sources:
        destination = ["--main-queue-url", facts.sources[0]]
    yield f"  {shlex.join(['dlq', 'collect', queue.url, *archive])}"
    yield f"  {shlex.join(['dlq', 'redrive', *archive, *destination, '--group', 'GROUP'])}"
