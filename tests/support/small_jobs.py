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


def words_of_submit(script: Path, master: str, **configuration: str) -> list[str]:
    """The words behind ``spark-submit`` that start a script with the packed job beside it.

    Args:
        script: the script.
        master: the URL of Spark's master.
        configuration: further settings of Spark; ``__`` stands for a dot of the name.
    """
    settings = {"spark__sql__codegen__wholeStage": "false", **configuration}
    words = ["--master", master, "--driver-java-options", QUICK_JVM]
    for name, value in settings.items():
        words += ["--conf", f"{name.replace('__', '.')}={value}"]
    return [*words, "--py-files", str(script.with_name("spark_reprocess.zip")), str(script)]


REDRIVE_ALL = """\
version: 1
rules:
  - name: all of it
    when: count > 0
    action: redrive
"""
"""A policy."""
