"""Gets a version of a store into a local RocksDB by the shortest way that is sure.

    1  it is at hand
    2  a RocksDB whose newest version the wanted one is built on, and the changelogs after that
    3  the checkpoint's files alone: a zip and its SST files in a new RocksDB, and the changelogs after it

A RocksDB that cannot be written on stays readable, and another one is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from hdfsstore.errors import CorruptFileError, StateStoreError
from hdfsstore.fs import open_input, read_file
from hdfsstore.state.base.loader import Loader
from hdfsstore.state.rocksdb import archive
from hdfsstore.state.rocksdb.cached_versions import RocksDbVersions
from hdfsstore.state.rocksdb.changelog import decode_updates, open_changelog
from hdfsstore.state.rocksdb.instance import Instance
from hdfsstore.state.rocksdb.instance_dir import InstanceDirs
from hdfsstore.state.rocksdb.transaction import RocksDbVersion
from hdfsstore.state.versions.chain import VersionFiles, read_version
from hdfsstore.state.versions.files import Chain, VersionId
from hdfsstore.state.versions.lineages import EMPTY
from hdfsstore.state.versions.reader import VersionReader

_BLOCK = 1 << 20


class RocksDbLoader(Loader[RocksDbVersion]):
    """Loads versions of one store. Threads may share it; one of them loads at a time.

    Args:
        instance_dirs: where the RocksDBs live.
        counts: where hits and misses are counted.
    """

    _versions: RocksDbVersions

    def __init__(
        self, reader: VersionReader, versions: RocksDbVersions, instance_dirs: InstanceDirs, counts: Counter[str]
    ) -> None:
        super().__init__(reader, versions, counts)
        self._instance_dirs = instance_dirs

    def alone(self, version_id: VersionId) -> RocksDbVersion:
        """The version in a RocksDB of its own, which holds no newer one."""
        with self._loading:
            if version_id == EMPTY:
                return self._empty()
            return read_version(
                self._reader.fs,
                self._reader.folder,
                self._reader.format,
                version_id,
                lambda files, chain: self._go_on(self._begin(files, chain.snapshot), files, chain.deltas),
            )

    def check_snapshot(self, version_id: VersionId) -> None:
        """Sees to it that a zip and its SST files are there.

        Raises:
            FileNotFoundError: there is no zip.
            CorruptFileError: it is damaged, or an SST file is missing or has another size.
        """
        path = self._reader.path(version_id, "snapshot")
        found = archive.decode(read_file(self._reader.fs, path), path)
        folder = f"{self._reader.folder}/{archive.SST_FOLDER}"
        for sst in found.ssts:
            info = self._reader.fs.get_file_info([f"{folder}/{sst.remote}"])[0]
            _check_size(sst, info.size, path)

    def _empty(self) -> RocksDbVersion:
        held = self._nothing()
        self._versions.add(held)
        return held

    def _nothing(self) -> RocksDbVersion:
        instance = Instance(self._instance_dirs.current())
        instance.open()
        return self._versions.reached(instance, EMPTY)

    def _loaded(self, version_id: VersionId) -> RocksDbVersion:
        return read_version(
            self._reader.fs, self._reader.folder, self._reader.format, version_id, self._by_the_shortest_way
        )

    def _by_the_shortest_way(self, files: VersionFiles, chain: Chain) -> RocksDbVersion:
        candidates = [chain.snapshot or EMPTY, *chain.deltas]
        for i in range(len(candidates) - 1, -1, -1):
            held = self._cached_version(candidates[i])
            if held is not None:
                with held.instance.lock:
                    if held.instance.tip == held.id:
                        return self._go_on(held, files, chain.deltas[i:])
        return self._go_on(self._begin(files, chain.snapshot), files, chain.deltas)

    def _go_on(self, held: RocksDbVersion, files: VersionFiles, changelogs: Sequence[VersionId]) -> RocksDbVersion:
        """The version after all the changelogs; those in between are not held."""
        instance = held.instance
        for version_id in changelogs:
            lineage = self._versions.lineages.lineage_after(held)
            with (
                instance.lock,
                instance.changing(),
                self._reader.digested(open_changelog(self._reader, files, version_id), version_id, "delta") as source,
            ):
                for chunk in files.chunks(source, version_id, "delta"):
                    instance.replay(decode_updates(chunk))
                held = self._versions.reached(instance, version_id, lineage, source.finish())
        self._versions.add(held)
        return held

    def _begin(self, files: VersionFiles, snapshot: VersionId | None) -> RocksDbVersion:
        if snapshot is None:
            return self._nothing()
        path = files.path(snapshot, "snapshot")
        with self._reader.digested(files.open(snapshot, "snapshot"), snapshot, "snapshot") as source:
            content = bytearray()
            block = memoryview(bytearray(_BLOCK))
            while n := source.readinto(block):
                content += block[:n]
            digest = source.finish()
        found = archive.decode(bytes(content), path)
        instance = Instance(self._instance_dirs.current(), found.files)
        for sst in found.ssts:
            self._download(sst, instance.folder, path)
        try:
            instance.open(found.num_keys)
        except StateStoreError as error:
            raise CorruptFileError(
                f"RocksDB does not open what it holds: {error.message}", path, remedy=archive.REMEDY
            ) from error
        instance.uploaded = {sst.local: (snapshot[0], sst) for sst in found.ssts}
        self._versions.lineages.note_snapshot(snapshot)
        return self._versions.reached(instance, snapshot, (), digest)

    def _download(self, sst: archive.Sst, folder: Path, zip_path: str) -> None:
        remote = f"{self._reader.folder}/{archive.SST_FOLDER}/{sst.remote}"
        try:
            with open_input(self._reader.fs, remote) as source, (folder / sst.local).open("xb") as target:
                block = memoryview(bytearray(_BLOCK))
                while n := source.readinto(block):
                    target.write(block[:n])
                size = target.tell()
        except FileNotFoundError:
            size = None
        except CorruptFileError as error:
            problem = f"its {sst.remote} is damaged: {error.message}"
            raise CorruptFileError(problem, zip_path, remedy=archive.REMEDY) from error
        except OSError as error:
            raise StateStoreError(
                f"an SST file cannot be copied here: {error}", str(folder), remedy="Free space there"
            ) from error
        _check_size(sst, size, zip_path)


def _check_size(sst: archive.Sst, size: int | None, zip_path: str) -> None:
    if size != sst.size:
        raise CorruptFileError(
            f"its {archive.SST_FOLDER}/{sst.remote} should have {sst.size} bytes, and "
            + ("is missing" if size is None else f"has {size}"),
            zip_path,
            remedy=archive.REMEDY,
        )
