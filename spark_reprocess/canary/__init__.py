"""The canary: a sample of a redrive is sent first, and its failures decide about the rest.

``options``, ``sample`` and ``verdict`` do no I/O; ``watch`` is the wait, ``probe`` the queues.
"""
