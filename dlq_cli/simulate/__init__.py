"""What a policy does in an outage: ``dlq simulate --help``.

``dlq_replay.decision`` makes the decisions on copies that ``dlq_replay.outgoing`` writes, so the
simulation cannot disagree with the Lambda. It needs the standard library and the core alone.

Messages that cannot be told apart are one *cohort*: those at the same place, in the same step of
time, with the same replay count. What one message does with probability p, a share p of its
cohort does. The result is the expectation, exact up to the length of a step, so that a billion
messages cost no more than a thousand; what one run of a few messages does varies around it.

==============  ===================================================================
``scenario``    the outage, the traffic, the main queue, the consumer
``jitter``      three ways to draw a delay: full (the product's), equal, none
``waits``       how long a dead letter waits, by its replay count: asked of the rules
``timeline``    amounts that fall due later, second by second
``flow``        the messages' way round, step by step
``recovery``    what came of it
``bill``        requests and list prices
``search``      how many replays an outage needs
``figures``     numbers and times as people write them
``braille``     a curve in a terminal
``report``      the answer as text
``growth``      cost by traffic, and where each quota is met
``files``       the answer as JSON and CSV
``arguments``   the command line
==============  ===================================================================
"""
