"""Reads versions of a store's partition from the files of Spark's RocksDB provider, without a RocksDB.

The changelogs since the newest usable zip, from the oldest to the newest, lie over the SST files that the zip names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TypeAlias, TypeVar

from pyarrow.fs import FileType

from hdfsstore._cext.sst import Merge, Overlay
from hdfsstore.codecs.records import FileKind, RecordChunk, RecordFormat
from hdfsstore.codecs.rocksdb_keys import after, family_prefix
from hdfsstore.errors import BatchNotAvailableError, CorruptFileError, MissingFileError, StateStoreError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.in_order import in_order
from hdfsstore.fs.reading import (
    Input,
    file_types,
    open_input,
    read_file,
    read_whole,
    siblings_beside_hadoops,
)
from hdfsstore.state.base.key_part import ALL_PARTS, KeyPart, parts_for
from hdfsstore.state.base.partition_reader import BasePartitionReader
from hdfsstore.state.protocols import ALL_KEYS, KeyRange
from hdfsstore.state.rocksdb import archive
from hdfsstore.state.rocksdb.database import Database
from hdfsstore.state.usage import SST, Restart, Sizes
from hdfsstore.state.versions.chain import VersionFiles, older_chain
from hdfsstore.state.versions.files import Chain, StateFiles, VersionId

T = TypeVar("T")

# What an overlay takes for a record beside its bytes, while it is sorted (cext/sst/overlay.pxi).
_RECORD_BYTES = 120


@dataclass(frozen=True, slots=True)
class Families:
    """The column families of a version.

    Attributes:
        numbers: of each one, by the newest zip that can be read.
        changelogs: since that zip.
        unnumbered: the error of a key in them of a family that the zip does not have. It was made later, or made again
            under another number.
    """

    numbers: Mapping[str, int]
    changelogs: Overlay
    unnumbered: StateStoreError

    def number(self, name: str) -> int | None:
        """The number of a family; None: there is no such family. Raises `unnumbered` if there are such keys."""
        first: bytes | None = b""
        for prefix in sorted(map(family_prefix, self.numbers.values())):
            self._refuse_between(first, prefix)
            first = after(prefix)
        if first is not None:
            self._refuse_between(first, None)
        return self.numbers.get(name)

    def _refuse_between(self, first: bytes | None, end: bytes | None) -> None:
        if Merge((), self.changelogs, delimiter=b"", first=first, end=end).read() is not None:
            raise self.unnumbered


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of column families at a version, by the newest zip that can be read.

    Attributes:
        families: the number of each one.
        since: the version of the zip. Keys in changelogs after it have one of these numbers. Spark gives no number
            twice, so a key in them with another one is of a family that was made, or made again, after the zip.
        unnumbered: the error of such a key.
        damage: of a newer zip, which may have other families.
    """

    families: Mapping[str, int]
    since: int
    unnumbered: StateStoreError
    damage: CorruptFileError | None


# The range of keys that is wanted; None: there is no such key.
Within: TypeAlias = Callable[[Families], KeyRange | None]


