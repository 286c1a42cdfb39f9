"""The consumer kit: what a queue's consumer may add to get along with replay. Optional.

Nothing in the core imports it, and importing this package loads nothing. Bottom-up:

====================  ==============================================================
``errors``            what a consumer is told, and what it then does
``clock``             seconds that also pass while the machine sleeps
``rhythm``            how long to hide messages, and how often to say so again
``lease``             how long one received message is certainly hidden
``leases``            those of all messages of a heartbeat: what to extend, what is lost
``visibility``        ChangeMessageVisibilityBatch, result by result
``extender``          carries the decisions of the leases to SQS, one call at a time
``receipts``          message id and receipt handle, in whatever shape a message comes
``record_handlers``   puts the handler of one record into a block of its own
``pacer``             the thread that beats, and that never outlives its owner
``heartbeat``         keeps received messages invisible while work goes on
``identity``          the id that a message keeps through replay and redrive
``idempotency``       a message that comes twice is processed once (needs Powertools, boto3)
``failures``          why a message failed, written down for the replay and the analysis
====================  ==============================================================
"""
