"""Invokes the built function with every event of ``events/``, and shows what it sends.

``engines``: run the function, in Docker or with the Runtime API's emulator. ``trial``: one event on
empty queues. ``__main__``: the command line.
"""
