"""Compares the product with the alternatives: ``make bench``.

A benchmark is a module with ``measure(rig) -> list of findings``. A finding is a figure and its
target. README.md in this folder explains how to read them. In reading order:

================  ==============================================================
``findings``      a figure, its values and its target; the table and the JSON
``rig``           the server with its latency, turns and sizes
``replay``        the replay function against one invocation and one send a message
``cold_start``    its start against a program that only imports boto3
``small``         verbs over a hundred messages against a bare Spark session
``verbs``         verbs of the Spark job as processes
``transfers``     ``drain`` and ``redrive`` against the classical loop
``analysis``      ``analyze`` on the messages of an incident, with known causes
``growth``        a night in an old archive against one in a young archive
================  ==============================================================
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The repository."""
