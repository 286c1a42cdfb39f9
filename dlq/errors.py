"""The errors that end a verb. Imports nothing.

What SQS does with one message is never an exception: it is a value, and the summary counts it.
"""


class JobError(Exception):
    """Base of the errors that end a verb. The text is one sentence, without a message's body."""


class InputError(JobError):
    """An argument, a plan or a queue is wrong. Nothing was sent or deleted."""


class SqlError(InputError):
    """An operator's SQL is wrong, or fails on a message. The text quotes the SQL.

    Attributes:
        unquoted: the text without any part of the SQL, which may name a person.
    """

    def __init__(self, text: str, unquoted: str) -> None:
        super().__init__(text)
        self.unquoted = unquoted


class BusyError(InputError):
    """Another run works on the archive. Run the same command again later."""


class ArchiveError(JobError):
    """The archive cannot be read or written. Whatever reads or writes it may raise this.

    A drain deletes only messages that are written, so each is in the queue or in the archive.
    """


def without_sql(error: JobError) -> str:
    """Return the text of an error without any part of an operator's SQL."""
    return error.unquoted if isinstance(error, SqlError) else str(error)
