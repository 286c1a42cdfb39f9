"""Packs the Spark job: one zip for --py-files, and the scripts for spark-submit and AWS Glue.

    python scripts/package_job.py FOLDER

writes FOLDER/spark_reprocess.zip (the job, the core, and the pure Python packages that clusters do
not have), FOLDER/spark_job.py (for spark-submit) and FOLDER/glue_job.py (for AWS Glue). The same
sources and lock file always give the same bytes.
"""

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements" / "job.txt"

SCRIPTS = {
    "spark_job.py": ROOT / "spark_reprocess" / "__main__.py",
    "glue_job.py": ROOT / "spark_reprocess" / "glue_job.py",
}

# Some packages have optional compiled parts. These cannot be imported from a zip, so they are left
# out, and the wheels of one platform work everywhere.
WHEELS = (
    "--python-version=3.13",
    "--implementation=cp",
    "--only-binary=:all:",
    "--platform=manylinux2014_x86_64",
    "--platform=manylinux_2_28_x86_64",
)
COMPILED = {".so", ".pyc"}
NOT_REPRODUCIBLE = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}

NEEDS_POWERTOOLS = ROOT / "layers" / "core" / "dlq_replay" / "consumer"
"""The consumer kit. The job does not use it."""

EPOCH = (1980, 1, 1, 0, 0, 0)
"""The oldest time that a zip can hold."""


def package(folder: Path) -> None:
    """Write zip and scripts to *folder*. The zip is written under another name, then renamed."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        packages = Path(temporary)
        _install(packages)

        core = ROOT / "layers" / "core"
        files = dict(_files(packages, packages))
        files.update(_files(ROOT / "spark_reprocess", ROOT))
        files.update(_files(ROOT / "dlq", ROOT))
        files.update(_files(core / "dlq_replay", core))
        write_zip(folder / "spark_reprocess.zip", files)

    for name, source in SCRIPTS.items():
        (folder / name).write_bytes(source.read_bytes())


def _install(target: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "--quiet",
        "--disable-pip-version-check",
        "install",
        "--no-compile",
        "--no-deps",
        "--require-hashes",
        *WHEELS,
        f"--target={target}",
        f"--requirement={LOCK}",
    ]
    subprocess.run(command, check=True)


def _files(folder: Path, root: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files for the zip: name in the zip, and path."""
    for path in sorted(folder.rglob("*")):
        is_left_out = (
            path.suffix in COMPILED
            or path.name in NOT_REPRODUCIBLE
            or path.is_relative_to(NEEDS_POWERTOOLS)
            or path.relative_to(root).parts[0] == "bin"
        )
        if path.is_file() and not is_left_out:
            yield path.relative_to(root).as_posix(), path


def write_zip(target: Path, files: dict[str, Path]) -> None:
    """Write *files* by their names in the zip; the same files always give the same bytes."""
    unfinished = target.with_suffix(".unfinished")
    # Stored, not deflated: different builds of zlib may compress to different bytes.
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, files[name].read_bytes())
    unfinished.replace(target)


if __name__ == "__main__":
    if len(sys.argv) != 2:  # noqa: PLR2004
        sys.exit(__doc__)
    package(Path(sys.argv[1]))