class RocksDbPartitionReader(BasePartitionReader):
    """hdfsstore.state.protocols.PartitionReader on changelogs, zips and SST files. Chunks are sorted by key.

    Args:
        fs, folder, file_format, unique_ids, empty_folder: as BasePartitionReader has them.
        delimiter: joins the values that were merged into a key.
    """

    def __init__(
        self,
        fs: FileManager,
        folder: str,
        file_format: RecordFormat,
        unique_ids: Mapping[int, str] = MappingProxyType({}),
        delimiter: bytes = b",",
        *,
        empty_folder: bool = True,
    ) -> None:
        super().__init__(fs, folder, file_format, unique_ids, empty_folder=empty_folder)
        self._delimiter = delimiter

    def load(self, version: int, convert: Callable[[RecordChunk], T], keys: KeyRange = ALL_KEYS) -> list[T]:
        """The state at `version`, each key once, as the protocol says."""
        return list(self.stream(version, convert, keys))

    def stream(
        self,
        version: int,
        convert: Callable[[RecordChunk], T],
        keys: KeyRange = ALL_KEYS,
        memory: int | None = None,
    ) -> Iterator[T]:
        """The same in bounded memory: the changelogs since the zip, and a few blocks of each SST file.

        Where the changelogs take more than `memory`, all files are read once for each part of the keys that fits: then
        only the chunks of a part are sorted. Each block is checked before a record comes from it. Where one is damaged,
        an older zip and the changelogs after it go on behind the last key, with a warning.
        """
        return self.stream_within(version, lambda _families: keys, convert, memory)

    def stream_within(
        self, version: int, within: Within, convert: Callable[[RecordChunk], T], memory: int | None = None
    ) -> Iterator[T]:
        """The same for keys in a range that depends on the column families.

        Args:
            within: is called once for each part. It returns None where there are no such keys.
        """
        for part in self._parts(version, memory):
            yield from self._stream_part(version, within, convert, part)

    def _parts(self, version: int, memory: int | None) -> list[KeyPart]:
        """Parts of the keys whose changelogs fit into the memory."""
        if memory is None:
            return [ALL_PARTS]

        def read(files: VersionFiles, chain: Chain) -> int:
            size = 0
            with ExitStack() as stack:
                for version_id, source in self._opened(files, Chain(None, chain.deltas), stack)[0]:
                    for chunk in files.chunks(source, version_id, "delta"):
                        size += sum(chunk.sizes()) + _RECORD_BYTES * len(chunk)
                    source.finish()
            return size

        return parts_for(self._read(version, read), memory)

    def _stream_part(
        self, version: int, within: Within, convert: Callable[[RecordChunk], T], part: KeyPart
    ) -> Iterator[T]:
        told: list[KeyRange | None] = []
        last: bytes | None = None

        def keys_left(families: Families) -> KeyRange | None:
            if not told:
                told.append(within(families))
            return told[0] if told[0] is None or last is None else KeyRange(last + b"\0", told[0].end)

        with ExitStack() as stack:

            def read(files: VersionFiles, chain: Chain) -> tuple[VersionFiles, Chain, _Chunks]:
                chunks = _Chunks(self._merged(files, chain, keys_left, part, stack))
                try:
                    chunks.look()  # here a file that is gone is still looked for in another listing
                except FileNotFoundError as error:
                    if files.version_id[1] is None:
                        raise
                    raise MissingFileError("it was removed meanwhile", str(error)) from error
                return files, chain, chunks

            files, chain, chunks = self._read(version, read)
            while True:
                try:
                    chunk = chunks.take()
                except CorruptFileError as error:
                    chain = older_chain(files, chain, error)
                    chunks = _Chunks(self._merged(files, chain, keys_left, part, stack))
                    continue
                except FileNotFoundError as error:
                    raise BatchNotAvailableError(
                        f"retention has removed {error} while version {version} was read",
                        self._folder,
                        remedy="Read a later batch, or let the query retain more "
                        "(spark.sql.streaming.minBatchesToRetain)",
                    ) from error
                if chunk is None:
                    return
                last = _last_key(chunk)
                yield convert(part.of(chunk))

    def families(self, version: int) -> Mapping[str, int]:
        """The number of each column family at `version`, by the newest zip that can be read; none where no file is.

        Spark writes a zip with each commit that adds or removes a family.

        Raises:
            CorruptFileError, MissingFileError: there are changelogs, and no zip that can be read.
        """
        return self._read(version, self._families)

    def numbers(self, version: int) -> Numbers:
        """The numbers by which the changelogs up to `version` are told apart. Raises as `families` does."""

        def read(files: VersionFiles, chain: Chain) -> Numbers:
            since = chain.snapshot[0] if chain.snapshot is not None else 0
            return Numbers(self._families(files, chain), since, self._unnumbered(files), files.damage)

        return self._read(version, read)

    def check_numbered(self, version: int, chain: Chain) -> None:
        """Raises MissingFileError if there are changelogs, and no zip that has the numbers of column families."""
        if chain.snapshot is None and chain.deltas:
            raise _unnumbered(self._folder, version)

    def _families(self, files: VersionFiles, chain: Chain) -> Mapping[str, int]:
        if files.damage is None:
            self.check_numbered(files.version_id[0], chain)
        found = _zip_of(files, chain)
        if found is None and chain.deltas and files.damage is not None:
            raise files.damage
        return {} if found is None else found.families

    def _unnumbered(self, files: VersionFiles) -> StateStoreError:
        return files.damage or _unnumbered(self._folder, files.version_id[0])

    def _with_parts(self, restart: Restart, files: VersionFiles, chain: Chain, listing: StateFiles) -> Restart:
        """Adds the SST files of the zip, and of them those that other zips name, too."""
        base = _zip_of(files, chain)
        if chain.snapshot is None or base is None:
            return restart
        others = [partial(self._ssts, files.path(each, "snapshot")) for each in listing.snapshots - {chain.snapshot}]
        with in_order(self._fs, others) as named:
            shared = {remote for ssts in named for remote in ssts}
        return Restart(
            {**restart.files, SST: Sizes.of(sst.size for sst in base.ssts)},
            Sizes.of(sst.size for sst in base.ssts if sst.remote in shared),
            base.families,
        )

    def _ssts(self, zip_path: str) -> list[str]:
        """The SST files of a zip; none if it cannot be read, for then no load can use it."""
        try:
            return [sst.remote for sst in archive.decode(read_file(self._fs, zip_path), zip_path).ssts]
        except (FileNotFoundError, CorruptFileError):
            return []

    def _records(
        self, files: VersionFiles, source: Input, version_id: VersionId, kind: FileKind
    ) -> Iterator[RecordChunk]:
        if kind == "delta":
            yield from super()._records(files, source, version_id, kind)
            return
        found = _decoded(files, version_id, source)
        yield from Database(self._fs, self._folder, found, files.path(version_id, kind)).chunks(
            Overlay(), self._delimiter
        )
        siblings = siblings_beside_hadoops(self._fs)
        for sst in found.ssts:  # blocks have checksums of their own, and Spark downloads a file whole
            with open_input(self._fs, f"{self._folder}/{archive.SST_FOLDER}/{sst.remote}", siblings) as whole:
                whole.finish()

    def _merged(
        self, files: VersionFiles, chain: Chain, within: Within, part: KeyPart, stack: ExitStack
    ) -> Iterator[RecordChunk]:
        changelogs, base = self._opened(files, chain, stack)
        overlay = Overlay()
        for version_id, source in reversed(changelogs):
            for chunk in map(part.of, files.chunks(source, version_id, "delta")):
                overlay.add(chunk.data, chunk.keys, chunk.values, chunk.kinds)
            source.finish()
        found = _decoded(files, *base[0]) if base else None
        keys = within(Families(found.families if found else {}, overlay, self._unnumbered(files)))
        if keys is None:
            return iter(())
        if found is None:
            return _rows_of(overlay, self._delimiter, keys, files.path(files.version_id, "delta"))
        path = files.path(base[0][0], "snapshot")
        ssts = f"{self._folder}/{archive.SST_FOLDER}"
        files.snapshot_parts = {f"{path}:{name}" for name in found.files} | {f"{ssts}/{s.remote}" for s in found.ssts}
        database = Database(self._fs, self._folder, found, path)
        return self._whole(database.chunks(overlay, self._delimiter, keys.first, keys.end), path)

    def _whole(self, chunks: Iterator[RecordChunk], zip_path: str) -> Iterator[RecordChunk]:
        try:
            yield from chunks
        except MissingFileError as error:
            if file_types(self._fs, [zip_path]) == [FileType.NotFound]:
                raise FileNotFoundError(zip_path) from error
            raise CorruptFileError(
                f"it names {error.path}, which is missing", zip_path, remedy=archive.REMEDY
            ) from error


