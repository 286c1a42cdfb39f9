"""One run at a time per archive: a lease that its holder renews and that a dead one loses.

``runs/lease-000007.json`` names a holder and until when it holds. The next number is made by
create-if-absent once that time is over, so of several who want it exactly one gets it. A holder
that was away for too long finds the next number taken and stops.

The lease keeps scheduled runs from doing the same work side by side. That no message is sent twice
does not rest on it: the ledger's claims see to that, whatever the clocks say.

It is no turn (``turns``), which keeps apart what acts on the same messages. Schedulers may start a
run twice in one second, and then one of the two has to go on; of two that announce a turn at the
same moment both may be sent away. And runs of one plan share a turn, while nobody shares a lease.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from spark_reprocess.archive.files import Archive
from spark_reprocess.archive.ledger import timestamp
from spark_reprocess.errors import ArchiveError, BusyError

RUNS = "runs"
_FILE = re.compile(r"lease-(\d{6})\.json")


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds the archive, and until when.

    Attributes:
        until_seconds: epoch seconds; the time of the release where *released*.
    """

    run_id: str
    who: str
    until_seconds: float
    released: bool = False


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease that was taken. Renew it well within *lease_seconds*."""

    archive: Archive
    number: int
    run_id: str
    who: str
    lease_seconds: float

    def renew(self, now_seconds: float) -> bool:
        """Hold on from now; return False where somebody else has taken over in the meantime.

        Raises:
            ArchiveError: it cannot be written; try again before the lease ends.
        """
        if self.archive.read(_path(self.number + 1)) is not None:
            return False
        self._write(Holder(self.run_id, self.who, now_seconds + self.lease_seconds))
        return True

    def release(self, now_seconds: float) -> None:
        """Let the next run begin at once.

        Raises:
            ArchiveError: it cannot be written; the lease ends by itself, later.
        """
        self._write(Holder(self.run_id, self.who, now_seconds, released=True))

    def _write(self, holder: Holder) -> None:
        self.archive.write(_path(self.number), _spell(holder))


def take_lease(
    archive: Archive, run_id: str, who: str, now_seconds: float, lease_seconds: float
) -> Lease:
    """Take the archive's lease.

    Raises:
        BusyError: another run holds it; the sentence says who and until when.
        ArchiveError: the archive cannot be read or written.
    """
    number, holder = _latest(archive)
    if holder and not holder.released and holder.until_seconds > now_seconds:
        raise _held(archive, holder)
    wanted = Holder(run_id, who, now_seconds + lease_seconds)
    if not archive.create(_path(number + 1), _spell(wanted)):
        _, winner = _latest(archive)
        raise _held(archive, winner or wanted)
    return Lease(archive, number + 1, run_id, who, lease_seconds)


def _latest(archive: Archive) -> tuple[int, Holder | None]:
    numbers = [int(match[1]) for path in archive.list(RUNS) if (match := _FILE.search(path))]
    if not numbers:
        return 0, None
    number = max(numbers)
    content = archive.read(_path(number))
    try:
        return number, None if content is None else _holder(json.loads(content))
    except (ValueError, TypeError) as error:
        raise ArchiveError(
            f"archive {archive.root}: {_path(number)} cannot be read ({type(error).__name__}); "
            "make sure that no run is active, then remove it"
        ) from error


def _holder(raw: Mapping[str, Any]) -> Holder:
    names = [one.name for one in fields(Holder) if one.name in raw]
    holder = Holder(**{name: raw[name] for name in names})
    timestamp(holder.until_seconds)
    return holder


def _held(archive: Archive, holder: Holder) -> BusyError:
    return BusyError(
        f"archive {archive.root}: run {holder.run_id} of {holder.who} is at work; its lease ends "
        f"at {timestamp(holder.until_seconds)} unless it is renewed. Wait for it, or stop it and "
        "wait until then"
    )


def _path(number: int) -> str:
    return f"{RUNS}/lease-{number:06d}.json"


def _spell(holder: Holder) -> bytes:
    return json.dumps(asdict(holder), indent=1).encode()
