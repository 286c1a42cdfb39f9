"""The local environment of ``make demo``: everything around the product, but no part of it.

The demo shows how messages fail, are replayed with backoff, held during an outage, parked, analyzed
and redriven. The replay Lambda, the sample consumer and the Spark job are the real ones. The AWS
services, the event source mapping, the consumer's work and the operator are simulated here:

================  =================================================================
``arguments``     the command line, and the folder of a run
``run``           one run, from its options to its exit code
``scenario``      the steps of the demo, in order, on a ``context`` that ``run`` builds
``operator``      the ``dlq`` commands that the steps run
``local_aws``     SQS, DynamoDB and STS on this machine, as processes
``environment``   queues, tables and environment variables
``workload``      the messages: generated, or the user's own (``input_file``)
``producer``      sends the messages
``event_source``  simulates Lambda's event source mapping
``functions``     loads and observes the real functions
``breakers``      the circuit breakers, with rules in seconds
``consumer``      the sample consumer, with the work of ``business``, which fails on purpose
``spark``         the Spark session, which starts in the background
``screen``        the output (``terminal`` redirects everything else to files)
``audit``         checks where every message ended, without the product (``identity``, ``order``)
``sam_local``     ``make sam-local``: the built function in a container
================  =================================================================
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The repository."""

# The Lambda has the core in a layer, the Spark job in a zip; here it is in the source tree.
_CORE = str(ROOT / "layers" / "core")
if _CORE not in sys.path:
    sys.path.insert(0, _CORE)


class DemoError(Exception):
    """The demo cannot continue. The text is shown to the user."""


class InputError(DemoError):
    """The command line or the input file is invalid: exit code 2."""
