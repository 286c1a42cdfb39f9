"""The queues of a redrive: where messages come from, and where they go."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dlq.archive.messages.message_index import read_table_columns
from dlq.archive.messages.message_reading import FILE
from dlq.archive.messages.message_store import rows_by_file
from dlq.archive.storage.files import Archive
from dlq.aws.clients import (
    CONCURRENT_CALLS,
    ClientFactory,
    DescribedQueue,
    dead_letter_sources,
    described,
    require_queue,
    require_queue_url,
)
from dlq.errors import InputError
from dlq.ids.columns import texts_of, values_among
from dlq.ids.origins import Queues
from dlq.plan.plan import Action, Plan
from dlq.redrive.request import RedriveRequest
from dlq_replay.aws.tagged_queues import list_tagged_queues
from dlq_replay.errors import QueueError
from dlq_replay.rules.policy import MAX_MESSAGE_BYTES
from dlq_replay.wire.addresses import QueueAddress

_SOURCE_COLUMNS = ("source_queue", "source_arn")


def find_queues(
    request: RedriveRequest, make_client: ClientFactory
) -> tuple[Queues, dict[str, DescribedQueue]]:
    """Find the queues that the run's messages pass, and the source queues that it may send to.

    Any producer can write a source queue's name into a message. So a queue counts as one only if
    SQS says that its dead letters reach the same dead-letter queue or a parked queue of the run, in
    the account of the destination, and if the run may see it.

    Returns:
        The queues, and each possible destination by its URL.

    Raises:
        InputError: ``--parked-queue-url`` is no queue URL, or SQS does not describe the operator's
            destination.
    """
    main_url = request.destination
    option = "--to-queue-url" if request.to_queue_url else "--main-queue-url"
    main_queue = require_queue(option, main_url, make_client)
    for url in request.parked_queue_urls:
        require_queue_url("--parked-queue-url", url)

    dlq_url = main_queue.dead_letter_url
    sources, is_shared = _sources(main_url, dlq_url, request.parked_queue_urls, make_client)
    destinations = {main_url: main_queue}
    if not request.to_queue_url:
        for queue in _described(sources, make_client):
            destinations[queue.url] = queue

    main_name = QueueAddress.from_url(main_url).name
    queues = Queues(
        destination=main_url,
        parked=request.parked_queue_urls,
        is_named=bool(request.to_queue_url),
        sources={QueueAddress.from_url(url).name: url for url in destinations},
        dead_letter_queues={main_name: QueueAddress.from_url(dlq_url).name} if dlq_url else {},
        max_message_bytes=_least_sizes(destinations, request.parked_queue_urls, make_client),
        is_shared=is_shared,
        includes_foreign=request.include_foreign,
        only_source=request.queue,
    )
    return queues, destinations


def find_members(
    request: RedriveRequest,
    names: Collection[str],
    make_client: ClientFactory,
    make_tagging: Callable[[str], Any],
) -> tuple[Queues, dict[str, DescribedQueue], list[str]]:
    """Find the queues of a fleet that are the sources of a run's messages.

    Any producer can write a name into a message. So a queue counts only if it has the tag, and if
    its own redrive policy, as SQS describes it, names a dead-letter queue that has the tag, too.

    Args:
        request: names the tag and the parked queues.
        names: the names that messages of the run have as their source; no others are asked for.
        make_client: makes a client of SQS for the queue of a URL.
        make_tagging: makes a client of the tagging API in the Region of the queue of a URL.

    Returns:
        The queues; each possible destination by its URL; and a sentence for each queue with the tag
        that SQS does not describe, whose messages are left.

    Raises:
        InputError: the list of the queues with the tag cannot be read, or a URL is none of a queue.
    """
    parked_queues: set[QueueAddress] = set()
    for url in request.parked_queue_urls:
        parked_queues.add(require_queue_url("--parked-queue-url", url))
    beside_url = request.queue_in_region
    try:
        tagged = list_tagged_queues(make_tagging(beside_url), request.queue_tag or "")
    except QueueError as error:
        raise InputError(f"--queue-tag: {error}") from error
    # A queue whose dead letters are parked is a DLQ, and no source, also if the tag is on both.
    members = tagged - parked_queues

    # One client: all members are in one Region.
    client = make_client(beside_url)
    urls = [member.url_beside(beside_url) for member in sorted(members) if member.name in names]
    destinations: dict[str, DescribedQueue] = {}
    notes: list[str] = []
    sources: dict[str, str] = {}
    dead_letter_queues: dict[str, str] = {}
    for queue in _described_or_fault(urls, lambda _: client):
        if isinstance(queue, QueueError):
            notes.append(f"messages of a queue with the tag are left: {queue}")
            continue
        target = queue.redrive_target_arn
        if target and QueueAddress.from_arn(target) in members:
            destinations[queue.url] = queue
            sources[queue.name] = queue.url
            dead_letter_queues[queue.name] = QueueAddress.from_arn(target).name

    queues = Queues(
        destination="",
        parked=request.parked_queue_urls,
        is_named=False,
        sources=sources,
        dead_letter_queues=dead_letter_queues,
        max_message_bytes=_least_sizes(destinations, request.parked_queue_urls, lambda _: client),
        is_shared=True,
        only_source=request.queue,
    )
    return queues, destinations, notes


def named_sources(archive: Archive, plan: Plan) -> set[str]:
    """Return the names that messages of the plan have as their source, and maybe some more.

    These are the names in all files that have a message of a group with an action.
    """
    columns = ["group_id", FILE]
    table = read_table_columns(archive, plan.plan_id, columns, plan.snapshot.table_sha256)
    acting = [group.group_id for group in plan.groups if group.action is not Action.LEAVE]
    files: Any = table.filter(values_among(table["group_id"], acting))[FILE]
    paths = sorted(texts_of(files.cast("string").unique()))

    names = set[str]()
    for _, rows in rows_by_file(archive, paths, _SOURCE_COLUMNS):
        for column in _SOURCE_COLUMNS:
            for text in texts_of(rows[column].unique().drop_null()):
                # An ARN ends with the name.
                names.add(text.rpartition(":")[2])
    return names


def _sources(
    main_url: str, dlq_url: str | None, parked_urls: Iterable[str], make_client: ClientFactory
) -> tuple[list[str], bool]:
    """Return the other queues whose messages may be parked where those of *main_url* are.

    Return also whether there may be such queues: some may exist although none is known, where SQS
    does not let us ask.
    """
    if dlq_url is None:
        return [], False

    main_address = QueueAddress.from_url(main_url)
    dlq_address = QueueAddress.from_url(dlq_url)
    sources: dict[QueueAddress, str] = {}
    is_refused = False

    # The queues whose messages may reach the parked queue: the DLQ, and others that feed it.
    dead_letter_queues = {dlq_address: dlq_url}
    for parked_url in parked_urls:
        feeding = dead_letter_sources(parked_url, make_client)
        if feeding is None:
            is_refused = True
        else:
            dead_letter_queues |= feeding
            sources |= feeding

    for url in dead_letter_queues.values():
        feeding = dead_letter_sources(url, make_client)
        if feeding is None:
            is_refused = True
        else:
            sources |= feeding

    own = {main_address, dlq_address}
    others = sources.keys() - own - dead_letter_queues.keys()
    urls: list[str] = []
    for address in sorted(others, key=lambda address: address.name):
        if address.account_id == main_address.account_id:
            urls.append(sources[address])
    return urls, is_refused or not sources.keys() <= own


def _least_sizes(
    destinations: Mapping[str, DescribedQueue],
    parked_urls: Iterable[str],
    make_client: ClientFactory,
) -> dict[str, int]:
    """Return the smallest MaximumMessageSize of each destination, its DLQ and the parked queues."""
    other_urls = {queue.dead_letter_url for queue in destinations.values()}
    others: dict[str | None, int] = {}
    for queue in _described([*filter(None, other_urls), *parked_urls], make_client):
        others[queue.url] = _size(queue)

    sizes: dict[str, int] = {}
    for url, queue in destinations.items():
        passed = [others.get(other) for other in (queue.dead_letter_url, *parked_urls)]
        sizes[url] = min(_size(queue), *filter(None, passed), MAX_MESSAGE_BYTES)
    return sizes


def _size(queue: DescribedQueue) -> int:
    return int(queue.attributes.get("MaximumMessageSize", MAX_MESSAGE_BYTES))


def _described(urls: Iterable[str], make_client: ClientFactory) -> Iterator[DescribedQueue]:
    """Describe the queues that the run may see; the others are left out."""
    for queue in _described_or_fault(urls, make_client):
        if isinstance(queue, DescribedQueue):
            yield queue


def _described_or_fault(
    urls: Iterable[str], make_client: ClientFactory
) -> list[DescribedQueue | QueueError]:
    """Describe each queue, several at a time; an error in place of one that SQS does not."""

    def ask(url: str) -> DescribedQueue | QueueError:
        try:
            return described(url, make_client)
        except QueueError as error:
            return error

    with ThreadPoolExecutor(CONCURRENT_CALLS, "queues") as executor:
        return list(executor.map(ask, urls))
