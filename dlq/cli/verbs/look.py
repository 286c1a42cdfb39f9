"""``look``: what failed in a queue, without moving a message."""

import argparse
import sys
import webbrowser
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from shutil import get_terminal_size

from dlq.archive.messages.dead_letter_schema import Row
from dlq.aws.clients import DescribedQueue, find_queue
from dlq.cli.arguments import add_shared, whole_number
from dlq.cli.running import default_archive
from dlq.cli.suggested import FOLDER, suggested_command
from dlq.cli.terminal import AS_JSON, print_answer, print_line, print_parts
from dlq.cli.verb import DONE, INTERRUPTED, PLACE_WORDS, Verb, progress_here
from dlq.cli.verbs.collect import title_and_difference
from dlq.errors import InputError
from dlq.explain.analyze import AnalysisRequest
from dlq.explain.findings import NO_QUEUE, Findings, GroupFinding, in_rows, merged
from dlq.explain.grouping import check_group_by
from dlq.explain.signature.mask import compile_masks, shorten
from dlq.figures import counted, minute, percent
from dlq.inspect.export import opened
from dlq.look.look import (
    MOST_MESSAGES,
    USUAL_MESSAGES,
    Explained,
    Received,
    explain,
    receive_and_give_back,
)
from dlq.look.queue_facts import (
    QueueFacts,
    client_beside,
    queue_facts,
    require_receives,
)
from dlq.look.receiver import End
from dlq.look.sentences import after, before, next_steps
from dlq.stack.outputs import StackValues, read_stack

_ABOUT = """\
Receives messages of a queue, gives each back at once, and shows what failed: groups, what sets each
apart, when they were sent, a sample. Deletes, sends and moves nothing, and needs no stack, no
archive, no Spark and no Java; it writes only to the folder that --out names.

Each look counts as a receive. Where the queue's own redrive policy moves messages after fewer than
100 receives, look refuses without --receives-allowed. What is in flight or delayed it cannot see.
docs/look.md has the IAM policy, and all that a look changes."""

_EXAMPLES = """\
examples:

  dlq look orders-dlq
  dlq look https://sqs.eu-west-1.amazonaws.com/123456789012/orders-dlq --limit 10000
  dlq look orders-dlq --logs /aws/lambda/orders --out ./look --open
  dlq look --stack orders-replay           the stack's parked queue, of a fleet both"""

_GROUPS = 12
_SAMPLE_CHARACTERS = 120
_BLOCKS = " ▁▂▃▄▅▆▇█"
_COLUMNS = 20
_REPORT = "report.html"
_MESSAGES = "messages.jsonl"


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "queue",
        nargs="?",
        metavar="QUEUE",
        help="its URL, ARN or name (default: the parked queues of --stack)",
    )
    add(
        "--limit",
        type=whole_number(1, MOST_MESSAGES),
        default=USUAL_MESSAGES,
        metavar="N",
        help=f"see N messages of each queue at most, 1 to {MOST_MESSAGES:,} (default: %(default)s)",
    )
    add(
        "--receives-allowed",
        type=whole_number(1),
        metavar="N",
        help="look although SQS moves messages of the queue after N receives, or more",
    )

    add("--out", metavar="FOLDER", help=f"write {_REPORT} and {_MESSAGES} (with all content) there")
    add("--open", action="store_true", help=f"open {_REPORT} in the browser; needs --out")

    add_shared(parser, "--logs", "--logs-limit")
    add("--group-by", metavar="PATTERN", help="as for collect, see its help")
    add_shared(parser, "--mask", "--no-samples")


@dataclass(frozen=True, slots=True)
class _QueueLook:
    """A look at one queue: what AWS said of it before, and what was received."""

    facts: QueueFacts
    received: Received
    rows: Sequence[Row]


