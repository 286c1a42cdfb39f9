"""Simulates a replay policy in an outage of the consumer: ``dlq simulate --help``.

==============  =========================================================================
``model``       the outage: main queue, consumer, DLQ, and the product's ``Replayer``
``breaker``     the product's circuit breaker, over a table in memory
``bill``        requests, invocations and their cost at list prices
==============  =========================================================================
"""
