"""An archive whose process dies at a chosen change."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from spark_reprocess.archive.local import LocalArchive


class KilledError(Exception):
    pass


@dataclass(frozen=True)
class Dying(LocalArchive):
    """An archive whose process dies before or after its *n*-th change."""

    dies_at: int
    is_before: bool
    changes: list[str] = field(default_factory=list)

    def create(self, path: str, content: bytes) -> bool:
        with self._change(path):
            return super().create(path, content)

    def write(self, path: str, content: bytes) -> None:
        with self._change(path):
            super().write(path, content)

    def remove(self, path: str) -> None:
        with self._change(path):
            super().remove(path)

    @contextmanager
    def _change(self, path: str) -> Iterator[None]:
        self.changes.append(path)
        is_last = len(self.changes) == self.dies_at
        if is_last and self.is_before:
            raise KilledError
        yield
        if is_last:
            raise KilledError
