"""Loads a version of a store into a local RocksDB by the cheapest safe path.

    1  it is cached
    2  a RocksDB on whose newest version the wanted one is built, and the changelogs after that
    3  the checkpoint's files alone: a zip and its SST files in a new RocksDB, and the changelogs after it

A RocksDB that takes no more writes stays readable, and another one is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from hdfsstore.errors import CorruptFileError, StateStoreError
from hdfsstore.fs.in_order import in_order
from hdfsstore.fs.reading import open_input, read_file, siblings_beside_hadoops
from hdfsstore.state.base.loader import Loader
from hdfsstore.state.rocksdb import archive
from hdfsstore.state.rocksdb.cached_versions import RocksDbVersions
from hdfsstore.state.rocksdb.changelog import decode_updates
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
        counts: counts hits and misses.
    """

    _versions: RocksDbVersions

    def __init__(
        self, reader: VersionReader, versions: RocksDbVersions, instance_dirs: InstanceDirs, counts: Counter[str]
    ) -> None:
        super().__init__(reader, versions, counts)
        self._instance_dirs = instance_dirs

    def load_alone(self, version_id: VersionId) -> RocksDbVersion:
        """Loads the version into a RocksDB of its own, which holds no newer one."""
        with self._loading:
            if version_id == EMPTY:
                return self._load_empty()
            return read_version(
                self._reader.fs,
                self._reader.folder,
                self._reader.format,
                version_id,
                lambda files, chain: self._replay(self._open_base(files, chain.snapshot), files, chain.deltas),
            )

    def check_snapshot(self, version_id: VersionId) -> None:
        """Checks that a zip and its SST files exist.

        Raises:
            FileNotFoundError: there is no zip.
            CorruptFileError: it is damaged, or an SST file is missing or has another size.
        """
        path = self._reader.path(version_id, "snapshot")
        found = archive.decode(read_file(self._reader.fs, path), path)
        folder = f"{self._reader.folder}/{archive.SST_FOLDER}"
        infos = self._reader.fs.file_infos([f"{folder}/{sst.remote}" for sst in found.ssts])
        for sst, info in zip(found.ssts, infos, strict=True):
            _check_size(sst, info.size, path)

    def _load_empty(self) -> RocksDbVersion:
        version = self._make_empty()
        self._versions.add(version)
        return version

    def _make_empty(self) -> RocksDbVersion:
        instance = Instance(self._instance_dirs.current())
        instance.open()
        return self._versions.reached(instance, EMPTY)

    def _load(self, version_id: VersionId) -> RocksDbVersion:
        return read_version(self._reader.fs, self._reader.folder, self._reader.format, version_id, self._load_cheapest)

    def _load_cheapest(self, files: VersionFiles, chain: Chain) -> RocksDbVersion:
        candidates = [chain.snapshot or EMPTY, *chain.deltas]
        for i in range(len(candidates) - 1, -1, -1):
            version = self._find_unchanged(candidates[i])
            if version is not None:
                with version.instance.lock:
                    if version.instance.tip == version.id:
                        return self._replay(version, files, chain.deltas[i:])
        return self._replay(self._open_base(files, chain.snapshot), files, chain.deltas)

    def _replay(self, version: RocksDbVersion, files: VersionFiles, changelogs: Sequence[VersionId]) -> RocksDbVersion:
        """Replays changelogs on a version, and caches the result. The versions in between are not cached."""
        instance = version.instance
        opens = [partial(files.open, version_id, "delta") for version_id in changelogs]
        with in_order(self._reader.fs, opens) as opened:
            for version_id in changelogs:
                lineage = self._versions.lineages.lineage_after(version)
                with (
                    instance.lock,
                    instance.changing(),
                    self._reader.digested(next(opened), version_id, "delta") as source,
                ):
                    for chunk in files.chunks(source, version_id, "delta"):
                        instance.replay(decode_updates(chunk))
                    version = self._versions.reached(instance, version_id, lineage, source.finish())
        self._versions.add(version)
        return version

    def _open_base(self, files: VersionFiles, snapshot: VersionId | None) -> RocksDbVersion:
        if snapshot is None:
            return self._make_empty()
        path = files.path(snapshot, "snapshot")
        with self._reader.digested(files.open(snapshot, "snapshot"), snapshot, "snapshot") as source:
            content = bytearray()
            block = memoryview(bytearray(_BLOCK))
            while n := source.readinto(block):
                content += block[:n]
            digest = source.finish()
        found = archive.decode(bytes(content), path)
        archive.refuse_families(found.families, path)
        instance = Instance(self._instance_dirs.current(), found.files)
        downloads = [partial(self._download, sst, instance.folder, path) for sst in found.ssts]
        with in_order(self._reader.fs, downloads, waits=True) as done:
            for _ in done:
                pass
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
            with (
                open_input(self._reader.fs, remote, siblings_beside_hadoops(self._reader.fs)) as source,
                (folder / sst.local).open("xb") as target,
            ):
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