class _Chunks:
    """An iterator whose first item can be looked for before it is taken."""

    def __init__(self, chunks: Iterator[RecordChunk]) -> None:
        self._chunks = chunks
        self._first: list[RecordChunk | None] = []

    def look(self) -> None:
        self._first.append(next(self._chunks, None))

    def take(self) -> RecordChunk | None:
        return self._first.pop() if self._first else next(self._chunks, None)


def _zip_of(files: VersionFiles, chain: Chain) -> archive.Archive | None:
    if chain.snapshot is None:
        return None
    with closing(files.open(chain.snapshot, "snapshot")) as source:
        return _decoded(files, chain.snapshot, source)


def _unnumbered(folder: str, version: int) -> MissingFileError:
    return MissingFileError(
        f"the changelogs up to version {version} have keys of column families whose numbers only a zip tells, and no "
        "zip that can be read has them",
        folder,
        remedy="Restore the newest zip before or at this version",
    )


def _decoded(files: VersionFiles, snapshot: VersionId, source: Input) -> archive.Archive:
    return archive.decode(read_whole(source), files.path(snapshot, "snapshot"))


def _rows_of(overlay: Overlay, delimiter: bytes, keys: KeyRange, path: str) -> Iterator[RecordChunk]:
    merge = Merge((), overlay, delimiter=delimiter, first=keys.first, end=keys.end)
    while (read := merge.read()) is not None:
        data, key_spans, value_spans = read
        yield RecordChunk(memoryview(data), key_spans, value_spans, path, 0)


def _last_key(chunk: RecordChunk) -> bytes:
    at, size = memoryview(chunk.keys).cast("B").cast("i")[-2:]
    return bytes(chunk.data[at : at + size])
