"""The verbs that only read.

``show``: the history of one dead letter, or of one run. ``status``: counts. ``export``: the
messages of a group. ``outcomes``: what became of a plan's messages, on every screen.
"""
