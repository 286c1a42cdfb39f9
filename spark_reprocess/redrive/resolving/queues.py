"""The queues of a redrive: where messages come from, and where they go."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - its name everywhere

from dlq_replay.errors import QueueError
from dlq_replay.rules.policy import MAX_MESSAGE_BYTES
from dlq_replay.wire.addresses import QueueAddress
from spark_reprocess.archive.ledger.disposition import Disposition
from spark_reprocess.archive.messages.message_order import PARKED_QUEUE
from spark_reprocess.aws.clients import (
    ClientFactory,
    Queue,
    dead_letter_sources,
    described,
    require_queue,
    require_queue_url,
)
from spark_reprocess.redrive.redrive_values import RedriveOptions

SOURCE_COLUMNS = ("parked_reason", "source_queue", "source_arn", "first_seen_at", "plan_id")
"""What tells which queue a message came from first."""

_REASON_FOREIGN = "foreign_source"


@dataclass(frozen=True, slots=True)
class Queues:
    """Which queues a run is about, and what that says of each message. Pure columns.

    Attributes:
        destination: URL of the queue that messages go to.
        parked: URL of the parked queue whose messages the run acts on; None where the archive has
            messages of one parked queue alone.
        is_named: whether the operator named the destination for every message that is not known to
            be foreign. Otherwise it stands for the source of messages that do not name theirs.
        sources: by name, the URLs of the queues whose messages are redriven there; *destination* is
            always one of them.
        dead_letter_queue: name of the destination's dead-letter queue; None for none.
        max_message_bytes: how large a copy may be in any queue on its way until it is parked again.
        is_shared: whether other queues than the destination use its dead-letter queue, or might.
        includes_foreign: whether messages of other and of unknown sources go, too.
    """

    destination: str
    parked: str | None = None
    is_named: bool = True
    sources: Mapping[str, str] = field(default_factory=dict)
    dead_letter_queue: str | None = None
    max_message_bytes: int = MAX_MESSAGE_BYTES
    is_shared: bool = False
    includes_foreign: bool = False

    @property
    def is_fifo(self) -> bool:
        """Whether the destination keeps the order of message groups."""
        return QueueAddress.from_url(self.destination).is_fifo

    def hindrance(self) -> tuple[Column, Column]:
        """Return the disposition of a message that must not be sent, else null; and why.

        What a message's own context says comes first. Without it, what SQS noted when it moved
        the message counts. A message without either was parked unchanged, or by SQS: it is the
        destination's only where no other queue uses that dead-letter queue.
        """
        source = self._source()
        was_foreign = F.coalesce(F.col("parked_reason") == _REASON_FOREIGN, F.lit(False))  # noqa: FBT003
        is_foreign = F.coalesce(~source.isin(*self._known), was_foreign)
        if self.is_named:
            is_foreign &= was_foreign
        may_be_foreign = source.isNull() & ~_has_context() & F.lit(self.is_shared)
        is_of_parked = F.lit(True)  # noqa: FBT003 - a value
        if self.parked is not None:
            address = QueueAddress.from_url(self.parked)
            is_of_parked = F.col(PARKED_QUEUE).eqNullSafe(f"{address.account_id}/{address.name}")
        disposition = F.when(~is_of_parked, Disposition.OTHER_PARKED_QUEUE)
        if not self.includes_foreign:
            disposition = disposition.when(is_foreign, Disposition.FOREIGN).when(
                may_be_foreign, Disposition.UNKNOWN_SOURCE
            )
        is_other = disposition == Disposition.OTHER_PARKED_QUEUE
        queue = F.when(is_other, F.col(PARKED_QUEUE)).otherwise(source)
        is_known = is_other | (disposition == Disposition.FOREIGN)
        return disposition, F.when(is_known, F.coalesce(queue, F.lit("not recorded")))

    def destination_of(self) -> Column:
        """Return ``DESTINATION`` of a message that nothing hinders: its own source queue."""
        if self.is_named:
            return F.lit(self.destination)
        pairs = [F.lit(part) for pair in self._known.items() for part in pair]
        return F.coalesce(F.create_map(*pairs)[self._source()], F.lit(self.destination))

    @property
    def _known(self) -> Mapping[str, str]:
        return {**self.sources, QueueAddress.from_url(self.destination).name: self.destination}

    def _source(self) -> Column:
        """Name of the queue that a message came from first; null where nothing records it."""
        moved_from = F.substring_index("source_arn", ":", -1)
        is_direct = ~_has_context() & (moved_from != F.lit(self.dead_letter_queue or ""))
        return F.coalesce("source_queue", F.when(is_direct, moved_from))


def _has_context() -> Column:
    seen = F.col("first_seen_at").cast("string")
    return F.coalesce("parked_reason", seen, "plan_id").isNotNull()


def find_queues(
    options: RedriveOptions, make_client: ClientFactory
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
    main, parked = options.destination, options.parked_queue_url
    option = "--to-queue-url" if options.to_queue_url else "--main-queue-url"
    given = require_queue(option, main, make_client)
    if parked is not None:
        require_queue_url("--parked-queue-url", parked)
    dead_letters = given.dead_letter_url
    sources, is_shared = _sources(main, dead_letters, parked, make_client)
    destinations = {main: given}
    if not options.to_queue_url:
        destinations |= {queue.url: queue for queue in _described(sources, make_client)}
    queues = Queues(
        destination=main,
        parked=parked,
        is_named=bool(options.to_queue_url),
        sources={QueueAddress.from_url(url).name: url for url in destinations},
        dead_letter_queue=QueueAddress.from_url(dead_letters).name if dead_letters else None,
        max_message_bytes=_least_size(destinations.values(), parked, make_client),
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
