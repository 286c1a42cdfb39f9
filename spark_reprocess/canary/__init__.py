"""A sample of a redrive goes first; what comes of it decides whether the rest follows.

Read ``share``, ``sampling``, ``vigil`` and ``verdict``, which are pure, then ``watch``, the loop,
and ``live``, which looks at real queues.
"""
