"""Everything the core raises on purpose. Imports nothing.

DlqReplayError
├── SettingsError            the configuration is wrong: fail the start, fix what it lists
├── MalformedEventError      this is no SQS event: fail the invocation, nothing was touched
├── MalformedMessageError    one record cannot be read: leave it in its queue, go on
├── QueueError               SQS could not be read or asked: the message is as it was
└── BreakerTableError        the circuit breaker's state: go on with what is known of it

A refused *send* is not an exception: it is a value (``sending.SendResult``), because one
call carries ten messages and each has its own fate.
"""

from collections.abc import Sequence


class DlqReplayError(Exception):
    """Base of every error that this package raises on purpose."""


class SettingsError(DlqReplayError):
    """The configuration has faults. Nothing was read or sent; fix all of ``faults`` at once.

    Attributes:
        faults: one sentence per fault: the name, its value, the rule.
    """

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("invalid configuration:\n" + "\n".join(f"  {f}" for f in self.faults))


class MalformedEventError(DlqReplayError):
    """The event did not come from SQS. Raised before any message is touched.

    Letting it fail the invocation is safe: whatever sent the event keeps it.
    """


class MalformedMessageError(DlqReplayError):
    """One message cannot be read. Leave it where it is; the others go on."""


class QueueError(DlqReplayError):
    """SQS answered a receive, a delete or a question about a queue with an error.

    Nothing may be assumed to have happened; repeating the call is safe.
    """


class BreakerTableError(DlqReplayError):
    """The state of the circuit breakers could not be read or changed, or the answer was lost.

    The text is one line without any part of a message. Go on with the last known state.
    """
