"""What tests of the backend "hdfs" do with a partition and look for in its folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hdfsstore.codecs.compression import decompress
from hdfsstore.codecs.lineage import LineageItem, read_header
from hdfsstore.state.hdfs.provider import HdfsStateStoreProvider
from hdfsstore.state.versions.files import VersionId, file_name
from tests.support.partition import EMPTY, Partition, State, ref


def path_of(executors: Partition, version_id: VersionId, kind: str = "delta") -> Path:
    return executors.folder / file_name(version_id, "delta" if kind == "delta" else "snapshot")


def lineage_of(executors: Partition, version_id: VersionId) -> list[LineageItem]:
    """What the header of the delta says."""
    content = decompress("lz4", path_of(executors, version_id).read_bytes())
    position = 0

    class Content:
        def readinto(self, buffer: memoryview | bytearray) -> int:
            nonlocal position
            piece = content[position : position + len(buffer)]
            buffer[: len(piece)] = piece
            position += len(piece)
            return len(piece)

    return read_header(Content(), str(path_of(executors, version_id)), version_id[0])[0]


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
    return ref(store.commit())


def chain(provider: HdfsStateStoreProvider, count: int, base: VersionId = EMPTY) -> list[VersionId]:
    """The base and so many versions committed after it."""
    versions = [base]
    for _ in range(count):
        versions.append(commit(provider, versions[-1]))
    return versions


def rows_at(version: int) -> State:
    """What `chain` from the empty store leaves."""
    return {b"key %d" % number: b"value %d" % number for number in range(1, version + 1)}


def spoil(path: Path) -> None:
    """Damages a file so that whoever reads it fails."""
    path.write_bytes(path.read_bytes()[:-3])


def with_image(executors: Partition, count: int) -> list[VersionId]:
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
