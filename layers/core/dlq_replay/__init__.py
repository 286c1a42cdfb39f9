"""The pure core of dead-letter replay for Amazon SQS.

Read it bottom-up; each module imports only what stands above it in this list:

====================  ==============================================================
``errors``            what can go wrong, and what the caller then does
``backoff``           how long to wait: full jitter
``retry``             repeats a call, within a deadline
``attributes``        one typed SQS message attribute
``addresses``         a queue's account and name, from its URL or ARN
``masks``             patterns of secrets and personal data, and how to hide them
``normalization``     what names an error, without what differs between its occurrences
``context``           the ``sqs-dlq-context`` attribute
``history``           reads our two attributes of a copy
``message``           one received copy, and one entry to send; conversions both ways
``failures``          why a consumer failed on a copy, as it was recorded
``policy``            the numbers that the rules use
``breaker``           the circuit breaker: when a limit is set, what it lets through, when it ends
``outgoing``          the wire format of a replayed, held or parked copy
``trial``             the test message of ``dlq doctor``, and how it is recognised
``decision``          the rules: replay, hold or park
``settings``          the environment, read once, all faults together
``events``            reads a Lambda event, record by record
``plan``              the decisions on a batch, and the order within its groups
``sending``           confirmed sends, in batches, in order, within the time left
``breaker_worker``    what one worker counts and changes for the circuit breakers
``returns``           counts what comes back of a redrive
``replay``            the use case: every message of a batch ends in one outcome
``measures``          names and values of the metrics
``deadline``          an adapter: checks the invocation's deadline before each try of a call
``sqs``               an adapter: boto3's shapes and errors of SQS
``failure_table``     an adapter: the recorded failures in DynamoDB
``breaker_table``     an adapter: the circuit breakers in the same table, and their metric
``returns_table``     an adapter: the counters of returns in the same table
``consumer``          the kit for consumers of the main queue; no module above imports it
====================  ==============================================================
"""

__version__ = "0.1.0"
