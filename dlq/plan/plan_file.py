"""The file of a plan, which two people may want to change at the same time, and its location."""

from dataclasses import dataclass

from dlq.archive.messages.message_index import REPORTS
from dlq.archive.storage.files import Archive, open_folder, read_text
from dlq.errors import InputError
from dlq.plan.plan import Plan
from dlq.plan.plan_reading import ID, SqlCheck, read_plan

PLAN = "plan.yaml"


@dataclass(frozen=True, slots=True)
class PlanFile:
    """The plan.yaml in the folder of a report."""

    folder: Archive
    name: str = PLAN

    @property
    def path(self) -> str:
        """Its path, or its address on S3."""
        return f"{self.folder.root}/{self.name}"

    def read(self) -> str:
        """Return its text. Raises InputError and ArchiveError."""
        try:
            return read_text(self.path)
        except InputError as error:
            raise InputError(
                f"--plan {error}; give the plan.yaml of a report, or the id of the report"
            ) from error

    def plan(self, sql_check: SqlCheck = lambda _: None) -> Plan:
        """Read the plan. The SQL of its edits is checked by *sql_check*.

        Raises:
            InputError: it is not there, or has faults; the message names file and places.
        """
        return read_plan(self.read(), sql_check, self.path)

    def summary(self) -> bytes | None:
        """Return the report's summary.json, None where the plan is not beside its report."""
        return self.folder.read("summary.json")

    def replace(self, old: str, new: str) -> bool:
        """Write *new* durably if the file is still *old*; return whether it was.

        Raises:
            ArchiveError: it cannot be written, or S3 does not say whether it was.
        """
        return self.folder.replace(self.name, old.encode(), new.encode())


class NoReportError(InputError):
    """The archive has no report."""


def find_plan(archive: Archive, plan: str | None, *, takes_files: bool = True) -> PlanFile:
    """Return the plan that an operator means.

    Args:
        archive: its newest report is taken if *plan* is None.
        plan: a file, its address on S3, or the id of a report in the archive.
        takes_files: whether *plan* may be a file.

    Raises:
        InputError: it is a file, and may not be one.
        NoReportError: no plan is given, and the archive has no report.
    """
    if plan is None:
        paths = [path for path in archive.list(REPORTS) if path.endswith(f"/{PLAN}")]
        if not paths:
            raise NoReportError(
                f"archive {archive.root}: has no report; make one with collect, or give --plan FILE"
            )
        # The id of the last analysis is the greatest.
        newest = max(paths)
        return _at(f"{archive.root}/{newest}")

    if "/" not in plan and ID.fullmatch(plan):
        path = f"{REPORTS}/{plan}/{PLAN}"
        if archive.read(path) is not None:
            return _at(f"{archive.root}/{path}")
    if not takes_files:
        raise InputError(f"plan {plan!r}: the archive has no report of this id")
    return _at(plan)


def _at(location: str) -> PlanFile:
    folder, _, name = location.rpartition("/")
    return PlanFile(open_folder(folder or "."), name)
