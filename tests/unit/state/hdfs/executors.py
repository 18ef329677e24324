"""Executors on one partition of a store on local disk, and what lies in its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hdfsstore.codecs.compression import decompress
from hdfsstore.codecs.lineage import LineageItem, read_header
from hdfsstore.state.conf import StateStoreConf
from hdfsstore.state.hdfs.provider import HdfsStateStoreProvider
from hdfsstore.state.protocols import ReadStateStore, StateStoreCheckpointInfo
from hdfsstore.state.rows import Schema, struct_type
from hdfsstore.state.store_id import StateStoreId
from hdfsstore.state.store_schema import StoreSchema
from hdfsstore.state.versions.files import VersionId, file_name

State = dict[bytes, bytes]
EMPTY: VersionId = (0, None)


class Executors:
    """Opens providers on one partition.

    Args:
        root: a folder of the test's own.
        conf: settings of all of them.
    """

    def __init__(self, root: Path, **conf: Any) -> None:
        self.root = root
        self.folder = root / "state" / "0" / "0"
        self._conf = {"maintenance_interval": 0, **conf}
        self._opened: list[HdfsStateStoreProvider] = []

    def open(
        self, host: str = "host", *schemas: Schema, prefix: int = 0, indexed: int | None = None, **conf: Any
    ) -> HdfsStateStoreProvider:
        """A provider as in a new process on that host: those of one host share local images."""
        shared_across_workers = conf.pop("shared_across_workers", False)
        provider = HdfsStateStoreProvider(
            StateStoreId(str(self.root / "state"), 0, 0),
            StateStoreConf(**{"local_dir": str(self.root / host), **self._conf, **conf}),
            StoreSchema(*map(struct_type, schemas), num_cols_prefix_key=prefix, timeout_offset=indexed),
            shared_across_workers=shared_across_workers,
        )
        self._opened.append(provider)
        return provider

    def close(self) -> None:
        for provider in self._opened:
            provider.close()

    def names(self, pattern: str = "*") -> list[str]:
        """Names in the store's folder, by version."""
        return sorted(
            (p.name for p in self.folder.glob(pattern)), key=lambda name: int(name.split(".")[0].split("_")[0])
        )

    def path(self, version_id: VersionId, kind: str = "delta") -> Path:
        return self.folder / file_name(version_id, "delta" if kind == "delta" else "snapshot")

    def lineage(self, version_id: VersionId) -> list[LineageItem]:
        """What the header of the delta says."""
        content = decompress("lz4", self.path(version_id).read_bytes())
        position = 0

        class Content:
            def readinto(self, buffer: memoryview | bytearray) -> int:
                nonlocal position
                piece = content[position : position + len(buffer)]
                buffer[: len(piece)] = piece
                position += len(piece)
                return len(piece)

        return read_header(Content(), str(self.path(version_id)), version_id[0])[0]

    def images(self, host: str = "host") -> list[Path]:
        """The local images on a host."""
        return sorted((self.root / host).glob("*/*.image"))


def commit(
    provider: HdfsStateStoreProvider, base: VersionId, updates: Mapping[bytes, bytes | None] | None = None
) -> VersionId:
    """Commits the updates, None for a removal, on top of the base; where none are given, a key of the version's own."""
    store = provider.get_store(*base)
    number = base[0] + 1
    for key, value in (updates if updates is not None else {b"key %d" % number: b"value %d" % number}).items():
        if value is None:
            store.remove(key)
        else:
            store.put(key, value)
    return id_of(store.commit())


def chain(provider: HdfsStateStoreProvider, count: int, base: VersionId = EMPTY) -> list[VersionId]:
    """The base and so many versions committed after it."""
    versions = [base]
    for _ in range(count):
        versions.append(commit(provider, versions[-1]))
    return versions


def rows_at(version: int) -> State:
    """What `chain` from the empty store leaves."""
    return {b"key %d" % number: b"value %d" % number for number in range(1, version + 1)}


def read(provider: HdfsStateStoreProvider, version_id: VersionId) -> State:
    with provider.get_read_store(*version_id) as store:
        return contents(store)


def contents(store: ReadStateStore) -> State:
    rows = list(store.iterator())
    assert len(dict(rows)) == len(rows), "a key came twice"
    return dict(rows)


def id_of(info: StateStoreCheckpointInfo) -> VersionId:
    return info.version, info.checkpoint_unique_id


def spoil(path: Path) -> None:
    """Damages a file so that whoever reads it fails."""
    path.write_bytes(path.read_bytes()[:-3])


def with_image(executors: Executors, count: int) -> list[VersionId]:
    """So many versions, the last of which has a local image."""
    with executors.open(min_deltas_for_snapshot=count - 1) as provider:
        versions = chain(provider, count)
        provider.do_maintenance()
    assert [path.name.split("_")[0].split(".")[0] for path in executors.images()] == [str(count)]
    return versions


def damage(image: Path, begin: float = 0) -> None:
    """Changes bytes of each block behind the header, or behind a share of the file, under whoever has it mapped."""
    image.chmod(0o600)
    with image.open("r+b") as file:
        size = image.stat().st_size
        for position in range(max(4096, int(begin * size)) + 10, size, 256):
            file.seek(position)
            byte = file.read(1)
            file.seek(position)
            file.write(bytes([byte[0] ^ 0xFF]))
    image.chmod(0o400)
