"""The pure core of dead-letter replay for Amazon SQS.

Read it bottom-up; ``pyproject.toml`` has the layers. A module's first line says what it is.

- errors, waits and text: ``errors``, ``backoff``, ``retry``, ``masks``, ``normalization``
- what is on the wire: ``attributes``, ``addresses``, ``context``, ``history``, ``message``,
  ``outgoing``, ``trial``
- what is decided by: ``failures``, ``policy``, ``breaker``, ``decision``, ``settings``, ``events``,
  ``plan``
- the use case, and what it counts: ``sending``, ``breaker_worker``, ``returns``, ``replay``,
  ``measures``
- adapters to AWS: ``deadline``, ``sqs``, ``failure_table``, ``breaker_table``, ``returns_table``
- the kit for consumers of the main queue, which no module above imports: ``consumer``
"""

__version__ = "0.1.0"
