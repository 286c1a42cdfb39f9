"""Asks AWS for the DLQs of an account and Region, as members of a fleet. Reads only."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from dlq.aws.clients import CONCURRENT_CALLS, DescribedQueue
from dlq.cli.verb import PLACE_WORDS
from dlq.figures import counted
from dlq.stack.fleet_rules import AccountFacts, DlqFacts, Fleet, KeyFacts
from dlq.stack.outputs import StackValues, aws_errors, clients_of, read_stacks
from dlq.stack.rules import TriggerFacts
from dlq.stack.survey import (
    Client,
    Questions,
    list_mappings,
    list_pipes,
    read_fleet_function,
    read_sweep_rule,
)
from dlq_replay.aws.sqs import SqsQueue
from dlq_replay.aws.tagged_queues import TAG_KEY, read_queue_tags
from dlq_replay.errors import QueueError, QueueGoneError
from dlq_replay.settings import FleetSettings
from dlq_replay.wire.addresses import QueueAddress

if TYPE_CHECKING:
    from boto3.session import Session
    from mypy_boto3_sqs import SQSClient

_PAGE_QUEUES = 1000
"""Without a size ListQueues answers 1,000 queues and no token for more."""

Sources = Mapping[QueueAddress, Collection[QueueAddress]]
"""The source queues of each DLQ."""


@dataclass(frozen=True, slots=True)
class QueueAnswers:
    """The answers of SQS about one queue.

    Attributes:
        queue: None where SQS does not describe it.
        sources: the queues whose dead letters it gets; None where SQS does not list them.
        refusal: SQS's code where it refuses one of these; else empty.
    """

    address: QueueAddress
    queue: DescribedQueue | None = None
    sources: frozenset[QueueAddress] | None = None
    refusal: str = ""


def survey_account(session: "Session", stack: StackValues | None) -> AccountFacts:
    """Gather the facts of all DLQs; *stack* is the fleet that they may join, None for none.

    ``unknown`` names what AWS refuses. A DLQ is left out if it or a source cannot be described.

    Raises:
        InputError: the queues cannot be listed.
    """
    client = clients_of(session)
    with aws_errors("the queues cannot be listed"):
        urls = _list_queues(client)
    answers = ask_about(client, urls)

    questions = Questions()
    ask = questions.ask
    questions.unknown += _refused(answers)
    tags = ask("tags", read_queue_tags, client("resourcegroupstaggingapi"))
    triggers = ask("event source mappings", list_mappings, client) or []
    triggers += ask("pipes", list_pipes, client) or []

    own_stacks = _own_stacks(ask("stacks", read_stacks, session) or [])

    fleet = None
    if stack and stack.queue_tag:
        rule = stack.sweep_rule
        sweep = ask(f"rule {rule}", read_sweep_rule, client, rule) if rule else None
        function = ask("settings", read_fleet_function, client, stack.function_arn)
        fleet = _fleet_of(stack, stack.queue_tag, sweep, function[1] if function else None)

    keys: dict[str, KeyFacts] = {}
    for key in sorted({answer.queue.customer_key or "" for answer in answers if answer.queue}):
        key_facts = ask(f"KMS key {key}", _read_key, client, key) if key else None
        if key_facts:
            keys[key] = key_facts

    queues = {answer.address: answer.queue for answer in answers}
    sources = _sources_of_dlqs(answers, fleet)
    dlqs: list[DlqFacts] = []
    for address in sorted(sources):
        dlq = queues.get(address)
        # A queue that is not listed is gone, or of another account.
        listed = [queues[source] for source in sorted(sources[address]) if source in queues]
        described = [source for source in listed if source]
        if dlq is None or len(described) < len(listed):
            continue
        facts = DlqFacts(
            dlq=dlq,
            sources=tuple(described),
            tags=tags,
            foreign_sources=_foreign(sources[address], address.account_id),
            triggers=tuple(trigger for trigger in triggers if trigger.source_arn == dlq.arn),
            keys=keys,
            dlqs_among_sources=tuple(queue.name for queue in sources[address] if queue in sources),
            fleet=fleet,
            own_stack=own_stacks.get(address, ""),
        )
        dlqs.append(facts)

    return AccountFacts(
        queue_count=len(answers),
        dlqs=tuple(dlqs),
        tags=tags,
        fleet=fleet,
        unknown=tuple(questions.unknown),
    )


def _own_stacks(stacks: Iterable[StackValues]) -> dict[QueueAddress, str]:
    """Return the names of stacks that are no fleets, by their DLQs and parked queues."""
    names: dict[QueueAddress, str] = {}
    for stack in stacks:
        if stack.dlq_url:
            names[QueueAddress.from_url(stack.dlq_url)] = stack.stack
            names[QueueAddress.from_url(stack.parked_queue_url)] = stack.stack
    return names


def _list_queues(client: Client) -> list[str]:
    pages = client("sqs").get_paginator("list_queues")
    answer = pages.paginate(PaginationConfig={"PageSize": _PAGE_QUEUES}).build_full_result()
    return list(answer.get("QueueUrls", []))


def ask_about(client: Client, urls: Iterable[str]) -> list[QueueAnswers]:
    """Ask SQS about queues, several at once. One that does not exist any more is left out."""
    # Threads must not make it at once.
    sqs = client("sqs")
    with ThreadPoolExecutor(CONCURRENT_CALLS) as threads:
        answers = threads.map(partial(_ask_about, sqs), urls)
        return [answer for answer in answers if answer]


def _ask_about(sqs: "SQSClient", url: str) -> QueueAnswers | None:
    queue = SqsQueue(sqs, url)
    answers = QueueAnswers(QueueAddress.from_url(url))
    try:
        answers = replace(answers, queue=DescribedQueue(url, queue.describe()))
        return replace(answers, sources=queue.sources())
    except QueueGoneError:
        return None
    except QueueError as error:
        return replace(answers, refusal=error.code)


def _refused(answers: Sequence[QueueAnswers]) -> Iterator[str]:
    """Name the queues about which SQS refused an answer, in one sentence for each code."""
    names = defaultdict[str, list[str]](list)
    for answer in answers:
        if answer.refusal:
            names[answer.refusal].append(answer.address.name)
    for refusal, queues in names.items():
        yield f"{counted(len(queues), 'queue')}: {refusal} ({', '.join(queues)})"


def _fleet_of(
    stack: StackValues, tag: str, sweep: TriggerFacts | None, settings: FleetSettings | None
) -> Fleet:
    functions = filter(None, (stack.function_arn, stack.sweep_function_arn))
    parked_urls = filter(None, (stack.parked_queue_url, stack.fifo_parked_queue_url))
    return Fleet(
        stack=stack.stack,
        place=("--stack", stack.stack, *PLACE_WORDS.get()),
        tag=tag,
        functions=tuple(functions),
        parked_queues=tuple(map(QueueAddress.from_url, parked_urls)),
        sweep=sweep,
        longest_wait_seconds=settings.policy.backoff.cap_seconds if settings else 0,
    )


def _read_key(client: Client, key: str) -> KeyFacts | None:
    """Read a key; None of one that AWS manages.

    The policy of that for SQS admits every role of the account that may use SQS.
    """
    kms = client("kms")
    metadata = kms.describe_key(KeyId=key)["KeyMetadata"]
    if metadata["KeyManager"] == "AWS":
        return None
    tags = kms.list_resource_tags(KeyId=metadata["Arn"])["Tags"]
    values = {tag["TagKey"]: tag["TagValue"] for tag in tags}
    return KeyFacts(metadata["Arn"], values.get(TAG_KEY))


def _sources_of_dlqs(answers: Sequence[QueueAnswers], fleet: Fleet | None) -> Sources:
    """Return what queues' own redrive policies and SQS's lists say, without parked queues."""
    sources = defaultdict[QueueAddress, set[QueueAddress]](set)
    for answer in answers:
        target = answer.queue.redrive_target_arn if answer.queue else None
        if target:
            sources[QueueAddress.from_arn(target)].add(answer.address)
        if answer.sources:
            sources[answer.address].update(answer.sources)
    # A DLQ's own redrive policy may lead to them.
    for parked in fleet.parked_queues if fleet else ():
        sources.pop(parked, None)
    return sources


def _foreign(addresses: Iterable[QueueAddress], account_id: str) -> tuple[str, ...]:
    foreign = [queue for queue in sorted(addresses) if queue.account_id != account_id]
    return tuple(f"{queue.name} of account {queue.account_id}" for queue in foreign)
