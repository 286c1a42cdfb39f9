"""botocore's descriptions of AWS's services, megabytes of JSON, parsed once in a process."""

from functools import cache

import botocore.session


def parse_once() -> None:
    """Have all sessions of this process share a loader, which keeps what it has parsed.

    Each session parses everything again otherwise: a tenth of a second for a client.
    """
    botocore.session.create_loader = cache(botocore.session.create_loader)