def _run(options: argparse.Namespace) -> int:
    request = _request(options)
    if options.open and not options.out:
        raise InputError("--open: there is no report to open; give --out FOLDER, too")

    stack = _stack(options)
    queues = [find_queue(name) for name in ([options.queue] if stack is None else _parked(stack))]
    for queue in queues:
        require_receives(queue, options.receives_allowed)
    folder = _folder(options.out) if options.out else None

    looks: list[_QueueLook] = []
    for queue in queues:
        looks.append(_look_at(queue, options.limit))
        if looks[-1].received.end is End.INTERRUPTED:
            print_answer(_fields(looks, None, ()), lambda: None)
            return INTERRUPTED
    _require_an_answer(looks)

    rows = list(chain.from_iterable(look.rows for look in looks))
    explained = explain(queues, rows, request, progress=progress_here()) if rows else None
    findings = explained.findings if explained else None
    if folder and explained:
        _write(folder, explained)
    steps: list[str] = []
    if findings and stack:
        steps += _next_steps_of_stack(stack)
    elif findings:
        (look,) = looks
        stack_words = ("--stack", "") if options.stack else ()
        steps += next_steps(look.facts, look.received, findings, PLACE_WORDS.get(), stack_words)
    print_answer(_fields(looks, findings, steps), lambda: _print(findings, steps))

    if folder and explained:
        _print_lines([f"report: {folder / _REPORT}"])
        if options.open:
            webbrowser.open((folder / _REPORT).resolve().as_uri())
    return DONE


def _look_at(queue: DescribedQueue, limit: int) -> _QueueLook:
    """Look at a queue, and say what it is, and what was seen. All of it is given back."""
    facts = queue_facts(queue, client_beside(queue))
    _print_lines(before(facts, limit))
    received, rows = receive_and_give_back(queue, limit, progress=progress_here())
    _print_lines(after(received, facts))
    return _QueueLook(facts, received, rows)


def _require_an_answer(looks: Sequence[_QueueLook]) -> None:
    """Raise InputError if SQS refused each queue before it gave a message."""
    errors: list[str] = []
    for look in looks:
        if look.received.end is End.ERROR and not look.rows:
            errors.append(look.received.error)
    if len(errors) == len(looks):
        raise InputError(f"{'; '.join(errors)}; nothing was received")


def _request(options: argparse.Namespace) -> AnalysisRequest:
    """Return what to analyze; raise InputError before anything is received."""
    compile_masks(options.masks)
    if options.group_by:
        check_group_by(options.group_by)
    return AnalysisRequest(
        masks=tuple(options.masks),
        has_samples=options.has_samples,
        logs=tuple(options.logs),
        logs_minutes=options.logs_minutes,
        group_by=options.group_by,
    )


def _stack(options: argparse.Namespace) -> StackValues | None:
    """Return the stack whose parked queues to look at; None if a queue is named.

    Raises:
        InputError: neither is given, or the stack cannot be read.
    """
    if options.queue:
        return None
    if not options.stack:
        raise InputError("QUEUE is missing: give its URL, ARN or name, or --stack NAME")
    return read_stack(options.session, options.stack)


def _parked(stack: StackValues) -> list[str]:
    """Return the URLs of the stack's parked queues: of a fleet with FIFO members, two."""
    urls = [stack.parked_queue_url]
    if stack.fifo_parked_queue_url:
        urls.append(stack.fifo_parked_queue_url)
    return urls


