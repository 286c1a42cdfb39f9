"""What the consumer kit raises on purpose."""

from dlq_replay.errors import DlqReplayError


class VisibilityLostError(DlqReplayError):
    """The message may be visible again: another consumer may have received it.

    Stop before the next effect that must not happen twice, and do not delete the message. Let the
    error leave the block, or continue with the other messages.

    Attributes:
        message_id: of the message.
        detail: the cause, in one line without any part of the message.
    """

    def __init__(self, message_id: str, detail: str) -> None:
        self.message_id = message_id
        self.detail = detail
        super().__init__(f"message {message_id}: {detail}")


class VisibilityLimitError(VisibilityLostError):
    """The 12 hours have passed for which SQS can hide a message after its receive.

    Stop as for the base class. The next receive would end the same way: save the progress, split
    the work into smaller messages, or run it elsewhere.
    """


class BehindFailureError(DlqReplayError):
    """A message of a FIFO queue was not processed, because an earlier one failed.

    Never raised. It is recorded in the failure table instead of the batch processor's exception, so
    that a reader of the table can tell which messages did not fail themselves.
    """

    def __init__(self) -> None:
        super().__init__("not tried: it waited behind a failed message")
