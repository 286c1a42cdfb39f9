"""The queues of a redrive: where messages come from, and where they go."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress

from dlq.aws.clients import (
    ClientFactory,
    DescribedQueue,
    dead_letter_sources,
    described,
    require_queue,
    require_queue_url,
)
from dlq.ids.origins import Queues
from dlq.redrive.request import RedriveRequest
from dlq_replay.errors import QueueError
from dlq_replay.rules.policy import MAX_MESSAGE_BYTES
from dlq_replay.wire.addresses import QueueAddress


def find_queues(
    request: RedriveRequest, make_client: ClientFactory
) -> tuple[Queues, dict[str, DescribedQueue]]:
    """Find the queues that the run's messages pass, and the source queues that it may send to.

    Any producer can write a source queue's name into a message. So a queue counts as one only if
    SQS says that its dead letters reach the same dead-letter queue or the run's parked queue, in
    the account of the destination, and if the run may see it.

    Returns:
        The queues, and each possible destination by its URL.

    Raises:
        InputError: ``--parked-queue-url`` is no queue URL, or SQS does not describe the operator's
            destination.
    """
    main_url = request.destination
    parked_url = request.parked_queue_url
    option = "--to-queue-url" if request.to_queue_url else "--main-queue-url"
    main_queue = require_queue(option, main_url, make_client)
    if parked_url is not None:
        require_queue_url("--parked-queue-url", parked_url)

    dlq_url = main_queue.dead_letter_url
    sources, is_shared = _sources(main_url, dlq_url, parked_url, make_client)
    destinations = {main_url: main_queue}
    if not request.to_queue_url:
        for queue in _described(sources, make_client):
            destinations[queue.url] = queue

    queues = Queues(
        destination=main_url,
        parked=parked_url,
        is_named=bool(request.to_queue_url),
        sources={QueueAddress.from_url(url).name: url for url in destinations},
        dead_letter_queue=QueueAddress.from_url(dlq_url).name if dlq_url else None,
        max_message_bytes=_least_size(destinations.values(), parked_url, make_client),
        is_shared=is_shared,
        includes_foreign=request.include_foreign,
    )
    return queues, destinations


def _sources(
    main_url: str, dlq_url: str | None, parked_url: str | None, make_client: ClientFactory
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
    if parked_url is not None:
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


def _least_size(
    destinations: Collection[DescribedQueue], parked_url: str | None, make_client: ClientFactory
) -> int:
    """Return the smallest MaximumMessageSize of destinations, their DLQs and the parked queue."""
    other_urls = {queue.dead_letter_url for queue in destinations}
    other_urls.add(parked_url)
    others = _described(filter(None, other_urls), make_client)

    sizes: list[int] = []
    for queue in (*destinations, *others):
        sizes.append(int(queue.attributes.get("MaximumMessageSize", MAX_MESSAGE_BYTES)))
    return min(sizes)


def _described(urls: Iterable[str], make_client: ClientFactory) -> Iterator[DescribedQueue]:
    """Describe the queues that the run may see; the others are left out."""
    for url in urls:
        with suppress(QueueError):
            yield described(url, make_client)
