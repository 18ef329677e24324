"""The state files of one partition of a store, and which of them make up a version.

    <version>.delta       what batch version-1 changed
    <version>.snapshot    everything the store holds at that version

Version 0 is the empty store. Version v is the newest snapshot at or before v and every delta after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from pyarrow.fs import FileSystem, FileType

from hdfsstore.errors import BatchNotAvailableError, MissingFileError
from hdfsstore.fs import list_folder

_STATE_FILE = re.compile(r"(\d+)\.(delta|snapshot)")


@dataclass(frozen=True, slots=True)
class Chain:
    """The files that make up a version: versions of the snapshot (None: from the empty store) and of the deltas."""

    snapshot: int | None
    deltas: range


@dataclass(frozen=True, slots=True)
class StateFiles:
    """One listing of a partition's folder.

    Attributes:
        folder: its path.
        names: all names in it, side files too.
        sizes: size in bytes of each file.
        snapshots, deltas: the versions that there are.
    """

    folder: str
    sizes: dict[str, int]
    snapshots: frozenset[int]
    deltas: frozenset[int]

    @classmethod
    def list(cls, fs: FileSystem, folder: str) -> StateFiles:
        """Lists the folder; one that does not exist has no files."""
        infos = [info for info in list_folder(fs, folder) if info.type == FileType.File]
        return cls.of(folder, {info.base_name: info.size or 0 for info in infos})

    @classmethod
    def of(cls, folder: str, sizes: dict[str, int]) -> StateFiles:
        """A listing from names and sizes."""
        return cls(folder, sizes, _versions(sizes, "snapshot"), _versions(sizes, "delta"))

    @property
    def empty(self) -> bool:
        """Whether there is no state file at all."""
        return not self.snapshots and not self.deltas

    def path(self, version: int, kind: str) -> str:
        """Path of a version's delta or snapshot."""
        return f"{self.folder}/{version}.{kind}"

    def chain(self, version: int, below: int | None = None) -> Chain:
        """The files that make up `version`, from the newest snapshot (one below version `below`, where given).

        A store that never had a row may have no file: an empty folder is the empty store at every version.

        Raises:
            BatchNotAvailableError: the version is newer than the files, or retention has removed what it needs.
            MissingFileError: a delta in between is missing.
        """
        if self.empty:
            return Chain(None, range(1, 1))
        usable = [v for v in self.snapshots if v <= version and (below is None or v < below)]
        snapshot = max(usable, default=None)
        deltas = range(1 if snapshot is None else snapshot + 1, version + 1)
        missing = [v for v in deltas if v not in self.deltas]
        if not missing:
            return Chain(snapshot, deltas)
        newest = max(self.snapshots | self.deltas, default=0)
        if version > newest:
            raise BatchNotAvailableError(
                f"there is no state of version {version}; the newest is {newest}",
                self.folder,
                remedy=f"Batch {version - 1} has written nothing here: read an earlier batch",
            )
        if snapshot is None and not any(v < missing[-1] for v in self.deltas):
            raise BatchNotAvailableError(
                f"retention has removed the files that version {version} needs",
                self.folder,
                remedy=self._oldest(),
            )
        raise MissingFileError(
            f"version {version} needs this delta, and it is missing",
            self.path(missing[-1], "delta"),
            remedy="Restore the file, or read a version that does not need it",
        )

    def _oldest(self) -> str:
        if not self.snapshots:
            return "No version is left that can be read"
        return f"The oldest version that can be read is {min(self.snapshots)}: read a later batch"


def _versions(names: Iterable[str], kind: str) -> frozenset[int]:
    matches = (_STATE_FILE.fullmatch(name) for name in names)
    return frozenset(int(match[1]) for match in matches if match and match[2] == kind)
