"""The consumer kit: optional helpers for consumers of the main queue.

No module of the core imports it, and importing this package loads nothing. Bottom-up:

====================  ==============================================================
``errors``            what the kit raises, and what the consumer then does
``identity``          the id that a message keeps through replay and redrive
``heartbeat``         keeps received messages invisible during the work
``idempotency``       processes a message once that arrives twice (needs Powertools, boto3)
``failures``          records why a message failed, for the replay and the analysis
====================  ==============================================================
"""
