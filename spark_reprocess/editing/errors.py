"""The error of an edit that does not fit a message. Imports nothing."""


class EditError(Exception):
    """The edit does not fit this message; the text says why, without a part of the message.

    The caller leaves the message where it is, counts it and reports its id.
    """
