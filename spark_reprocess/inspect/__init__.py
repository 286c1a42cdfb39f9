"""The verbs that only read.

``show``: one dead letter's history. ``status``: counts. ``export``: the messages of a group.
"""
