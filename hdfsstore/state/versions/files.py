"""Lists the state files of one partition of a store, and tells which of them make up a version.

    format 1   <version>.delta               the changes of batch version - 1
               <version>.snapshot            the whole store at that version
    format 2   <version>_<id>.delta          the same, by the attempt of that id
               <version>_<id>.snapshot

Version 0 is the empty store. Version v is the newest snapshot at or before v and every delta after it. Without ids a
listing tells which files those are; with ids the deltas' lineages do (chain.py). The two are never mixed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from pyarrow.fs import FileType

from hdfsstore.codecs.lineage import UNIQUE_ID
from hdfsstore.codecs.records import DELTA_FILES, Extensions, FileKind
from hdfsstore.errors import BatchNotAvailableError, MissingFileError
from hdfsstore.fs.file_manager import FileManager

# A version's number and, in checkpoint format version 2, the unique id of the attempt that wrote it.
VersionId: TypeAlias = tuple[int, str | None]

_STATE_FILE = re.compile(rf"(\d+)(?:_({UNIQUE_ID.pattern}))?\.([a-z]+)")


@dataclass(frozen=True, slots=True)
class Chain:
    """The files that make up a version: its snapshot (None: the empty store) and the deltas after it."""

    snapshot: VersionId | None
    deltas: tuple[VersionId, ...]


@dataclass(frozen=True, slots=True)
class StateFiles:
    """One listing of a partition's folder.

    Attributes:
        folder: its path.
        sizes: all names in it, with those of checksum files, and the size of each in bytes.
        snapshots, deltas: versions that have such a file, with ids and without.
        extensions: of the names.
    """

    folder: str
    sizes: dict[str, int]
    snapshots: frozenset[VersionId]
    deltas: frozenset[VersionId]
    extensions: Extensions = DELTA_FILES

    @classmethod
    def list(cls, fs: FileManager, folder: str, extensions: Extensions = DELTA_FILES) -> StateFiles:
        """Lists the folder; one that does not exist has no files."""
        infos = [info for info in fs.list_folder(folder) if info.type == FileType.File]
        return cls.of(folder, {info.base_name: info.size or 0 for info in infos}, extensions)

    @classmethod
    def of(cls, folder: str, sizes: dict[str, int], extensions: Extensions = DELTA_FILES) -> StateFiles:
        """A listing from names and sizes."""
        found: dict[FileKind, set[VersionId]] = {"delta": set(), "snapshot": set()}
        for name in sizes:
            if parsed := parse_name(name, extensions):
                version_id, kind = parsed
                found[kind].add(version_id)
        return cls(folder, sizes, frozenset(found["snapshot"]), frozenset(found["delta"]), extensions)

    @staticmethod
    def path_of(folder: str, version_id: VersionId, kind: FileKind, extensions: Extensions = DELTA_FILES) -> str:
        """Path of a version's delta or snapshot."""
        return f"{folder}/{file_name(version_id, kind, extensions)}"

    @property
    def empty(self) -> bool:
        """Whether there is no state file at all."""
        return not self.snapshots and not self.deltas

    def chain(self, version: int, below: int | None = None) -> Chain:
        """The files without ids that make up `version`, from the newest snapshot.

        A store that never had a row may have no file: an empty folder is the empty store at every version.

        Args:
            below: the snapshot must be of a version below this one.

        Raises:
            BatchNotAvailableError: the version is newer than the files, or retention has removed what it needs.
            MissingFileError: a delta in between is missing.
        """
        if self.empty:
            return Chain(None, ())
        snapshots, there = (
            {number for number, unique_id in ids if unique_id is None} for ids in (self.snapshots, self.deltas)
        )
        snapshot = max((v for v in snapshots if v <= version and (below is None or v < below)), default=None)
        deltas = range(1 if snapshot is None else snapshot + 1, version + 1)
        newest = max(snapshots | there, default=0)
        if version and not newest:
            raise BatchNotAvailableError(
                f"there is no state of version {version} without a unique id, only of versions that have one",
                self.folder,
                remedy="Give the id: the commit log of the batch that wrote the version holds it",
            )
        if version > newest:
            kind: FileKind = "delta" if there else "snapshot"
            raise BatchNotAvailableError(
                f"there is no state of version {version}; the newest is {newest}, and this file is missing",
                self.path_of(self.folder, (version, None), kind, self.extensions),
                remedy=f"If batch {version - 1} was committed, restore the file; else read an earlier batch",
            )
        missing = [v for v in deltas if v not in there]
        if not missing:
            return Chain(None if snapshot is None else (snapshot, None), tuple((v, None) for v in deltas))
        # Retention keeps the files from a snapshot on. Where there is none above, it cannot have removed the delta.
        newer = [number for number, _ in self.snapshots if number > missing[-1]]
        if snapshot is None and newer and not any(v < missing[-1] for v in there):
            raise BatchNotAvailableError(
                f"retention has removed the files that version {version} needs",
                self.folder,
                remedy=f"The oldest version that can be read is {min(newer)}: read a later batch",
            )
        raise MissingFileError(
            f"version {version} needs this delta, and it is missing",
            self.path_of(self.folder, (missing[-1], None), "delta", self.extensions),
            remedy="Restore the file, or read a version that does not need it",
        )

    def needs_snapshot(self, version: int) -> bool:
        """Whether a version without an id needs its snapshot, because retention has removed the files before it."""
        try:
            self.chain(version - 1)
        except (BatchNotAvailableError, MissingFileError):
            return True
        return False


def file_name(version_id: VersionId, kind: FileKind, extensions: Extensions = DELTA_FILES) -> str:
    """Name of a version's delta or snapshot."""
    version, unique_id = version_id
    extension = extensions.delta if kind == "delta" else extensions.snapshot
    return f"{version}.{extension}" if unique_id is None else f"{version}_{unique_id}.{extension}"


def parse_name(name: str, extensions: Extensions = DELTA_FILES) -> tuple[VersionId, FileKind] | None:
    """The version and kind of a file of that name; None where it is neither a delta nor a snapshot."""
    match = _STATE_FILE.fullmatch(name)
    if match is None or match[3] not in extensions:
        return None
    return (int(match[1]), match[2]), "delta" if match[3] == extensions.delta else "snapshot"
