"""The ramp: a redrive goes out in steps, and what comes back of a step decides about the next.

``rule`` does no I/O; ``readings`` asks queues, metrics and the function's trigger.
"""
