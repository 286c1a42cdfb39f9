"""``rehearse``: invokes a function with the pending messages of a group; no queue is used."""

import argparse
import base64
import hashlib
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from dlq.archive.ledger.message_state import SETTLED
from dlq.archive.ledger.open_set import planned_states
from dlq.archive.ledger.stop import Stop, StopCause
from dlq.archive.messages.dead_letter_schema import Row
from dlq.archive.messages.message_index import Member, member_rows, read_members
from dlq.archive.storage.files import Archive, open_archive
from dlq.aws.clients import region_of, require_queue_url
from dlq.cli import terminal
from dlq.cli.arguments import add_shared, whole_number
from dlq.cli.suggested import repeated_command, suggested_command
from dlq.cli.verb import (
    DONE,
    REHEARSAL_FAILED,
    Verb,
    progress_here,
)
from dlq.cli.verbs import require_yes
from dlq.engine import CHANGES
from dlq.errors import InputError
from dlq.explain.signature.mask import compile_masks
from dlq.figures import counted
from dlq.plan.edit import EditError
from dlq.plan.plan import Plan
from dlq.plan.plan_file import find_plan
from dlq.progress import ProgressLine
from dlq.redrive.resolving.editor import Editor
from dlq.stack.outputs import aws_errors
from dlq_replay.aws.sqs import describe
from dlq_replay.wire.attributes import MessageAttribute
from dlq_replay.wire.context import CONTEXT_ATTRIBUTE
from dlq_replay.wire.message import REPLAY_COUNT_ATTRIBUTE, Message

if TYPE_CHECKING:
    from boto3.session import Session
    from mypy_boto3_lambda import LambdaClient

_ABOUT = """\
Invokes your function with each pending message of a group, one message an invocation, as an SQS
event, and says of each message whether the function processed it: pass, or fail and the type of
the error. No queue is used, and nothing is written into the archive. A message comes as a redrive
would deliver it, with the plan's edit, but with a new message id and without counter and context.

Give --endpoint for a function on this machine. Without it a function on AWS is invoked, after a
question: it does its real work. No call is repeated; one without an answer ends the rehearsal.
Needs no Spark. Exit code 3 if a message fails."""

_EXAMPLES = """\
examples:

  docker run -p 9000:8080 orders:fix
  dlq rehearse g-53cb1ad25b --function function --endpoint http://localhost:9000
  dlq rehearse g-53cb1ad25b --function orders-staging --limit 20

docs/rehearse.md says what a rehearsal cannot know."""

_LONGEST_SECONDS = 920
"""Lambda ends an invocation after 900 s."""

_EXAMPLES_SHOWN = 3
_REASON_CHARACTERS = 160
_INTERRUPTED = Stop(
    StopCause.INTERRUPTED, "the function may have processed the message that it had"
)
_OURS = (CONTEXT_ATTRIBUTE, REPLAY_COUNT_ATTRIBUTE)
_ERROR = {"errorMessage", "errorType"}
_ERROR_FIELDS = {*_ERROR, "requestId", "stackTrace", "cause", "trace"}


@dataclass(frozen=True, slots=True)
class RehearsalFailure:
    """The reason that a function did not process a message. *text* may quote the message."""

    type: str
    text: str = ""


