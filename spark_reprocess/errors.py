"""Everything the job raises on purpose. Imports nothing.

JobError
├── InputError    an argument, a plan or a queue is wrong: fix what the sentence names
│   └── BusyError  somebody else is at work on the archive: wait for the end of that
└── ArchiveError  the archive cannot be read or written: fix the place it names

What SQS does with one message is never an exception: it is a value, and the summary counts it.
"""


class JobError(Exception):
    """Base of the errors that end a verb; the text is one sentence for a human, without a body."""


class InputError(JobError):
    """What the verb was given cannot be acted on. Nothing was sent or deleted."""


class BusyError(InputError):
    """Somebody else is at work on the archive. The same command does it later."""


class ArchiveError(JobError):
    """The archive cannot be read or written.

    A drain deletes only what was written before, so messages are where they were or in the archive.
    """
