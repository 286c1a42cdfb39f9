"""The newest reading of a fleet, which asks AWS about all of its members."""

from dataclasses import dataclass, field
from threading import Lock

from dlq.inspect.status import StatusOptions
from dlq.stack.fleet import FleetStatus, read_fleet

KEPT_SECONDS = 60
"""The time for which a reading is kept: a search and the pages of a list read nothing anew."""


@dataclass(eq=False)
class FleetReading:
    """Reads a fleet at most once in ``KEPT_SECONDS``. Threads may share it.

    Attributes:
        newest: the newest reading; None before the first.
    """

    newest: FleetStatus | None = None
    _lock: Lock = field(default_factory=Lock)

    def read(self, options: StatusOptions, now_seconds: int) -> FleetStatus:
        """Return the newest reading, or make one; who comes meanwhile waits for it.

        Raises:
            InputError: the members cannot be listed. The next call asks again.
        """
        with self._lock:
            newest = self.newest
            if newest is None or now_seconds - newest.at.timestamp() >= KEPT_SECONDS:
                newest = read_fleet(options, now_seconds)
                self.newest = newest
            return newest
