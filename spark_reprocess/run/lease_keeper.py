"""Holds the archive's lease for as long as a run works: a thread renews it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.lease import Lease, take_lease
from spark_reprocess.errors import ArchiveError, InputError

LEASE_SECONDS = 600.0
"""How long a run that died keeps others away."""

_RENEWALS = 5
"""In the life of a lease, so that some may fail."""


@dataclass(slots=True)
class LeaseKeeper:
    """A lease that is being renewed."""

    lease: Lease
    now_seconds: Callable[[], float]
    _done: threading.Event = field(default_factory=threading.Event)
    _is_lost: bool = False

    def require(self) -> None:
        """Ask between two steps of work whether the archive is still ours.

        Raises:
            InputError: it is not: the lease could not be renewed in time, and another run has it.
        """
        if self._is_lost:
            raise InputError(
                f"archive {self.lease.archive.root}: run {self.lease.run_id} was out of touch for "
                f"more than {self.lease.lease_seconds:.0f} s and another run has taken over; what "
                "this one has done is recorded, the other goes on from there"
            )

    def keep(self) -> None:
        """Renew until ``stop``; for a thread."""
        while not self._done.wait(self.lease.lease_seconds / _RENEWALS):
            # Where it cannot be written now, the next renewal may come in time.
            with suppress(ArchiveError):
                if not self.lease.renew(self.now_seconds()):
                    self._is_lost = True
                    return

    def stop(self) -> None:
        """Let the thread end."""
        self._done.set()


@contextmanager
def lease_held(
    archive: Archive,
    run_id: str,
    who: str,
    lease_seconds: float = LEASE_SECONDS,
    now_seconds: Callable[[], float] = time.time,
) -> Iterator[LeaseKeeper]:
    """Take the archive's lease for the block, and give it up afterwards however that ends.

    Raises:
        BusyError: another run holds it.
        ArchiveError: the archive cannot be read or written.
    """
    lease = take_lease(archive, run_id, who, now_seconds(), lease_seconds)
    keeper = LeaseKeeper(lease, now_seconds)
    thread = threading.Thread(target=keeper.keep, name="lease", daemon=True)
    thread.start()
    try:
        yield keeper
    finally:
        keeper.stop()
        thread.join()
        # A lease that cannot be given up ends by itself.
        with suppress(ArchiveError):
            lease.release(now_seconds())
