"""Everything the core raises on purpose. Imports nothing.

A refused *send* is not an exception but a value (``sending.SendResult``): one call carries up to
ten messages, and each has its own result.
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
    """The event did not come from SQS. Raised before any message is sent or deleted.

    Let it fail the invocation. Nothing is lost: the sender of the event keeps it.
    """


class MalformedMessageError(DlqReplayError):
    """One message cannot be read. Leave it in its queue and continue with the others."""


class QueueError(DlqReplayError):
    """A receive, a delete or a query about a queue failed, or its answer was lost.

    SQS may have carried out the call or not. It is safe to repeat it.
    """


class TableError(DlqReplayError):
    """The failure table could not be read or changed, or the answer was lost: go on without it.

    DynamoDB may have made the change or not. The text is one line without any part of a message.
    """
