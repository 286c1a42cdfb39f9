"""Local sessions use the archive of classes that the set-up has made, and do without one."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_reprocess.spark.class_archive import class_archive, recording_options, sharing_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def java(options: str, *arguments: str) -> str:
    """All that a JVM says that is asked for its version."""
    home = os.environ.get("JAVA_HOME")
    command = [f"{home}/bin/java" if home else "java", *shlex.split(options), *arguments]
    ended = subprocess.run([*command, "-version"], capture_output=True, text=True, check=True)
    return ended.stdout + ended.stderr


def test_the_session_has_mapped_the_archive(started_spark: "SparkSession") -> None:
    archive = class_archive()
    if not archive.exists() or not archive.stat().st_size:
        pytest.skip("this environment has no archive of classes; make setup makes one")
    gateway: Any = started_spark.sparkContext._gateway  # noqa: SLF001 - only it knows the process
    maps = Path(f"/proc/{gateway.proc.pid}/maps")
    if not maps.exists():
        pytest.skip("this system has no /proc to look into")

    assert str(archive.resolve()) in maps.read_text("utf-8")


def test_where_there_is_none_a_jvm_shares_its_own_classes(tmp_path: Path) -> None:
    empty = tmp_path / "empty.jsa"
    empty.touch()

    assert sharing_options(tmp_path / "none.jsa") == ""
    assert sharing_options(empty) == ""


def test_another_java_has_an_archive_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = class_archive()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    other = class_archive()
    (tmp_path / "release").write_text('JAVA_VERSION="25"\n')

    assert len({usual, other, class_archive()}) == 3
    assert usual.parent == other.parent == Path(sys.prefix)


def test_where_there_is_no_java_there_is_no_archive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")

    assert not class_archive().exists()


def test_one_that_does_not_fit_is_passed_over_in_silence(tmp_path: Path) -> None:
    if "sharing" not in java(""):
        pytest.skip("this Java came without an archive of its own, which another would add to")
    archive = tmp_path / 'of "these" classes.jsa'
    java(recording_options(archive), "-cp", str(tmp_path / "these.jar"))
    assert archive.stat().st_size > 0

    said = java(sharing_options(archive), "-cp", str(tmp_path / "others.jar"))

    assert "warning" not in said
    assert "sharing" in said
