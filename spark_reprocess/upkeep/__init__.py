"""The verbs ``status`` and ``show``: what is where, and what happened to one message."""
