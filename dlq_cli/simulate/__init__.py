"""Simulates a replay policy in an outage of the consumer: ``dlq simulate --help``.

==============  =========================================================================
``model``       the outage: main queue, consumer, DLQ, and the product's ``Replayer``
``bill``        requests, invocations and their cost at list prices
==============  =========================================================================
"""
