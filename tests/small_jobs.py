"""What tests that start a whole Spark job over a few messages give it."""

QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a JVM that lives for seconds: what would take its time is the compilers."""

QUICK_SPARK = {
    "SPARK_SUBMIT_OPTS": QUICK_JVM,
    "PYSPARK_SUBMIT_ARGS": "--conf spark.sql.codegen.wholeStage=false pyspark-shell",
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
