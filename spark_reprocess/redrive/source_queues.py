"""Asks SQS which queues a redrive is about: where messages come from, and where they go."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from dlq_replay.addresses import QueueAddress
from dlq_replay.errors import QueueError
from dlq_replay.policy import MAX_MESSAGE_BYTES
from dlq_replay.sqs import SqsQueue
from spark_reprocess.canary.options import Redelivery
from spark_reprocess.canary.probe import queue_url_beside
from spark_reprocess.clients import ClientFactory, dead_letter_sources, require_queue_url
from spark_reprocess.redrive.dispositions import (
    Queues,
)
from spark_reprocess.redrive.redrive_values import RedriveOptions

Attributes = Mapping[str, str]


def find_queues(
    options: RedriveOptions, attributes: Attributes, make_client: ClientFactory
) -> tuple[Queues, dict[str, Attributes]]:
    """Find the queues that the run's messages pass, and the source queues that it may send to.

    Any producer can write a source queue's name into a message. So a queue counts as one only if
    SQS says that its dead letters reach the same dead-letter queue or the run's parked queue, in
    the account of the destination, and if the run may see it.

    Args:
        options: of the run.
        attributes: of the destination that the operator gave.
        make_client: for the questions.

    Returns:
        The queues, and the attributes of each possible destination by its URL; the one that the
        operator gave is the first.

    Raises:
        InputError: ``--parked-queue-url`` is no queue URL.
    """
    main, parked = options.destination, options.parked_queue_url
    if parked is not None:
        require_queue_url("--parked-queue-url", parked)
    dead_letter_arn = Redelivery.of(attributes).dead_letter_arn
    dead_letters = queue_url_beside(main, dead_letter_arn)
    sources, is_shared = _sources(main, dead_letters, parked, make_client)
    destinations = {main: attributes}
    if not options.to_queue_url:
        destinations |= dict(_described(sources, make_client))
    limits = [_max_message_bytes(one) for one in destinations.values()]
    on_the_way = filter(None, (dead_letters, parked))
    limits += [_max_message_bytes(one) for _, one in _described(on_the_way, make_client)]
    queues = Queues(
        destination=main,
        parked=parked,
        is_named=bool(options.to_queue_url),
        sources={QueueAddress.from_url(url).name: url for url in destinations},
        dead_letter_queue=QueueAddress.from_arn(dead_letter_arn).name if dead_letter_arn else None,
        room_bytes=min(limits),
        is_shared=is_shared,
        includes_foreign=options.include_foreign,
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


def _described(urls: Iterable[str], make_client: ClientFactory) -> Iterator[tuple[str, Attributes]]:
    """Describe the queues that the run may see; the others are left out."""
    for url in urls:
        with suppress(QueueError):
            yield url, SqsQueue(make_client(url), url).describe()


def _max_message_bytes(attributes: Attributes) -> int:
    return int(attributes.get("MaximumMessageSize", MAX_MESSAGE_BYTES))
