"""The Spark job: what failed and why, and the right messages back, safely, in bulk.

``python -m spark_reprocess VERB``. Read it in this order; those marked * touch Spark,
SQS or disk.

======================  ============================================================
``errors``              what ends a verb, as one sentence
``dead_letter_schema``  one row of the archive: a message, typed, without loss
``archive`` *           the archive's files: durable writes, create-if-absent
``message_store`` *     messages in the archive, duplicates removed on read
``clients`` *           SQS clients and the Region they speak to
``drain_task``          one task's loop: receive, write, then delete
``drain`` *             the verb: parked queue to archive
``mask``                what no sample may show
``signature``           what makes two failures the same
``grouping`` *          signatures for a whole DataFrame
``analysis``            DataFrame to DataFrame: the groups and their numbers
``plan``                plan.yaml as a value, read with every fault named
``plan_text``           plan.yaml as a text for a human
``ledger`` *            what happened to each message of a plan
``spark_failures`` *    what Spark raises, and its one sentence
``conditions`` *        the operator's SQL, and what is wrong with it
``analyze`` *           the verb: archive to report and plan
``selection``           DataFrame to DataFrame: what a plan means for each message now
``plan_messages`` *     the messages that a plan froze
``pacing``              at most so many messages a second
``chunk_sender``        chunk by chunk: claim, send, record
``redrive_task`` *      one task: rows to chunks, a client, a tally
``redrive_values``      what a redrive is asked for and what it answers
``redrive`` *           the verb: plan to queue
``terminal`` *          lines and tables
``report`` *            what each verb tells the person at the terminal
``progress`` *          a live line while Spark works
``session`` *           the Spark session
``arguments``, ``cli``  the command line
======
"""

import sys
from importlib.util import find_spec
from pathlib import Path

# In a checkout the core lies beside us; in a zip for spark-submit, and on Spark's workers that
# were given one, it is on the path already. Here, because workers import this package first.
_CORE = Path(__file__).resolve().parent.parent / "layers" / "core"
if find_spec("dlq_replay") is None and _CORE.is_dir():
    sys.path.append(str(_CORE))
