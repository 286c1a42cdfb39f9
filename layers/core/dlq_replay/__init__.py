"""The pure core of dead-letter replay for Amazon SQS.

Read it bottom-up; ``pyproject.toml`` has the layers. A module's first line says what it is.

- ``errors``, waits (``backoff``, ``retry``), ``text``: masks, and what errors have in common
- ``wire``: messages, attributes and context; events of Lambda
- ``rules``: what is to be done with a dead letter, and the copy that does it; ``settings``
- ``replaying``: the use case, and what it counts
- ``aws``: adapters to queues and tables
- ``consumer``: the kit for consumers of the main queue, which nothing above imports
"""

__version__ = "0.1.0"
