"""The Spark job: archive parked messages, find out why they failed, and redrive them.

``python -m spark_reprocess VERB``. The modules in reading order; those with * use Spark, SQS or
files:

=====================  =============================================================
``errors``             the errors that end a verb
``aws/`` *             ``clients`` of SQS, the counts of a queue; who calls; the breaker's limit
``figures``            formats numbers, shares, durations and times
``groups/``            their ids (``grouping``), what people said of them and their status
                       (``triage``), the result of an analysis (``findings``)
``progress`` *         progress lines
``sql/``               SQL conditions of operators: what they may contain (``allowed``), and what of
                       it DuckDB gives as Spark does (``duckdb_sql``)
``spark/`` *           the session and its Python workers, SQL conditions as columns, Spark's
                       errors, Ctrl-C
``archive/`` *         ``storage/``: files on disk or S3; ``messages/``: a row for each, and frames;
                       ``ledger/``: claims, results and what is pending (``message_state`` has the
                       rules); ``group_records``: what is remembered of groups
``logs/``              the exceptions in a consumer's log, and whose they are; ``reading`` *
``drain/`` *           the verb: one task (``drain_task``), and the tasks together (``drain``)
``analysis/``          the verb: ``groups/`` of one failure, ``leads/`` to its cause; ``analyze`` *
                       writes the report
``report/``            the HTML page of an analysis
``editing/``           JSON Patch and attributes on one message; JSON that keeps its digits
``plan/``              plan.yaml as a value, read with every fault named, and as a text
``ramp`` *             steps of a redrive: their sizes, their records, the verdict
``redrive/``           the verb: ``redrive`` * is the pipeline: ``resolving/`` *, by the rules in
                       ``ids/``, ``execution`` *, ``sending/`` *; ``restore`` *, the verb: to the
                       parked queue again
``erase/``             the verb: out of the archive, with the reports that quote it
``glue_job`` *         the script that AWS Glue runs: any verb, from one argument
``inspect/`` *         the verbs ``status``, ``groups`` and ``show`` *
``watch`` *            what comes back of a redrive, for ``redrive --watch``
``command_line/``      ``verbs/``, a module each: arguments, call, answer; exit codes, tables
=====================  =============================================================
"""

import sys
from importlib.util import find_spec
from pathlib import Path

# In a checkout the core lies beside us; in a zip for spark-submit, and on Spark's workers that
# were given one, it is on the path already. Here, because workers import this package first.
_CORE = Path(__file__).resolve().parent.parent / "layers" / "core"
if find_spec("dlq_replay") is None and _CORE.is_dir():
    sys.path.append(str(_CORE))
