"""The archive of Java classes that a local session starts with, where ``make`` has made one.

A JVM that runs for a minute spends a good part of it reading Spark's classes from jars, and
checking them. Java's class data sharing (JEP 350) keeps them as they are in memory. An archive fits
one build of Java and one version of Spark; its name says which.
"""

import os
import shutil
import sys
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off"
"""What does not fit is no concern of who runs a verb."""


def class_archive() -> Path:
    """Where the archive of this Python's Spark and this shell's Java is; whether or not it is."""
    builds = f"{_java_build()}\n{version('pyspark')}"
    return Path(sys.prefix) / f"spark-classes-{sha256(builds.encode()).hexdigest()[:12]}.jsa"


def recording_options(archive: Path) -> str:
    """Return the options of a JVM that writes what it has loaded to *archive* when it ends.

    A JVM crashes over an archive that was not written to its end: write to another name first.
    """
    return f"{_QUIET} {_quoted(f'-XX:ArchiveClassesAtExit={archive}')}"


def sharing_options(archive: Path) -> str:
    """Return the options of a JVM that uses *archive*; none where it is missing, or empty."""
    # To name one that is missing turns off the sharing of Java's own classes.
    if not archive.exists() or not archive.stat().st_size:
        return ""
    return f"{_QUIET} {_quoted(f'-XX:SharedArchiveFile={archive}')}"


def _java_build() -> str:
    """What a JDK says of itself, and where it is; empty where there is none."""
    home = os.environ.get("JAVA_HOME")
    found = Path(home, "bin", "java") if home else shutil.which("java")
    if not found:
        return ""
    java = Path(found).resolve()
    release = java.parent.parent / "release"
    return f"{java}\n{release.read_text('utf-8', 'replace') if release.exists() else ''}"


def _quoted(option: str) -> str:
    """Spell an option for Spark's launcher, which splits at blanks."""
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
