"""Finds and opens the files that make up one version: by a listing or, with unique ids, by the deltas' lineages.

With ids nothing is listed: the caller or a delta's lineage gives each name that is opened. For version (v, id):

    <v>_<id>.snapshot exists          it is the base
    otherwise                         read the lineage of <v>_<id>.delta. It names the deltas before this one. At its
                                      first item a snapshot is presumed
    that snapshot does not exist      its upload failed or is late: go on with the lineage of that item's delta
    the lineage is []                 the base is the empty store (version 1)
    that delta does not exist either  retention has removed it. The files that are left begin with a newer snapshot,
                                      of which the writer of the lineage did not know

A damaged snapshot counts as missing.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, closing, suppress
from typing import TypeVar

from hdfsstore.codecs import records
from hdfsstore.codecs.compression import Reader, open_reader
from hdfsstore.codecs.lineage import LineageItem, read_header, read_start
from hdfsstore.codecs.records import (
    DELTA_FILES,
    Extensions,
    FileKind,
    RecordChunk,
    RecordFormat,
    Start,
    read_chunks,
)
from hdfsstore.errors import (
    BatchNotAvailableError,
    CorruptFileError,
    FileChangedError,
    MissingFileError,
    StateStoreError,
)
from hdfsstore.fs.checksum_files import hadoop_name, spark_name
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.reading import Input, open_input
from hdfsstore.state.versions.files import Chain, StateFiles, VersionId, file_name

log = logging.getLogger("hdfsstore.state.chain")
T = TypeVar("T")

# A folder is listed at most this often if files vanish before they are opened (a running query's maintenance).
LISTINGS = 3


class VersionFiles(ABC):
    """The files of one version.

    Attributes:
        version_id: the version.
        snapshot_parts: paths of the files that the snapshot of the chain names, where it has such files.
        damage: of the first snapshot that was passed over for an older one, or for the empty store.
    """

    def __init__(self, folder: str, file_format: RecordFormat, version_id: VersionId) -> None:
        self.version_id = version_id
        self.snapshot_parts: Collection[str] = ()
        self.damage: CorruptFileError | None = None
        self._folder = folder
        self._format = file_format

    @abstractmethod
    def chain(self, below: int | None = None) -> Chain:
        """The files that make up the version. With `below`, the snapshot is of a version below that one."""

    @abstractmethod
    def open(self, version_id: VersionId, kind: FileKind) -> Input:
        """Opens a file of the chain at its start. The caller closes it."""

    def chunks(self, source: records.Input, version_id: VersionId, kind: FileKind) -> Iterator[RecordChunk]:
        """The records of a file from `open`, or of a wrapper around it, in chunks as read_chunks yields them."""
        path = self.path(version_id, kind)
        with_layout = kind == "delta" and self._format.typed
        return read_chunks(
            source, self._format, kind, path, (lambda reader: read_start(reader, path)) if with_layout else None
        )

    def path(self, version_id: VersionId, kind: FileKind) -> str:
        return StateFiles.path_of(self._folder, version_id, kind, self._format.extensions)


class ListedFiles(VersionFiles):
    """The files of a version without an id."""

    def __init__(self, fs: FileManager, files: StateFiles, file_format: RecordFormat, version_id: VersionId) -> None:
        super().__init__(files.folder, file_format, version_id)
        self._fs = fs
        self._files = files

    def chain(self, below: int | None = None) -> Chain:
        return self._files.chain(self.version_id[0], below)

    def open(self, version_id: VersionId, kind: FileKind) -> Input:
        sizes, name = self._files.sizes, file_name(version_id, kind, self._format.extensions)
        return open_input(
            self._fs,
            self.path(version_id, kind),
            sizes,
            sizes.get(name),
        )


class LineageFiles(VersionFiles):
    """The files of a version with an id. Each is opened once."""

    def __init__(self, fs: FileManager, folder: str, file_format: RecordFormat, version_id: VersionId) -> None:
        super().__init__(folder, file_format, version_id)
        self._fs = fs
        self._opened: dict[tuple[VersionId, FileKind], Input] = {}
        self._bases: dict[VersionId, VersionId] = {}  # the version on which each delta of the chain is built

    def chain(self, below: int | None = None) -> Chain:
        at = self.version_id
        deltas: list[VersionId] = []  # newest first
        while at[0]:
            if (below is None or at[0] < below) and self._has_snapshot(at):
                return Chain(at, tuple(reversed(deltas)))
            try:
                lineage = self._lineage(at)
            except FileNotFoundError:
                return self._since(at, deltas, below)
            if lineage and deltas and (below is None or at[0] < below):
                log.warning(
                    "%s is missing: its upload has failed, or is under way; going on from an older snapshot and the "
                    "deltas after it",
                    self.path(at, "snapshot"),
                )
            deltas.append(at)
            if not lineage:
                if at[0] == 1:
                    break
                raise MissingFileError(
                    f"version {at[0]} is the first one with a unique id, and its snapshot is missing",
                    self.path(at, "snapshot"),
                    remedy="Restore the file, or read a version that does not need it",
                )
            deltas += reversed(lineage[1:])
            at = lineage[0]
            self._bases.update(zip(deltas, (*deltas[1:], at), strict=True))
        return Chain(None, tuple(reversed(deltas)))

    def open(self, version_id: VersionId, kind: FileKind) -> Input:
        try:
            return self._open(version_id, kind)
        except FileNotFoundError:
            raise self._missing(version_id) from None

    def chunks(self, source: records.Input, version_id: VersionId, kind: FileKind) -> Iterator[RecordChunk]:
        header = None if kind == "snapshot" else lambda reader: self._check_header(reader, version_id)
        return read_chunks(source, self._format, kind, self.path(version_id, kind), header)

    def close(self) -> None:
        """Closes the files that were opened to find the chain and that nobody asked for."""
        with suppress(KeyError):  # not `while self._opened`: a read that was given up may take the last one
            while True:
                self._opened.popitem()[1].close()

    def _open(self, version_id: VersionId, kind: FileKind) -> Input:
        source = self._opened.pop((version_id, kind), None)
        if source is not None:
            return source
        # This package writes such files without checksum files: this saves two requests for each.
        siblings = None if self._format.checksum_files else ()
        return open_input(self._fs, self.path(version_id, kind), siblings)

    def _since(self, missing: VersionId, deltas: list[VersionId], below: int | None) -> Chain:
        """The chain from the newest snapshot among `deltas`, which are newer than the missing one; newest first."""
        for i, version_id in enumerate(deltas):
            if (below is None or version_id[0] < below) and self._has_snapshot(version_id):
                return Chain(version_id, tuple(reversed(deltas[:i])))
        raise self._missing(missing)

    def _has_snapshot(self, version_id: VersionId) -> bool:
        try:
            self._opened[version_id, "snapshot"] = self._open(version_id, "snapshot")
        except FileNotFoundError:
            return False
        return True

    def _lineage(self, version_id: VersionId) -> list[LineageItem]:
        path = self.path(version_id, "delta")
        with ExitStack() as failed:
            source = self._open(version_id, "delta")
            failed.callback(source.close)
            reader = open_reader(self._format.compression_codec, source, path=path)
            lineage, _ = read_header(reader, path, version_id[0], typed=self._format.typed)
            source.rewind()
            failed.pop_all()
        # Not before: a read of an older chain that was given up may still be under way, and take it.
        self._opened[version_id, "delta"] = source
        return lineage

    def _check_header(self, reader: Reader, version_id: VersionId) -> Start:
        path = self.path(version_id, "delta")
        lineage, start = read_header(reader, path, version_id[0], typed=self._format.typed)
        base = self._bases.get(version_id)
        if base is not None and (not lineage or lineage[-1] != base):
            raise CorruptFileError(
                f"the delta is built on {_named(lineage[-1]) if lineage else 'nothing'}, "
                f"but the lineage of version {_named(self.version_id)} has it on {_named(base)}",
                path,
                remedy="One of the two files is not what its name says: restore it",
            )
        return start

    def _missing(self, version_id: VersionId) -> StateStoreError:
        """The error that says why there is no such delta. Only this lists the folder."""
        files = StateFiles.list(self._fs, self._folder, self._format.extensions)
        if version_id in files.snapshots:
            return BatchNotAvailableError(
                f"there is no delta of version {_named(version_id)}, only a snapshot",
                self._folder,
                remedy="Read its state",
            )
        if version_id == self.version_id:
            return BatchNotAvailableError(
                f"there is no state of version {_named(version_id)}, of which this file is missing",
                self.path(version_id, "delta"),
                remedy="It was never written here, or its files were removed, by retention or by hand: put them back, "
                "or go on from a batch whose files are there (a query is set back by deleting the newer entries of "
                "Spark's offsets and commits)",
            )
        # Retention keeps the files from a snapshot on. Where there is none above, it cannot have removed the delta.
        older = any(number < version_id[0] and unique_id is not None for number, unique_id in files.deltas)
        if older or not any(number > version_id[0] for number, _ in files.snapshots):
            return MissingFileError(
                f"version {_named(self.version_id)} needs this delta, and it is missing",
                self.path(version_id, "delta"),
                remedy="Restore the file, or read a version that does not need it",
            )
        return BatchNotAvailableError(
            f"retention has removed the files that version {_named(self.version_id)} needs",
            self._folder,
            remedy="Read a later batch",
        )


def read_version(
    fs: FileManager,
    folder: str,
    file_format: RecordFormat,
    version_id: VersionId,
    read: Callable[[VersionFiles, Chain], T],
    *,
    empty_folder: bool = False,
) -> T:
    """Calls `read` with the files of a version, and returns its result.

    `read` is called again with the chain from an older snapshot, after a warning, if a snapshot is damaged. It is also
    called again if listed files vanish.

    Args:
        empty_folder: whether a folder without a state file is the empty store at every version without an id, as in
            checkpoints of queries that never had a row. Otherwise only version 0 is found there.

    Raises:
        BatchNotAvailableError, MissingFileError: the files that make up the version are not there.
        CorruptFileError: a delta is damaged, or every snapshot is.
    """
    if version_id[1] is not None:
        try:
            return _read_by_lineage(fs, folder, file_format, version_id, read)
        except (MissingFileError, BatchNotAvailableError, FileChangedError) as error:
            log.info(
                "version %s is read once more, as retention may have removed files meanwhile: %s", version_id, error
            )
            return _read_by_lineage(fs, folder, file_format, version_id, read)

    def read_listed(listing: StateFiles) -> T:
        if listing.empty and version_id[0]:
            if not empty_folder:
                raise BatchNotAvailableError(
                    f"there is no state of version {version_id[0]}: the folder has no state file",
                    folder,
                    remedy="Restore the files, or begin at version 0",
                )
            warn_of_empty(folder)
        return _read_past_damage(ListedFiles(fs, listing, file_format, version_id), read)

    return with_listing(fs, folder, version_id[0], read_listed, file_format.extensions)


def _read_by_lineage(
    fs: FileManager,
    folder: str,
    file_format: RecordFormat,
    version_id: VersionId,
    read: Callable[[VersionFiles, Chain], T],
) -> T:
    with closing(LineageFiles(fs, folder, file_format, version_id)) as files:
        return _read_past_damage(files, read)


def with_listing(
    fs: FileManager,
    folder: str,
    version: int,
    read: Callable[[StateFiles], T],
    extensions: Extensions = DELTA_FILES,
) -> T:
    """Calls `read` with a listing of the folder, and returns its result. Lists again if files vanish meanwhile."""
    for _ in range(LISTINGS):
        listing = StateFiles.list(fs, folder, extensions)
        try:
            return read(listing)
        except (FileNotFoundError, FileChangedError) as error:  # FileChangedError: Spark has written it again
            log.info("%s vanished while version %d was read: listing %s again", error, version, folder)
    raise BatchNotAvailableError(
        f"files of version {version} vanished {LISTINGS} times while it was read: retention passed it",
        folder,
        remedy="Read a later batch, or let the query retain more (spark.sql.streaming.minBatchesToRetain)",
    )


def warn_of_empty(folder: str) -> None:
    log.warning("%s: there is no state file, so the partition is read as empty", folder)


def _read_past_damage(files: VersionFiles, read: Callable[[VersionFiles, Chain], T]) -> T:
    chain = files.chain()
    while True:
        try:
            return read(files, chain)
        except CorruptFileError as error:
            chain = older_chain(files, chain, error)


def older_chain(files: VersionFiles, chain: Chain, error: CorruptFileError) -> Chain:
    """The chain from the snapshot before, if this one, a part of it or its checksum file is damaged; else raises."""
    if chain.snapshot is None:
        raise error
    folder, _, name = files.path(chain.snapshot, "snapshot").rpartition("/")
    own = {f"{folder}/{each}" for each in (name, hadoop_name(name), spark_name(name))}
    if error.path not in own and error.path not in files.snapshot_parts:
        raise error
    try:
        older = files.chain(below=chain.snapshot[0])
    except StateStoreError as missing:
        raise error from missing
    files.damage = files.damage or error
    base = "the empty store" if older.snapshot is None else f"snapshot {_named(older.snapshot)}"
    log.warning("%s; going on from %s and the deltas after it", error, base)
    return older


def _named(version_id: VersionId) -> str:
    version, unique_id = version_id
    return str(version) if unique_id is None else f"{version} ({unique_id})"
