"""What tests that start a whole Spark job over a few messages give it."""

QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a JVM that lives for seconds: what would take its time is the compilers."""

REDRIVE_ALL = """\
version: 1
rules:
  - name: all of it
    when: count > 0
    action: redrive
"""
"""A policy."""
