"""When a queue counts as empty. Pure.

An empty answer is not an empty queue: a short poll asks some of SQS's servers only, and messages
may be on their way. So it takes several in a row, and SQS's own count of visible messages; that
count is approximate and may lag by a minute
(https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-resources-required-process-messages.html),
so it is not believed for ever either.
"""

from collections.abc import Callable
from dataclasses import dataclass

EMPTY_POLLS = 3
"""So many empty answers in a row, and SQS is asked what it counts."""

LAST_POLL = 12
"""So many in a row are the end, whatever SQS counts. On a FIFO queue messages are visible and yet
not to be had while their group is in flight elsewhere."""


@dataclass(slots=True)
class Emptiness:
    """Looks at one task's answers, one after the other.

    Attributes:
        count_visible: asks the queue how many messages it counts as visible; None where it does
            not say.
    """

    count_visible: Callable[[], int | None]
    _empty_polls: int = 0
    _is_empty: bool = False

    def saw(self, messages: int) -> None:
        """Take note of an answer with so many messages."""
        self._empty_polls = 0 if messages else self._empty_polls + 1
        if self._empty_polls >= LAST_POLL:
            self._is_empty = True
        elif self._empty_polls and self._empty_polls % EMPTY_POLLS == 0:
            self._is_empty = self.count_visible() == 0
        else:
            self._is_empty = False

    @property
    def is_empty(self) -> bool:
        """Whether to stop asking."""
        return self._is_empty

    @property
    def was_empty(self) -> bool:
        """Whether the last answer was empty."""
        return self._empty_polls > 0

    def wait_seconds(self, wanted: int) -> int:
        """How long the next poll is to wait. One of at least a second asks all of SQS's servers."""
        return wanted if self._empty_polls < EMPTY_POLLS else max(1, wanted)
