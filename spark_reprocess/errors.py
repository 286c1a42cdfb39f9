"""The errors that end a verb. Imports nothing.

JobError
├── InputError     an argument, a plan or a queue is wrong: fix what the text names
│   └── BusyError  another run works on the archive: wait for its end
└── ArchiveError   the archive cannot be read or written: fix the place that the text names

What SQS does with one message is never an exception: it is a value, and the summary counts it.
"""


class JobError(Exception):
    """Base of the errors that end a verb. The text is one sentence, without a message's body."""


class InputError(JobError):
    """An argument, a plan or a queue is wrong. Nothing was sent or deleted."""


class BusyError(InputError):
    """Another run works on the archive. Run the same command again later."""


class ArchiveError(JobError):
    """The archive cannot be read or written.

    A drain deletes only messages that are written, so each is in the queue or in the archive.
    """
