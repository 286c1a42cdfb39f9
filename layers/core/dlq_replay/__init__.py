"""The pure core of dead-letter replay for Amazon SQS.

Read it bottom-up; each module imports only what stands above it in this list:

====================  ==============================================================
``errors``            what can go wrong, and what the caller then does
``backoff``           how long to wait: full jitter
``retry``             a call that is repeated, within a deadline
``attributes``        one typed SQS message attribute
``addresses``         a queue's account and name, from its URL or ARN
``masks``             what no text that we keep or show may hold, known by its look
``garbage``           how often Python looks for garbage
``context``           the ``sqs-dlq-context`` attribute
``history``           what our two attributes say of a copy
``message``           one received copy, and one entry to send; conversions both ways
``failures``          why a consumer failed on a copy, as it was recorded
``policy``            the numbers the rules go by
``breaker``           the circuit breaker: when it opens, what passes it, when it closes
``outgoing``          what a replayed, held or parked copy looks like on the wire
``decision``          the rules: replay, hold or park
``settings``          the environment, read once, all faults together
``events``            a Lambda event, record by record
``plan``              the decisions on a batch, and the order within its groups
``sending``           confirmed sends, in batches, in order, within the time left
``breaker_worker``    what one worker counts and changes for the circuit breakers
``holding``           waits in place, for FIFO
``replay``            the use case: every message of a batch ends in one outcome
``measures``          what is counted and measured, under which names
``emf``               measurements as log lines that CloudWatch turns into metrics
``deadline``          an adapter: no try of a call begins after the invocation's deadline
``sqs``               an adapter: boto3's shapes and errors of SQS
``failure_table``     an adapter: the recorded failures in DynamoDB
``breaker_table``     an adapter: the circuit breakers in the same table
``queue_metric``      an adapter: what CloudWatch says that the main queue deleted
``consumer``          the kit for consumers of the main queue; nothing above needs it
====================  ==============================================================
"""

__version__ = "0.1.0"
