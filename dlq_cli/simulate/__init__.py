"""Simulates a replay policy in an outage: ``dlq simulate --help``.

The simulation uses the code of the Lambda: ``dlq_replay.decision`` decides about copies that
``dlq_replay.outgoing`` writes. So both always agree.

Messages in the same place, in the same time step and with the same replay count are one *cohort*.
If one message does something with probability p, a share p of its cohort does it. So the result is
the expected value, exact up to the length of a step, and a billion messages take no longer than a
thousand. A real run with few messages varies around it.

==============  ===================================================================
``scenario``    the outage, the traffic, the main queue, the consumer
``jitter``      three ways to draw a delay: full (the product's), equal, none
``waits``       how long a dead letter waits, by its replay count, from the rules
``timeline``    amounts that are due in later steps
``breaker``     the circuit breaker, on expected numbers
``flow``        moves the messages between queues, consumer and Lambda, step by step
``recovery``    the result of a simulation
``bill``        requests and their cost
``prices``      list prices
``report``      the answer as text, with a curve for a terminal
``growth``      cost by traffic, and the traffic at which each quota is reached
``files``       the answer as JSON and CSV
==============  ===================================================================
"""
