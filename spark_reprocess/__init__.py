"""The Spark job: the verbs of ``dlq`` that read, sign and send bodies, on many machines.

``python -m spark_reprocess VERB``, ``spark-submit`` and AWS Glue run it.

==================  ===============================================================
``session``         the Spark session and the settings that a verb needs
``worker_daemon``   forks the Python workers of a local session
``interrupts``      Ctrl-C
``spark_errors``    Spark's errors as sentences
``allowed_sql``     SQL conditions of operators as columns
``evaluation``      runs them, with a time limit
``glue_job``        the script that AWS Glue runs: any verb, from one argument
==================  ===============================================================
"""

# It puts the core on the path. Here, because Spark's workers import this package first.
import dlq  # noqa: F401
