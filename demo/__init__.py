"""The local environment of ``make demo``: everything around the product, nothing of it.

A stranger watches messages fail, back off, come back, get parked, be explained and be put right.
The replay Lambda, the sample consumer and the Spark job are the real ones. The AWS services, the
event source mapping, the consumer's work and the operator are played here:

================  =================================================================
``arguments``     the command line, and the folder of a run
``run``           one run from its options to its exit code
``scenario``      the acts, in order, on a ``context`` that ``run`` builds
``operator``      the verbs of the Spark job that the acts run, and the edit of the plan
``local_aws``     SQS, DynamoDB and STS on this machine, as processes
``environment``   queues, tables and environment variables
``workload``      the messages: invented ones, or the user's own (``input_file``)
``producer``      sends them
``event_source``  what Lambda does between a queue and a function
``functions``     the real functions, loaded and watched
``consumer``      the sample consumer, given the work of ``business``, which fails on purpose
``spark``         the Spark session, started while the queues work
``screen``        what the viewer sees (``terminal``: and only that)
``audit``         where every message ended, from outside the product (``identity``, ``order``)
``sam_local``     ``make sam-local``: the built function in a container
================  =================================================================
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The repository."""

# The Lambda finds the core in a layer, the Spark job in a zip; here it stands in the tree.
_CORE = str(ROOT / "layers" / "core")
if _CORE not in sys.path:
    sys.path.insert(0, _CORE)


class DemoError(Exception):
    """The demo cannot go on; the text is what the viewer reads."""


class InputError(DemoError):
    """The command line or the input file is at fault: exit 2."""