@dataclass(slots=True)
class RehearsalOutcome:
    """The messages with the same verdict and the same type of error, which is empty for ``pass``.

    docs/reference.md describes the fields of both values, under "rehearse".
    """

    verdict: str
    error_type: str
    error: str
    count: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Rehearsal:
    """Outcomes of a function for the pending messages of a group; none for erased messages."""

    plan_id: str
    group_id: str
    function: str
    messages: int
    outcomes: list[RehearsalOutcome] = field(default_factory=list)
    stopped_by: Stop | None = None

    def count(self, verdict: str = "") -> int:
        """Count the messages with this verdict; all by default."""
        total = 0
        for outcome in self.outcomes:
            if verdict in ("", outcome.verdict):
                total += outcome.count
        return total

    def add(self, message_id: str, failure: RehearsalFailure | None) -> None:
        """Count a message."""
        masks = compile_masks(())
        error_type = masks.text(failure.type) if failure else ""

        outcome = self._outcome_with(error_type)
        if outcome is None:
            outcome = RehearsalOutcome(
                verdict="fail" if failure else "pass",
                error_type=error_type,
                error=masks.start(failure.text, _REASON_CHARACTERS) if failure else "",
            )
            self.outcomes.append(outcome)

        outcome.count += 1
        if outcome.count <= _EXAMPLES_SHOWN:
            outcome.examples.append(message_id)
        self.outcomes.sort(key=lambda other: (other.verdict, -other.count, other.error_type))

    def _outcome_with(self, error_type: str) -> RehearsalOutcome | None:
        for outcome in self.outcomes:
            if outcome.error_type == error_type:
                return outcome
        return None


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_shared(parser, "group_id")
    add("--function", required=True, metavar="NAME", help="name or ARN, also with an alias")
    add("--endpoint", metavar="URL", help="where it is invoked instead of AWS; unsigned")
    add("--limit", type=whole_number(1), metavar="N", help="rehearse the first N messages alone")
    add("--yes", action="store_true", help="invoke a function on AWS without a question")
    add_shared(parser, "--plan")
    add("--main-queue-url", metavar="URL", help="the source queue of messages that name none")


def _run(options: argparse.Namespace) -> int:
    session: Session = options.session
    if options.endpoint and not options.endpoint.startswith(("http://", "https://")):
        raise InputError(f"--endpoint {options.endpoint}: must begin with http:// or https://")

    archive = open_archive(options.archive)
    plan = find_plan(archive, options.plan).plan().only(options.group_id)
    group_id = plan.groups[0].group_id
    edit = plan.edits.get(group_id)
    if edit is not None and edit.set_attributes:
        raise InputError(
            f"group {group_id}: its set_attributes are Spark SQL, which rehearse does not "
            "run; redrive --ramp tries them on a few messages"
        )

    members = _pending(archive, plan, group_id)[: options.limit]
    if not options.endpoint and not options.yes:
        _require_agreement(session, options.function, len(members))

    rehearsal = Rehearsal(
        plan_id=plan.plan_id,
        group_id=group_id,
        function=options.function,
        messages=len(members),
    )
    client = _client(session, options.endpoint)
    editor = Editor(plan.edits, plan.plan_id)

    def rehearse_row(row: Row, new_id: str) -> RehearsalFailure | None:
        edited = editor.message({**row, "group_id": group_id, CHANGES: None})
        source_arn = _source_arn(row, options.main_queue_url, session)
        event = event_of(edited, source_arn, new_id, int(time.time() * 1000))
        return _invoke(client, options.function, event, new_id, is_emulated=bool(options.endpoint))

    _rehearse(rehearsal, member_rows(archive, members), rehearse_row)

    def show() -> None:
        _print(rehearsal)
        if rehearsal.count("fail"):
            terminal.print_line(f"next, once it is fixed: {repeated_command()}")
        elif not rehearsal.stopped_by:
            plan = ("--plan", options.plan) if options.plan else ()
            dry_run = suggested_command("redrive", options.archive, "--group", group_id, *plan)
            terminal.print_line(f"next, a dry run: {dry_run}")

    terminal.print_answer(rehearsal, show)
    if rehearsal.stopped_by:
        terminal.print_error(rehearsal.stopped_by.sentence)
        return rehearsal.stopped_by.cause.exit_code
    return REHEARSAL_FAILED if rehearsal.count("fail") else DONE


def _pending(archive: Archive, plan: Plan, group_id: str) -> list[Member]:
    """Return the messages of a group that are pending. Raises InputError if none is."""
    members = read_members(archive, plan.plan_id, plan.snapshot.table_sha256, group_id)
    message_ids = [member.message_id for member in members]
    states = planned_states(archive, plan.plan_id, pa.array(message_ids, pa.string()))

    pending = []
    for member, state in zip(members, states.to_pylist(), strict=True):
        if state not in SETTLED:
            pending.append(member)
    if not pending:
        raise InputError(f"group {group_id}: no message is pending; each is redriven or discarded")
    return pending


