"""An operator's desk, with a queue on a server that can be disturbed; and scheduled runs."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3

from dlq.archive.ledger.disposition import Disposition
from dlq.archive.storage.files import Archive, open_archive
from dlq.engine import Engine
from dlq.redrive.summary import RedriveSummary
from dlq.scheduled_run import RunRequest, RunSummary, run
from dlq_replay.aws.sqs import SqsQueue
from dlq_replay.wire.message import Message
from local_sqs.faults import Effect, Fault
from local_sqs.server import RunningServer
from tests.integration.client_at import client_at
from tests.integration.conftest import MakeQueue
from tests.integration.spark_world import archive_of, entry_of, executed, parked, receive_all
from tests.support.approved_plan import planned
from tests.support.ledgers import attempts_of
from tests.support.small_jobs import REDRIVE_ALL

SEND = "SendMessageBatch"


@dataclass(frozen=True)
class Desk:
    """Redrives from here meet what it asks the server for."""

    engine: Engine
    world: RunningServer
    archive: Archive
    plan: str
    destination: SqsQueue
    sent: Sequence[Message]

    def redrive(self, plan: str | None = None, **options: Any) -> RedriveSummary:
        """Carry out the plan, or another one."""
        url = self.destination.url
        chosen = plan or self.plan
        return executed(self.engine, self.archive, chosen, url, make_sender=client_at, **options)

    def at_send(self, number: int, act: Callable[[], None]) -> None:
        """Do something when that many calls have been made, before the next is carried out."""
        self.world.front.faults.add(Fault(Effect.CALL, SEND, nth=number, callback=act))

    def meet(self, effect: Effect, **fields: Any) -> None:
        self.world.front.faults.add(Fault(effect, SEND, **fields))

    def recorded(self, outcome: Disposition) -> set[str]:
        """The messages of which some result says so."""
        results = [r for attempt in attempts_of(self.archive) for r in attempt.results or ()]
        return {r.message_id for r in results if r.outcome is outcome}

    def arrived(self) -> Counter[str]:
        """Return the number of arrivals of each message, by the id of its archived copy."""
        ids = {message.body: message.message_id for message in self.sent}
        return Counter(ids[message.body] for message in receive_all(self.destination))


MakeDesk = Callable[..., Desk]


def set_up(
    engine: Engine,
    world: RunningServer,
    folder: Path,
    messages: Sequence[Message],
    name: str = "main",
) -> Desk:
    """Make a desk; AWS_ENDPOINT_URL must lead to *world*."""
    client = boto3.client("sqs")
    fifo: Any = {"Attributes": {"FifoQueue": "true"}} if name.endswith(".fifo") else {}
    queue = SqsQueue(client, client.create_queue(QueueName=name, **fifo)["QueueUrl"])
    archive = archive_of(folder, messages)
    return Desk(engine, world, archive, planned(archive), queue, messages)


def standard(count: int) -> list[Message]:
    return [parked(2 * n) for n in range(count)]


class ScheduledRuns:
    """A parked and a main queue, an archive and a policy, and runs over them."""

    def __init__(
        self, engine: Engine, make_queue: MakeQueue, folder: Path, policy: str = REDRIVE_ALL
    ) -> None:
        self.engine = engine
        self.make_queue = make_queue
        self.parked = make_queue("parked")
        self.main = make_queue("main")
        self.archive = str(folder / "archive")
        self.policy = folder / "policy.yaml"
        self.policy.write_text(policy)

    def park(self, *messages: Message) -> None:
        """Put up to ten messages into the parked queue."""
        self.parked.send([entry_of(message) for message in messages])

    def options(self, **changes: Any) -> RunRequest:
        usual = {
            "parked_queue_urls": (self.parked.url,),
            "to_queue_url": self.main.url,
            "policy": str(self.policy),
            "execute": True,
            "reason": "every night",
        }
        return RunRequest(**{**usual, **changes})

    def run(self, **changes: Any) -> RunSummary:
        return run(self.engine, open_archive(self.archive), self.options(**changes))
