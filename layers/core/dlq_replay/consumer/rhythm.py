"""How long to hide messages, and how often to say so again. Pure."""

from dataclasses import dataclass

from dlq_replay.errors import SettingsError

LIMIT_SECONDS = 43_200
"""SQS hides a message for at most 12 hours after its receive; extending does not move that end.

https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-visibility-timeout.html
"""

_MAX_INTERVAL_SHARE = 0.5
_RETRY_SHARE_OF_TIME_LEFT = 0.25
_RETRIES_PER_INTERVAL = 60


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The numbers a heartbeat goes by.

    Attributes:
        timeout_seconds: each extension hides a message for so long from then on, 1 to 43,200.
            It is also how long a message stays hidden after its worker crashed.
        interval_seconds: between two extensions of a message, at most half of the timeout, so
            that the other half is left for retries.
        received_timeout_seconds: for how long the receive itself hid the message: the queue's
            visibility timeout, unless the receive asked for another.

    Raises:
        SettingsError: a number is out of range; all faults together.
    """

    timeout_seconds: int = 120
    interval_seconds: float = 60.0
    received_timeout_seconds: float = 30.0

    def __post_init__(self) -> None:
        faults = []
        if type(self.timeout_seconds) is not int or not 1 <= self.timeout_seconds <= LIMIT_SECONDS:
            rule = f"must be a whole number from 1 to {LIMIT_SECONDS}"
            faults.append(f"timeout_seconds: {self.timeout_seconds!r} {rule}")
        elif not 0 < self.interval_seconds <= self.timeout_seconds * _MAX_INTERVAL_SHARE:
            rule = "must be above 0 and at most half of timeout_seconds"
            faults.append(f"interval_seconds: {self.interval_seconds!r} {rule}")
        if not 0 <= self.received_timeout_seconds <= LIMIT_SECONDS:
            rule = f"must be from 0 to {LIMIT_SECONDS}"
            faults.append(f"received_timeout_seconds: {self.received_timeout_seconds!r} {rule}")
        if faults:
            raise SettingsError(faults)

    def retry_after_seconds(self, left_seconds: float) -> float:
        """How long to wait after a failed extension with so much time left.

        A quarter of what is left: with the defaults first after 15 s, then sooner and sooner, at
        least a second apart, some 14 tries in all before the timeout ends.
        """
        shortest = self.interval_seconds / _RETRIES_PER_INTERVAL
        return max(left_seconds * _RETRY_SHARE_OF_TIME_LEFT, shortest)
