"""The verbs that only read: ``show``, one dead letter's history, and ``status``, counts."""

UNDECIDED = "undecided"
"""Archived, and neither sent nor discarded nor restored by any plan."""
