"""Compares the product with the alternatives: ``make bench``.

Every benchmark is a module with ``measure(rig) -> list of findings``. A finding is a figure and its
target. Most figures are ratios of product and baseline, measured alternately on one machine.
README.md in this folder explains how to read them.

====================  ==============================================================
``findings``          a figure, its values, and its target
``rig``               the input of a benchmark: a server with latency, turns and sizes
``invocation``        a Lambda invocation with dead letters: JSON in, the handler, JSON out
``public_app``        baseline (a): one invocation and one SendMessage per dead letter
``redrive_loop``      baselines (b) and (c): receive, send and delete in a loop; SQS's own redrive
``replay``            the replay function against (a)
``parked``            parked messages of 1 KB, in a queue or in an archive
``verbs``             verbs of the Spark job as processes; ``timed_verb`` is the process
``drain``             the verb against (b)
``redrive``           the verb against (b) and (c)
``cold_start``        start of the replay function against a program that only imports boto3
``requests``          SQS requests of drain and redrive
``parked_messages``   generates the messages of an incident, with known causes
``parked_archive``    writes them as an archive
``analysis``          ``analyze`` on a million messages and on a quarter of them
``report``            prints the table; writes the results as JSON
``chart``             draws the chart and formats the README's table; ``publish`` writes both
====================  ==============================================================
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The repository."""
