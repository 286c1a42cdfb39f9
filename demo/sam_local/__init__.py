"""The built function under ``sam local``: every event of ``events/``, and what it does to queues.

``engines``: who runs the function, Docker or the Runtime API's emulator. ``trial``: one event on
empty queues. ``__main__``: the command line.
"""
