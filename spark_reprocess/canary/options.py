"""What is asked of a canary, and whether it can be told at all. Pure."""

import math
from dataclasses import dataclass

from spark_reprocess.canary.share import NONE, Share
from spark_reprocess.canary.vigil import MARGIN_SECONDS, Redelivery
from spark_reprocess.canary.watch import GRACE_SECONDS
from spark_reprocess.errors import InputError

_LOOKS_IN_A_WAIT = 10


@dataclass(frozen=True, slots=True)
class CanaryOptions:
    """How large a canary is and what is made of it.

    Attributes:
        size: messages to send ahead, over all groups; each group gets at least one.
        parked_queue_url: where failures come back.
        wait_seconds: how long to wait for them, None for the least that tells anything.
        max_return: how many, or what share, of a group's canaries may come back.
        is_wait_forced: take *wait_seconds* though a failure may take longer to come back.
        poll_seconds: between two looks at most.
        grace_seconds: see ``watch.GRACE_SECONDS``.
    """

    size: Share
    parked_queue_url: str
    wait_seconds: float | None = None
    max_return: Share = NONE
    is_wait_forced: bool = False
    poll_seconds: float = 5.0
    grace_seconds: float = GRACE_SECONDS

    @property
    def looks_apart_seconds(self) -> float:
        """Between two looks: ``poll_seconds``, or less so that a short wait has ten of them."""
        return min(self.poll_seconds, (self.wait_seconds or math.inf) / _LOOKS_IN_A_WAIT)

    def wait(self, redelivery: Redelivery, failures_in_a_row: int = 1) -> float:
        """Return the seconds to wait at a queue with this *redelivery*.

        Args:
            redelivery: of the destination.
            failures_in_a_row: how many failures have to show before a group has failed, where
                they can only come one behind the other.

        Raises:
            InputError: failures could not show, or not within ``wait_seconds``.
        """
        if self.is_wait_forced and self.wait_seconds is not None:
            return self.wait_seconds
        if not redelivery.dead_letter_arn:
            raise InputError(
                "--canary: the destination has no redrive policy, so a message that fails there "
                "stays there; give the queue a DLQ, or say how long to wait with --canary-wait S "
                "--force-canary-wait"
            )
        least = redelivery.least_wait_seconds(failures_in_a_row)
        if self.wait_seconds is None:
            return least
        if self.wait_seconds < least:
            row = f" x {failures_in_a_row} in a row" if failures_in_a_row > 1 else ""
            raise InputError(
                f"--canary-wait {self.wait_seconds:g}: a failure may need longer to come back: "
                f"visibility timeout {redelivery.visibility_timeout_seconds} s x maxReceiveCount "
                f"{redelivery.max_receive_count}{row} + {MARGIN_SECONDS} s = {least} s; give "
                f"{least} or more, or --force-canary-wait"
            )
        return self.wait_seconds
