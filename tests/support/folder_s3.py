"""An archive in a folder, as a client of S3 reads it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class FolderS3:
    """Answers listings and reads, each of one page, of a bucket whose keys are paths in *root*."""

    root: Path

    def get_paginator(self, _: str) -> "FolderS3":
        return self

    def paginate(self, *, Bucket: str, Prefix: str) -> list[dict[str, Any]]:  # noqa: N803
        del Bucket
        contents = []
        for path in self.root.rglob("*"):
            key = path.relative_to(self.root).as_posix()
            if path.is_file() and key.startswith(Prefix):
                written_at = datetime.fromtimestamp(path.stat().st_mtime, UTC)
                contents.append({"Key": key, "LastModified": written_at})
        return [{"Contents": contents}]

    def get_object(self, *, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803
        del Bucket
        return {"Body": BytesIO((self.root / Key).read_bytes())}
