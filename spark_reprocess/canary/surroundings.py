"""The queues around a canary: whether a failure there could be told at all."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from spark_reprocess.canary.live import WatchedQueues, queue_url_beside
from spark_reprocess.canary.options import CanaryOptions
from spark_reprocess.canary.vigil import Redelivery
from spark_reprocess.clients import ClientFactory, require_queue
from spark_reprocess.errors import InputError


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where a canary flies.

    Attributes:
        redelivery: of the destination.
        queues: what is watched.
    """

    redelivery: Redelivery
    queues: WatchedQueues

    @classmethod
    def check(
        cls,
        options: CanaryOptions,
        destination: str,
        attributes: Mapping[str, str],
        make_client: ClientFactory,
    ) -> Self:
        """Look at every queue that will have to be watched.

        Args:
            options: of the canary.
            destination: the URL of the main queue.
            attributes: its attributes.
            make_client: for the questions.

        Raises:
            InputError: one cannot be watched, is the wrong one, or would never show a failure.
        """
        parked = options.parked_queue_url
        if parked == destination:
            raise InputError("--parked-queue-url: is the destination itself")
        require_queue("--parked-queue-url", parked, make_client)
        redelivery = Redelivery.of(attributes)
        options.wait(redelivery)
        dead_letters = queue_url_beside(destination, redelivery.dead_letter_arn)
        if dead_letters == parked:
            dead_letters = None
        if dead_letters is not None:
            # Where it cannot be looked at, canaries that nobody parks would count as good.
            require_queue("--canary, the destination's DLQ", dead_letters, make_client)
        return cls(redelivery, WatchedQueues(destination, dead_letters, parked))
