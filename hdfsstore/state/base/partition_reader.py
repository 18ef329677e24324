"""Finds and opens the files of versions of a store's partition for whoever only reads; gives changes from deltas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from itertools import groupby
from types import MappingProxyType
from typing import TypeAlias, TypeVar

from hdfsstore.codecs.records import FileKind, RecordChunk, RecordFormat
from hdfsstore.errors import BatchNotAvailableError, MissingFileError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.in_order import in_order
from hdfsstore.fs.reading import Input
from hdfsstore.state.usage import Restart, Sizes
from hdfsstore.state.versions.chain import (
    LineageFiles,
    ListedFiles,
    VersionFiles,
    read_version,
    warn_of_empty,
    with_listing,
)
from hdfsstore.state.versions.files import Chain, StateFiles, VersionId, file_name

T = TypeVar("T")
Opened: TypeAlias = tuple[VersionId, Input]


class BasePartitionReader:
    """The part of hdfsstore.state.protocols.PartitionReader that both backends share.

    Args:
        fs: the filesystem of the checkpoint.
        folder: the store's folder in the partition: `state/<operator>/<partition>[/<store name>]`.
        file_format: how the store's files are written.
        unique_ids: of the versions that were written with one.
        empty_folder: whether a folder without a state file is the empty store at every version.
    """

    def __init__(
        self,
        fs: FileManager,
        folder: str,
        file_format: RecordFormat,
        unique_ids: Mapping[int, str] = MappingProxyType({}),
        *,
        empty_folder: bool = True,
    ) -> None:
        self._fs = fs
        self._folder = folder
        self._format = file_format
        self._unique_ids = unique_ids
        self._empty_folder = empty_folder

    def has(self, version: int) -> bool:
        """Whether there is a file of the version, whose other files may be missing all the same."""
        listing = StateFiles.list(self._fs, self._folder, self._format.extensions)
        return (version, self._unique_ids.get(version)) in listing.snapshots | listing.deltas

    def changes(self, versions: Sequence[int], convert: Callable[[int, RecordChunk], T]) -> list[T]:
        """All records of the deltas of `versions`, in their order, as `convert` of a version and its chunks."""
        return [
            item
            for with_ids, group in groupby(versions, lambda version: version in self._unique_ids)
            for item in (self._changes_with_ids if with_ids else self._changes_listed)(list(group), convert)
        ]

    def chain(self, version: int) -> Chain:
        """The files that make up `version`. Raises as a load does where they are missing."""
        return self._read(version, lambda _, chain: chain)

    def listing(self) -> StateFiles:
        """The files of the partition."""
        return StateFiles.list(self._fs, self._folder, self._format.extensions)

    def listed_chain(self, listing: StateFiles, version: int) -> Chain:
        """The same as `chain` by a listing, of whose files only the lineages in deltas with ids are read."""
        unique_id = self._unique_ids.get(version)
        if unique_id is None:
            return listing.chain(version)
        with closing(LineageFiles(self._fs, self._folder, self._format, (version, unique_id))) as files:
            return files.chain()

    def check_file(
        self, listing: StateFiles, version_id: VersionId, kind: FileKind, look: Callable[[RecordChunk], object]
    ) -> None:
        """Reads one file to its end, without the others of its chain, and shows its records.

        Raises:
            FileNotFoundError, MissingFileError, BatchNotAvailableError: there is no such file.
            CorruptFileError: it is damaged, or what it names is.
        """
        files: ListedFiles | LineageFiles
        if version_id[1] is None:
            files = ListedFiles(self._fs, listing, self._format, version_id)
        else:
            files = LineageFiles(self._fs, self._folder, self._format, version_id)
        with closing(files.open(version_id, kind)) as source:
            for chunk in self._records(files, source, version_id, kind):
                look(chunk)

    def _records(
        self, files: VersionFiles, source: Input, version_id: VersionId, kind: FileKind
    ) -> Iterator[RecordChunk]:
        yield from files.chunks(source, version_id, kind)
        source.finish()

    def restart(self, version: int) -> Restart:
        """What a load of `version` reads. Raises as a load does where files are missing, or a snapshot is damaged."""
        listing = StateFiles.list(self._fs, self._folder, self._format.extensions)

        def size(version_id: VersionId, kind: FileKind) -> int:
            name = file_name(version_id, kind, self._format.extensions)
            if name not in listing.sizes:
                raise MissingFileError("it was removed meanwhile", f"{self._folder}/{name}")
            return listing.sizes[name]

        def read(files: VersionFiles, chain: Chain) -> Restart:
            delta, snapshot = self._format.extensions
            sizes = {delta: Sizes.of(size(each, "delta") for each in chain.deltas)}
            if chain.snapshot is not None:
                sizes[snapshot] = Sizes.of([size(chain.snapshot, "snapshot")])
            return self._with_parts(Restart(sizes, Sizes(), {}), files, chain, listing)

        return self._read(version, read)

    def _with_parts(self, restart: Restart, _files: VersionFiles, _chain: Chain, _listing: StateFiles) -> Restart:
        """Adds the files that snapshots name; those of this base name none."""
        return restart

    def _changes_listed(self, versions: Sequence[int], convert: Callable[[int, RecordChunk], T]) -> list[T]:
        def read(listing: StateFiles) -> list[T]:
            if listing.empty:
                warn_of_empty(self._folder)
                return []
            for version in versions:
                if (version, None) not in listing.deltas:
                    listing.chain(version)  # raises the reason: not written yet, or removed by retention
                    raise BatchNotAvailableError(
                        f"there is no {self._format.extensions.delta} of version {version}, only a snapshot",
                        self._folder,
                        remedy="Read its state",
                    )
            return self._all_changes(
                [ListedFiles(self._fs, listing, self._format, (version, None)) for version in versions], convert
            )

        return with_listing(self._fs, self._folder, versions[-1], read, self._format.extensions)

    def _changes_with_ids(self, versions: Sequence[int], convert: Callable[[int, RecordChunk], T]) -> list[T]:
        ids = [(version, self._unique_ids[version]) for version in versions]
        return self._all_changes(
            [LineageFiles(self._fs, self._folder, self._format, version_id) for version_id in ids], convert
        )

    def _all_changes(self, versions: Sequence[VersionFiles], convert: Callable[[int, RecordChunk], T]) -> list[T]:
        with in_order(self._fs, [partial(_changes, files, convert) for files in versions]) as changes:
            return [item for items in changes for item in items]

    def _read(self, version: int, read: Callable[[VersionFiles, Chain], T]) -> T:
        version_id = version, self._unique_ids.get(version)
        return read_version(self._fs, self._folder, self._format, version_id, read, empty_folder=self._empty_folder)

    def _opened(self, files: VersionFiles, chain: Chain, stack: ExitStack) -> tuple[list[Opened], list[Opened]]:
        """The deltas, the newest first, and the snapshot if there is one.

        All files are open, or small ones read, before this returns, so none of them can vanish later.
        """
        deltas = chain.deltas[::-1]
        base = () if chain.snapshot is None else (chain.snapshot,)
        opens = [partial(files.open, delta, "delta") for delta in deltas]
        opens += [partial(files.open, snapshot, "snapshot") for snapshot in base]
        with in_order(self._fs, opens) as opened:
            sources = [stack.enter_context(closing(source)) for source in opened]
        return list(zip(deltas, sources, strict=False)), list(zip(base, sources[len(deltas) :], strict=True))


def _changes(files: VersionFiles, convert: Callable[[int, RecordChunk], T]) -> list[T]:
    version_id = files.version_id
    with closing(files.open(version_id, "delta")) as source:
        converted = [convert(version_id[0], chunk) for chunk in files.chunks(source, version_id, "delta")]
        source.finish()
        return converted
