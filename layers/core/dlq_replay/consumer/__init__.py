"""The consumer kit: what a queue's consumer may add to get along with replay. Optional.

Nothing in the core imports it, and importing this package loads nothing. Bottom-up:

====================  ==============================================================
``errors``            what a consumer is told, and what it then does
``identity``          the id that a message keeps through replay and redrive
``record_handlers``   runs the handler of one record inside a context manager
``heartbeat``         keeps received messages invisible while work goes on
``idempotency``       a message that comes twice is processed once (needs Powertools, boto3)
``failures``          why a message failed, recorded for the replay and the analysis
====================  ==============================================================
"""
