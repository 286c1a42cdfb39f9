"""What is asked of a canary, and whether it can be told at all. Pure."""

from dataclasses import dataclass

from spark_reprocess.canary.share import NONE, Share
from spark_reprocess.canary.vigil import COUNTS_LAG_SECONDS, MARGIN_SECONDS, Redelivery
from spark_reprocess.canary.watch import GRACE_SECONDS
from spark_reprocess.errors import InputError

_LEAST_LOOKS = 10
"""In a wait that is shorter than usual."""

_MOST_LOOKS = 30
"""In a longer one, as far as ``_MOST_SECONDS_APART`` lets it. On a queue with live traffic any look
may show a message that is received a moment later, and two such looks restart the wait."""

_MOST_SECONDS_APART = 30.0
"""So that a backlog that lasts for ``MARGIN_SECONDS`` is seen at two looks."""


@dataclass(frozen=True, slots=True)
class CanaryOptions:
    """How large a canary is and what is made of it.

    Attributes:
        size: messages to send ahead, over all groups; each group gets at least one.
        parked_queue_url: where failures come back.
        wait_seconds: how long to wait for them, None for the least that tells anything.
        max_return: how many, or what share, of a group's canaries may come back.
        is_wait_forced: take *wait_seconds* though a failure may take longer to come back, and
            no more than that instead of ``COUNTS_LAG_SECONDS``.
        consumer_max_seconds: the longest that the consumer keeps one message hidden, None for the
            queue's visibility timeout.
        poll_seconds: between two looks, unless the wait asks for another pace.
        grace_seconds: see ``watch.GRACE_SECONDS``.
    """

    size: Share
    parked_queue_url: str
    wait_seconds: float | None = None
    max_return: Share = NONE
    is_wait_forced: bool = False
    consumer_max_seconds: int | None = None
    poll_seconds: float = 5.0
    grace_seconds: float = GRACE_SECONDS

    def looks_apart_seconds(self, wait_seconds: float) -> float:
        """Between two looks in a wait of *wait_seconds*.

        Less than ``poll_seconds`` where the wait is short, more where it is long.
        """
        least = min(self.poll_seconds, wait_seconds / _LEAST_LOOKS)
        return max(least, min(_MOST_SECONDS_APART, wait_seconds / _MOST_LOOKS))

    def first_look_seconds(self, redelivery: Redelivery) -> float:
        """Return the seconds after the send before which SQS's counts say nothing about it."""
        seconds = redelivery.first_look_seconds
        if self.is_wait_forced and self.wait_seconds is not None:
            return seconds - max(0.0, COUNTS_LAG_SECONDS - self.wait_seconds)
        return seconds

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
        longest = self.consumer_max_seconds or 0
        least = redelivery.least_wait_seconds(failures_in_a_row, longest)
        if self.wait_seconds is None:
            return least
        if self.wait_seconds < least:
            row = f" x {failures_in_a_row} in a row" if failures_in_a_row > 1 else ""
            hidden = f"visibility timeout {redelivery.visibility_timeout_seconds} s"
            if longest > redelivery.visibility_timeout_seconds:
                hidden = f"--consumer-max-seconds {longest} s"
            raise InputError(
                f"--canary-wait {self.wait_seconds:g}: a failure may need longer to come back: "
                f"{hidden} x maxReceiveCount {redelivery.max_receive_count}{row} + "
                f"{MARGIN_SECONDS} s = {least} s; give {least} or more, or --force-canary-wait"
            )
        return self.wait_seconds
