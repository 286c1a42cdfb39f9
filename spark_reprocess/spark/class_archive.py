"""The archive of Java classes that a local session starts with, where ``make`` has made one.

A JVM that runs for a minute spends a good part of it reading Spark's classes from jars, and
checking them. Java's class data sharing (JEP 350) keeps them as they are in memory. A JVM that an
archive does not fit, because Java or Spark's jars are others now, reads its classes as ever.
"""

import sys
from pathlib import Path

_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""What does not fit is no concern of who runs a verb."""


def class_archive() -> Path:
    """Where the archive of this Python's Spark is; whether or not there is one."""
    return Path(sys.prefix) / "spark-classes.jsa"


def recording_options(archive: Path) -> str:
    """Return the options of a JVM that writes what it has loaded to *archive* when it ends.

    A JVM crashes over an archive that was not written to its end: write to another name first.
    """
    return f"{_QUIET} -XX:ArchiveClassesAtExit={archive}"


def sharing_options(archive: Path) -> str:
    """Return the options of a JVM that uses *archive*; none where there is no such file."""
    # To name one that is missing turns off the sharing of Java's own classes.
    return f"{_QUIET} -XX:SharedArchiveFile={archive}" if archive.exists() else ""
