"""Arguments and settings for tests that start a whole Spark job over a few messages."""

from pathlib import Path

DRAIN = ("collect", "--only", "drain")
ANALYZE = ("collect", "--only", "analyze")
"""The words of either part of the verb."""

JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a JVM that lives for seconds: what would take its time is the compilers."""

_CLASSES = Path(__file__).resolve().parents[2] / ".tools" / "spark-classes.jsa"
"""The file that ``class_archive`` writes; a JVM that does not fit it must not print so."""

_MAPPED_CLASSES = f' -XX:SharedArchiveFile="{_CLASSES}" -Xlog:cds=off -Xlog:cds+dynamic=off'

# Where the file is missing, the option would turn off Java's own archive, too.
QUICK_JVM = JVM_OPTIONS + (_MAPPED_CLASSES if _CLASSES.exists() else "")
"""``JVM_OPTIONS``, and the classes mapped rather than loaded where they have been archived."""

QUICK_SPARK = {
    "SPARK_SUBMIT_OPTS": QUICK_JVM,
    "PYSPARK_SUBMIT_ARGS": "--conf spark.sql.codegen.wholeStage=false"
    " --conf spark.sql.codegen.factoryMode=NO_CODEGEN pyspark-shell",
}
"""The environment of a program whose Spark lives for seconds."""

REDRIVE_ALL = """\
version: 1
rules:
  - name: all of it
    when: count > 0
    action: redrive
"""
"""A policy."""
