"""What the consumer kit raises on purpose.

DlqReplayError
├── VisibilityLostError       another consumer may have the message: stop, keep nothing
│   └── VisibilityLimitError  12 hours are over: stop, and cut the work into smaller messages
├── InProgressError           another worker has the message in hand: leave it in its queue
└── BehindFailureError        recorded, never raised: the message itself did not fail
"""

from dlq_replay.errors import DlqReplayError


class VisibilityLostError(DlqReplayError):
    """A message is not certainly hidden any more: another consumer may have received it.

    Stop before the next effect that must not happen twice, and do not delete the message. Let
    the error out of the block, or go on with the other messages.

    Attributes:
        message_id: whose visibility was lost.
        detail: why, in one line without anything of the message.
    """

    def __init__(self, message_id: str, detail: str) -> None:
        self.message_id = message_id
        self.detail = detail
        super().__init__(f"message {message_id}: {detail}")


class VisibilityLimitError(VisibilityLostError):
    """SQS hides no message for more than 12 hours after its receive, and they are over.

    Stop as for the base class. The next receive would end the same way: save the progress, cut
    the work into smaller messages, or hand it to something that runs longer.
    """


class InProgressError(DlqReplayError):
    """Another worker has this message in hand, or crashed over it not long ago.

    Report the message as failed and do not delete it. It comes back; by then it is done, or its
    worker counts as crashed and the message is processed.

    Attributes:
        first_id: of the message.
    """

    def __init__(self, first_id: str) -> None:
        self.first_id = first_id
        super().__init__(f"message {first_id}: another worker has it in hand, or crashed")


class BehindFailureError(DlqReplayError):
    """A message of a FIFO queue was not tried, because one before it had failed.

    What the failure table says of it, in place of the batch processor's own word for it: a human
    who reads why messages failed must see which did not. Nothing raises it.
    """

    def __init__(self) -> None:
        super().__init__("not tried: it waited behind a failed message")
