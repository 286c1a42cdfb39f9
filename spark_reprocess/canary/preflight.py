"""Preflight check of a canary: whether its queues can show a failure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from spark_reprocess.canary.observation_window import Redelivery
from spark_reprocess.canary.options import CanaryOptions
from spark_reprocess.canary.probe import WatchedQueues, queue_url_beside
from spark_reprocess.clients import ClientFactory, require_queue
from spark_reprocess.errors import InputError


@dataclass(frozen=True, slots=True)
class Preflight:
    """The queues of a canary that passed the check.

    Attributes:
        redelivery: of the destination.
        queues: to watch.
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
        """Check every queue that has to be watched.

        Args:
            options: of the canary.
            destination: the URL of the main queue.
            attributes: its attributes.
            make_client: for calls to SQS.

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
            # If its counts cannot be read, canaries that were not parked would count as good.
            require_queue("--canary, the destination's DLQ", dead_letters, make_client)
        return cls(redelivery, WatchedQueues(destination, dead_letters, parked))
