"""A local folder by fsspec's methods, for filesystems that only fsspec knows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pyarrow.fs import FSSpecHandler, PyFileSystem


class Folder:
    """A folder that renames as HDFS does: over a file only where that is asked for.

    Args:
        root: the folder.
        protocol: fsspec's name of the filesystem.
        can_replace: whether it renames over a file at all.
        storage_options: what it was made with.
    """

    def __init__(
        self,
        root: Path,
        protocol: str = "hdfs",
        *,
        can_replace: bool = True,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self.root = root
        self.protocol = protocol
        self.can_replace = can_replace
        self.storage_options = dict(storage_options or {})
        self.written: list[str] = []

    @property
    def filesystem(self) -> PyFileSystem:
        return PyFileSystem(FSSpecHandler(self))

    def local(self, path: str) -> Path:
        """Where a path really is."""
        return self.root / path.lstrip("/")

    def to_json(self) -> str:
        return json.dumps(self.storage_options)

    def info(self, path: str) -> dict[str, object]:
        local = self.local(path)
        kind = "directory" if local.is_dir() else "file"
        return {"name": path, "size": local.stat().st_size, "type": kind, "mtime": local.stat().st_mtime}

    def find(self, path: str, **_: object) -> dict[str, dict[str, object]]:
        return {f"{path}/{entry.name}": self.info(f"{path}/{entry.name}") for entry in self.local(path).iterdir()}

    def exists(self, path: str) -> bool:
        return self.local(path).exists()

    def isfile(self, path: str) -> bool:
        return self.local(path).is_file()

    def isdir(self, path: str) -> bool:
        return self.local(path).is_dir()

    def mkdir(self, path: str, create_parents: bool) -> None:
        self.local(path).mkdir(parents=create_parents, exist_ok=True)

    def open(self, path: str, mode: str) -> object:
        self.written += [path] if mode == "wb" else []
        return self.local(path).open(mode)

    def rm(self, path: str) -> None:
        self.local(path).unlink()

    def mv(self, source: str, target: str, overwrite: bool = False, **_: object) -> None:
        if self.exists(target) and not (overwrite and self.can_replace):
            raise OSError("rename failed")
        self.local(source).rename(self.local(target))
