"""Dead-letter handling of the operator: archive, explain, plan, redrive, and the command ``dlq``.

The parts, from the values up; a part may import those above it in this list. Parts with * use
SQS, files or the terminal:

===================  ===============================================================================
``errors``           the errors that end a verb
``figures``          formats numbers, shares, durations and times
``sql/``             SQL conditions of operators: what they may contain (``allowed``), and what of
                     it DuckDB gives as Spark does (``duckdb_sql``)
``aws/`` *           ``clients`` of SQS, the counts of a queue; who calls; the breaker's limit
``progress`` *       progress lines
``engine``           the interface to where bodies are worked on; ``local_engine`` * is this machine
``archive/`` *       ``storage/``: files on disk or S3; ``messages/``: a row for each; ``ledger/``:
                     claims, results and what is pending (``message_state`` has the rules);
                     ``lock``; ``group_records``: what is remembered of groups
``plan/``            plan.yaml as a value, read with every fault named, and as a text; edits of one
                     message
``ids/``             rules about messages by their ids: what a run does with each, in which order
``report/``          the HTML page of an analysis
``explain/``         the verb analyze: ``signature/`` of one failure, ``groups``, ``differences/``
                     to a cause, ``logs/`` of consumers; ``analyze`` * writes the report
``drain/`` *         the verb: one task (``drain_task``), and the tasks together (``drain``)
``redrive/`` *       the verb: ``redrive`` is the pipeline: ``resolving/``, ``ramping/``,
                     ``sending/``; ``restore``; ``watch``: what fails again
``inspect/``         the verbs ``status``, ``groups`` and ``show``
``erase/`` *         the verb: out of the archive, with the reports that quote it
``scheduled_run`` *  the verb ``run``: drain, analyze, apply a policy, redrive
``stack/`` *         what a stack has (``outputs``), and the checks of ``doctor``
``console/`` *       the web page on this machine
``cli/`` *           ``verbs/``, a module each: arguments, call, answer; exit codes, tables
===================  ===============================================================================
"""

import sys
from importlib.util import find_spec
from pathlib import Path

# In a checkout the core lies beside us; in a zip for spark-submit, and on Spark's workers that
# were given one, it is on the path already. Here, because workers import this package first.
_CORE = Path(__file__).resolve().parent.parent / "layers" / "core"
if find_spec("dlq_replay") is None and _CORE.is_dir():
    sys.path.append(str(_CORE))
