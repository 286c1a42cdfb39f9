"""The verbs that delete messages from the archive.

``erase``: those that somebody names, with what quotes them. ``expire``: what was decided long ago.
"""
