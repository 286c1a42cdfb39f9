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
    """A call that sends nothing failed, or its answer was lost: it is safe to repeat it.

    Attributes:
        code: SQS's code, or the name of botocore's exception; ``refusals.refusal_kind`` says
            whether a repeat may succeed.
    """

    def __init__(self, text: str, code: str = "") -> None:
        self.code = code
        super().__init__(text)


class QueueGoneError(QueueError):
    """The queue does not exist."""


class TableError(DlqReplayError):
    """The failure table could not be read or changed, or the answer was lost: go on without it.

    DynamoDB may have made the change or not. The text is one line without any part of a message.
    """


class VisibilityLostError(DlqReplayError):
    """The message may be visible again: another consumer may have received it.

    Stop before the next effect that must not happen twice, and do not delete the message. Let the
    error leave the block, or continue with the other messages.

    Attributes:
        message_id: of the message.
    """

    def __init__(self, message_id: str) -> None:
        self.message_id = message_id
        why = "no extension of its visibility timeout was confirmed in time"
        super().__init__(f"message {message_id}: {why}")


class BehindFailureError(DlqReplayError):
    """A message of a FIFO queue was not processed, because an earlier one failed.

    Never raised, but recorded: so a reader of the failure table can tell which did not fail itself.
    """

    def __init__(self) -> None:
        super().__init__("not tried: it waited behind a failed message")
