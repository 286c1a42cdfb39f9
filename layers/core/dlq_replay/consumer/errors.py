"""What the consumer kit raises on purpose.

DlqReplayError
├── VisibilityLostError       another consumer may have the message: stop, do not delete it
│   └── VisibilityLimitError  12 hours have passed: stop, and split the work
├── InProgressError           another worker is processing the message: leave it in its queue
└── BehindFailureError        recorded, never raised: the message itself did not fail
"""

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


class InProgressError(DlqReplayError):
    """Another worker is processing this message, or crashed during it a short time ago.

    Report the message as failed and do not delete it. SQS delivers it again. By then the work is
    done, or the other worker counts as crashed and the message is processed.

    Attributes:
        first_id: of the message.
    """

    def __init__(self, first_id: str) -> None:
        self.first_id = first_id
        super().__init__(f"message {first_id}: another worker is processing it, or crashed")


class BehindFailureError(DlqReplayError):
    """A message of a FIFO queue was not processed, because an earlier one failed.

    Never raised. It is recorded in the failure table instead of the batch processor's exception, so
    that a reader of the table can tell which messages did not fail themselves.
    """

    def __init__(self) -> None:
        super().__init__("not tried: it waited behind a failed message")