def _require_agreement(session: "Session", function: str, messages: int) -> None:
    with aws_errors("asking which account this is"):
        account = session.client("sts").get_caller_identity()["Account"]
    require_yes(
        f"This invokes function {function} as account {account} in {session.region_name} for "
        f"{counted(messages, 'message')}. It does its real work.",
        "--yes invokes a function on AWS, and --endpoint one on this machine",
    )


def _source_arn(row: Row, main_queue_url: str | None, session: "Session") -> str:
    """Return the ARN of the queue that the event names as its source."""
    url = main_queue_url or row["queue_url"]
    name = row["source_queue"]
    if not name and not main_queue_url:
        raise InputError(
            f"message {row['message_id']}: does not name its source queue; give --main-queue-url"
        )

    address = require_queue_url("queue", url)
    region = region_of(url, session.region_name)
    partition = session.get_partition_for_region(region)
    return f"arn:{partition}:sqs:{region}:{address.account_id}:{name or address.name}"


def event_of(
    message: Message, source_arn: str, new_message_id: str, now_milliseconds: int
) -> dict[str, Any]:
    """Return the event with which Lambda would deliver a new copy of *message*.

    The copy has a new message id, and neither our counter nor our context. So nothing that
    remembers messages by these ids takes it for the message itself.

    *message* is as a redrive would send it, to the queue *source_arn*. On FIFO queues the new id is
    also the deduplication id. The copy is sent and received at *now_milliseconds*.
    """
    system = {
        "ApproximateReceiveCount": "1",
        "SentTimestamp": str(now_milliseconds),
        "SenderId": message.system.get("SenderId", ""),
        "ApproximateFirstReceiveTimestamp": str(now_milliseconds),
    }
    if message.trace_header:
        system["AWSTraceHeader"] = message.trace_header
    if message.message_group_id is not None:
        system["MessageGroupId"] = message.message_group_id
    if source_arn.endswith(".fifo"):
        system["MessageDeduplicationId"] = new_message_id
        # SQS's own has 20 digits too, and grows.
        system["SequenceNumber"] = f"{now_milliseconds:020d}"

    attributes = {}
    for name, attribute in message.attributes.items():
        if name not in _OURS:
            attributes[name] = _attribute(attribute)

    record = {
        "messageId": new_message_id,
        "receiptHandle": f"rehearsal-{new_message_id}",
        "body": message.body,
        "attributes": system,
        "messageAttributes": attributes,
        "md5OfBody": hashlib.md5(message.body.encode(), usedforsecurity=False).hexdigest(),
        "eventSource": "aws:sqs",
        "eventSourceARN": source_arn,
        "awsRegion": source_arn.split(":")[3],
    }
    return {"Records": [record]}


def _attribute(attribute: MessageAttribute) -> dict[str, Any]:
    """Return a message attribute as Lambda's events have it."""
    rest = {"stringListValues": [], "binaryListValues": [], "dataType": attribute.data_type}
    if isinstance(attribute.value, bytes):
        return {"binaryValue": base64.b64encode(attribute.value).decode(), **rest}
    return {"stringValue": attribute.value, **rest}


def failure_of(
    payload: bytes, function_error: str | None, message_id: str, *, is_emulated: bool
) -> RehearsalFailure | None:
    """Return why the function failed on the only message of its event, None if it did not.

    A partial batch response is read as Lambda does: an answer without ``batchItemFailures``, or
    with an empty or null list, says that all succeeded. A list of another form, or one that names
    another message, fails the whole batch. See
    https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-errorhandling.html

    Args:
        payload: what the invocation returned.
        function_error: the field ``FunctionError`` of the answer.
        message_id: of the message in the event.
        is_emulated: whether an emulator answered. It may report an error of the function in the
            payload alone, and a time-out as plain text.
    """
    try:
        answer: object = json.loads(payload or b"null")
    except ValueError:
        text = payload.decode(errors="replace")
        return RehearsalFailure("Timeout" if "timed out" in text else "InvalidAnswer", text)

    fields = answer if isinstance(answer, dict) else {}
    if function_error or (is_emulated and _ERROR <= fields.keys() <= _ERROR_FIELDS):
        error_type = fields.get("errorType") or function_error
        return RehearsalFailure(str(error_type), str(fields.get("errorMessage", "")))

    failed_items = fields.get("batchItemFailures")
    if failed_items is None or failed_items == []:
        return None
    if failed_items == [{"itemIdentifier": message_id}]:
        return RehearsalFailure("batchItemFailures", "the function reports the message as failed")
    return RehearsalFailure(
        "InvalidPartialResponse", "batchItemFailures is no list of the message's id"
    )


