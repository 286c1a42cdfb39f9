"""The local world of ``make demo``: everything around the product, nothing of it.

A stranger watches messages fail, back off, come back, get parked, be explained and be put right.
The replay Lambda and the Spark job are the real ones; the queues, the event source mapping, the
work of the sample consumer and the operator are played here:

=================  ==================================================================
``embedded_sqs``   an SQS server on this machine, a process of its own (``queue_server``)
``world``          its queues, and the environment that points everything there
``workload``       the messages: invented ones, or the user's own (``input_file``)
``groups``         their message groups, for FIFO queues
``producer``       sends them
``event_source``   what Lambda does between a queue and a function (``lambda_events``)
``functions``      the real functions, loaded by ``lambda_host`` and watched (``follow``: tells of
                   single messages; ``redelivery``: SQS delivers at least once)
``consumer``       the sample consumer, given the work of ``business``, which fails on purpose
``spark``          the Spark job, its session started while the queues work (``processes``)
``scenario``       the acts, in order, on a ``stage`` that ``wiring`` builds and takes down;
                   ``desk``: the operator's part of them
``screen``         what the viewer sees (``terminal``: and only that)
``audit``          where every message ended, from outside the product (``identity``, ``order``)
=================  ==================================================================
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
"""The repository."""

# The Lambda finds the core in a layer, the Spark job in a zip; here it stands in the tree.
_CORE = str(ROOT / "layers" / "core")
if _CORE not in sys.path:
    sys.path.insert(0, _CORE)
