"""The verbs that only read.

``show``: one dead letter's history. ``status``: counts. ``export``: the messages of a group.
"""

UNDECIDED = "undecided"
"""Archived, and neither sent nor discarded nor restored by any plan."""
