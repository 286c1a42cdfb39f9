"""The verbs that only read.

``show``: the history of one dead letter, or of one run; ``export``: the messages of a group, for
``show --out``. ``status``: counts. ``outcomes``: what became of a plan's messages, on every screen.
"""
