"""The product measured against what one would use instead: ``make bench``.

Every benchmark is a module with ``measure(rig) -> list of findings``. A finding is a figure, in
most cases the ratio of two medians that were measured by turns on one machine, and the target that
it must reach. README.md beside this file says how to read them.

====================  ==============================================================
``findings``          a figure, how it spreads, and its target
``rig``               what a benchmark is given: a server with latency, turns, a place to speak
``invocation``        a Lambda invocation with dead letters: JSON in, the handler, JSON out
``public_app``        baseline (a): one invocation and one SendMessage per dead letter
``redrive_loop``      baselines (b) and (c): receive, send, delete in turn; SQS's own redrive
``replay``            the replay function against (a)
``parked``            parked messages of 1 KB, in a queue or in an archive
``verbs``             verbs of the Spark job as processes; ``timed_verb`` is the process
``drain``             the verb against (b)
``redrive``           the verb against (b) and (c)
``cold_start``        its start against the start of any program with boto3
``requests``          SQS requests of drain and redrive
``parked_messages``   messages as an incident leaves them, with known causes
``parked_archive``    the same as an archive
``analysis``          ``analyze`` on a million messages and on a quarter of them
``report``            the table, and the same as JSON with the machine
``chart``             the same as a picture, and as the README's table; ``publish`` puts both there
====================  ==============================================================
"""

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The repository."""
