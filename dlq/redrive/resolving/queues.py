"""The queues of a redrive: where messages come from, and where they go."""

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress

from dlq.aws.clients import (
    ClientFactory,
    Queue,
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
) -> tuple[Queues, dict[str, Queue]]:
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
    main, parked = request.destination, request.parked_queue_url
    option = "--to-queue-url" if request.to_queue_url else "--main-queue-url"
    given = require_queue(option, main, make_client)
    if parked is not None:
        require_queue_url("--parked-queue-url", parked)
    dead_letters = given.dead_letter_url
    sources, is_shared = _sources(main, dead_letters, parked, make_client)
    destinations = {main: given}
    if not request.to_queue_url:
        destinations |= {queue.url: queue for queue in _described(sources, make_client)}
    queues = Queues(
        destination=main,
        parked=parked,
        is_named=bool(request.to_queue_url),
        sources={QueueAddress.from_url(url).name: url for url in destinations},
        dead_letter_queue=QueueAddress.from_url(dead_letters).name if dead_letters else None,
        max_message_bytes=_least_size(destinations.values(), parked, make_client),
        is_shared=is_shared,
        includes_foreign=request.include_foreign,
    )
    return queues, destinations


def _sources(
    main: str, dead_letters: str | None, parked: str | None, make_client: ClientFactory
) -> tuple[list[str], bool]:
    """Return the other queues whose messages may be parked where *main*'s are; and if there may be.

    There may be some although none is known, where SQS does not let us ask.
    """
    if dead_letters is None:
        return [], False
    home = QueueAddress.from_url(main)
    own = {home, QueueAddress.from_url(dead_letters)}
    feeding = {QueueAddress.from_url(dead_letters): dead_letters}
    answers = [] if parked is None else [dead_letter_sources(parked, make_client)]
    feeding |= (answers and answers[0]) or {}
    answers += [dead_letter_sources(url, make_client) for url in feeding.values()]
    found = {address: url for one in answers for address, url in (one or {}).items()}
    urls = [
        found[address]
        for address in sorted(found.keys() - own - feeding.keys(), key=lambda one: one.name)
        if address.account_id == home.account_id
    ]
    return urls, None in answers or not found.keys() <= own


def _least_size(
    destinations: Collection[Queue], parked: str | None, make_client: ClientFactory
) -> int:
    """Return the smallest MaximumMessageSize of destinations, their DLQs and the parked queue."""
    others = {parked, *(one.dead_letter_url for one in destinations)} - {None}
    known = [*destinations, *_described(map(str, others), make_client)]
    return min(int(one.attributes.get("MaximumMessageSize", MAX_MESSAGE_BYTES)) for one in known)


def _described(urls: Iterable[str], make_client: ClientFactory) -> Iterator[Queue]:
    """Describe the queues that the run may see; the others are left out."""
    for url in urls:
        with suppress(QueueError):
            yield described(url, make_client)
