"""A probe: proof that the executors see the archive in which the driver writes.

An archive in a folder is on every machine that has a folder of that name. A task that wrote into
its own machine's folder and then deleted from the queue would lose messages. So the driver writes a
file with a name that no other archive has, and a task reads it back before it does anything.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from spark_reprocess.archive.files import Archive
from spark_reprocess.errors import ArchiveError

PROBES = "probes"
"""Their folder. Nothing else is in it, and nobody reads what a killed driver left there."""


@dataclass(frozen=True, slots=True)
class Probe:
    """A file that the driver wrote into the archive. Picklable: tasks carry it along."""

    path: str
    content: bytes

    def check(self, archive: Archive) -> None:
        """Read the file back, in a task.

        Raises:
            ArchiveError: it is not there, or another one is: this is another place than the
                driver's. Nothing may be received, claimed or deleted then.
        """
        if archive.read(self.path) != self.content:
            raise ArchiveError(
                f"archive {archive.root}: an executor does not see the file {self.path} that the "
                "driver wrote there. The driver and all executors must share the archive: give "
                "s3://BUCKET/PREFIX, or a folder on a file system that every machine has mounted"
            )


@contextmanager
def probing(archive: Archive, run_id: str, oldest_id: str) -> Iterator[Probe]:
    """Keep a probe in the archive until the block ends.

    Args:
        archive: where the tasks of the run will write.
        run_id: as ``new_id`` makes them.
        oldest_id: probes with smaller ids were left by runs that were killed; they are removed.

    Raises:
        ArchiveError: the archive cannot be written.
    """
    probe = Probe(f"{PROBES}/{run_id}", secrets.token_hex(16).encode())
    archive.write(probe.path, probe.content)
    try:
        yield probe
    finally:
        archive.discard(probe.path)
        with suppress(ArchiveError):
            for path in archive.list(PROBES):
                if path < f"{PROBES}/{oldest_id}":
                    archive.discard(path)