def _client(session: "Session", endpoint: str | None) -> "LambdaClient":
    """Make a client; at an endpoint unsigned, so that none of AWS's accepts its calls."""
    config = Config(
        signature_version=UNSIGNED if endpoint else None,
        read_timeout=_LONGEST_SECONDS,
        tcp_keepalive=True,
        # A repeated call would do the function's work twice.
        retries={"total_max_attempts": 1},
    )
    region = session.region_name or ("us-east-1" if endpoint else None)
    return session.client("lambda", region_name=region, endpoint_url=endpoint, config=config)


def _invoke(
    client: "LambdaClient", function: str, event: object, message_id: str, *, is_emulated: bool
) -> RehearsalFailure | None:
    """Invoke the function with an event; return why it failed on the message, None if it did not.

    Raises what boto3 raises if the function gives no answer.
    """
    content = json.dumps(event, ensure_ascii=False).encode()
    try:
        answer = client.invoke(FunctionName=function, Payload=content)
        payload = answer["Payload"].read()
    except ClientError as error:
        if is_emulated and error.response["Error"]["Code"] == "502":
            return RehearsalFailure("ProcessEnded", "the emulator says that the process has ended")
        raise
    function_error = answer.get("FunctionError")
    return failure_of(payload, function_error, message_id, is_emulated=is_emulated)


def _rehearse(
    rehearsal: Rehearsal,
    rows: Iterable[Row],
    rehearse_row: Callable[[Row, str], RehearsalFailure | None],
) -> None:
    """Invoke the function with each message; a call without an answer ends the rehearsal."""
    progress_line = ProgressLine(rehearsal.messages)
    with progress_here()("rehearsing", lambda: progress_line.text(rehearsal.count())):
        try:
            for row in rows:
                message_id = row["message_id"]
                new_id = str(uuid4())
                try:
                    failure = rehearse_row(row, new_id)
                except EditError as error:
                    failure = RehearsalFailure("EditFailed", str(error))
                rehearsal.add(message_id, failure)

        except (ClientError, BotoCoreError) as error:
            why = (
                f"{rehearsal.function}: {describe(error).strip()}; if the call reached the "
                f"function, it may have processed message {message_id}, which it knows as {new_id}"
            )
            rehearsal.stopped_by = Stop(StopCause.FUNCTION, why)
        except InputError as error:
            rehearsal.stopped_by = Stop(StopCause.INPUT, str(error))
        except KeyboardInterrupt:
            rehearsal.stopped_by = _INTERRUPTED


def _row(outcome: RehearsalOutcome) -> tuple[object, ...]:
    """Return the cells of an outcome."""
    reason = f"{outcome.error_type}: {outcome.error}".rstrip(": ")
    return outcome.verdict, outcome.count, reason, outcome.examples[0]


def _print(rehearsal: Rehearsal) -> None:
    headings = ("verdict", "messages", "why", "for example")
    terminal.print_table(headings, list(map(_row, rehearsal.outcomes)), spare=("for example",))
    terminal.print_line(
        f"{rehearsal.count():,} of {counted(rehearsal.messages, 'message')} "
        f"rehearsed: {rehearsal.count('pass'):,} passed, {rehearsal.count('fail'):,} failed"
    )


VERB = Verb(
    about=_ABOUT,
    add_arguments=_add_arguments,
    make_options=argparse.Namespace,
    run=_run,
    examples=_EXAMPLES,
)
