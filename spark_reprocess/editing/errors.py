"""Why an edit leaves a message as it is. Imports nothing."""


class EditError(Exception):
    """The edit does not fit this message; the text says why, without a part of it.

    The caller leaves the message where it is, counts it and names its id.
    """