def _folder(out: str) -> Path:
    """Make the folder of ``--out``; raise InputError before anything is received."""
    folder = Path(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {out}: {error.strerror or error}; give another folder") from error
    for name in (_REPORT, _MESSAGES):
        if (folder / name).exists():
            raise InputError(f"--out {out}: {name} exists there; give another folder")
    return folder


def _write(folder: Path, explained: Explained) -> None:
    """Write the report, and the messages for their owner alone."""
    from dlq.report.page import render_page

    with opened(str(folder / _MESSAGES)) as lines:
        for line in explained.lines():
            lines.write(f"{line}\n")
    with opened(str(folder / _REPORT)) as report:
        report.write(render_page(explained.findings))


def _print_lines(lines: Iterable[str]) -> None:
    """Print lines for a person; with ``--json`` the answer has what they say."""
    if not AS_JSON.get():
        for line in lines:
            print_line(line)


def _fields(
    looks: Sequence[_QueueLook], findings: Findings | None, steps: Sequence[str]
) -> dict[str, object]:
    """Return the fields of the JSON answer."""
    groups = findings.groups if findings else ()
    return {
        "queues": list(map(_queue_fields, looks)),
        "logs": findings.logs if findings else "",
        "groups": list(map(asdict, groups)),
        "next": list(steps),
    }


def _queue_fields(look: _QueueLook) -> dict[str, object]:
    facts = look.facts
    return {
        "queue": facts.queue.name,
        "queue_url": facts.queue.url,
        "counts": asdict(facts.queue.counts),
        "sources": facts.sources,
        "readers": facts.readers,
        "recent_receives": facts.recent_receives,
        "unknown": facts.unknown,
        "received": asdict(look.received),
    }


def _print(findings: Findings | None, steps: Sequence[str]) -> None:
    """Print the groups, and the commands that follow."""
    if findings is None:
        return
    if findings.logs:
        print_line(findings.logs)

    rows = [merged(row) for row in in_rows(findings.groups, findings.similar)]
    rows.sort(key=lambda group: -group.count)
    for group in rows[:_GROUPS]:
        _print_group(group, has_queue=bool(findings.queues))
    if len(rows) > _GROUPS:
        rest = sum(group.count for group in rows[_GROUPS:])
        more = counted(len(rows) - _GROUPS, "smaller group")
        print_line(f"… and {more} with {counted(rest, 'message')}; --out or --json has all")
    print_line("")
    for line in steps:
        print_line(line)


def _next_steps_of_stack(stack: StackValues) -> Iterator[str]:
    """Yield the commands that put messages of the stack's parked queues back."""
    has_archive = stack.archive or default_archive()
    archive = () if has_archive else ("--archive", FOLDER)
    yield "next: archive them, then put back group by group, with a record:"
    yield f"  {suggested_command('collect', '', *archive)}"
    yield f"  {suggested_command('redrive', '', *archive, '--group', 'GROUP')}"


def _print_group(group: GroupFinding, *, has_queue: bool) -> None:
    """Print what failed, what sets it apart, when its messages were sent, and one of them."""
    print_line("")
    print_parts(
        (f"{group.count:,} {percent(group.share)}", "bold"),
        (f"  {group.group_id}  ", "cyan"),
        (f"{group.queue or NO_QUEUE}  " if has_queue else "", ""),
        (group.trend, "yellow"),
    )
    for line in title_and_difference(group).splitlines():
        print_line(f"  {line}")

    if group.first_parked_at and any(group.arrivals):
        first = minute(group.first_parked_at)
        last = minute(group.last_parked_at)
        span = f"{first} UTC" if first == last else f"{first} {_blocks(group.arrivals)} {last} UTC"
        print_parts((f"  sent {span}", "dim"))
    if group.samples:
        sample = group.samples[0]
        print_parts((f"  e.g. {sample.message_id}", "dim"))
        print_parts((f"  {shorten(sample.body, _sample_characters())}", "dim"))


def _sample_characters() -> int:
    """Return how much of a body is shown: a line."""
    if not sys.stdout.isatty():
        return _SAMPLE_CHARACTERS
    return max(20, get_terminal_size().columns - 3)


def _blocks(arrivals: Sequence[int]) -> str:
    """Draw counts as blocks, the highest for the greatest; any count but 0 is visible."""
    columns = min(len(arrivals), _COLUMNS)
    counts = [0] * columns
    for position, count in enumerate(arrivals):
        counts[position * columns // len(arrivals)] += count

    greatest = max(counts)
    blocks = ""
    for count in counts:
        height = -(-count * (len(_BLOCKS) - 1) // greatest) if greatest else 0
        blocks += _BLOCKS[height]
    return blocks


VERB = Verb(
    about=_ABOUT,
    add_arguments=_add_arguments,
    make_options=argparse.Namespace,
    run=_run,
    examples=_EXAMPLES,
)
