"""The canary: a sample of a redrive is sent first, and its failures decide about the rest.

``options``, ``sample``, ``observation_window`` and ``verdict`` do no I/O; ``watch`` is the loop,
``preflight`` checks the queues, and ``probe`` reads them.
"""
