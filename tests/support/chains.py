"""Delta and snapshot files made by hand, and a folder that tells what was asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from pyarrow.fs import FSSpecHandler, PyFileSystem

from hdfsstore._cext.records import encode_records
from hdfsstore.codecs.compression import compress
from hdfsstore.codecs.lineage import LineageItem, encode_header
from hdfsstore.codecs.records import FileKind, RecordChunk
from hdfsstore.fs.arrow_files import ArrowFileManager
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.state.versions.files import VersionId, file_name

State = dict[bytes, bytes]
Changes = Mapping[bytes, bytes | None]
END_MARK = b"\xff\xff\xff\xff"


def row(number: int) -> bytes:
    return number.to_bytes(8, "big")


def records(changes: Changes) -> bytes:
    """The records of a delta or snapshot, end mark included."""
    parts = []
    for key, value in changes.items():
        if value is None:
            parts.append(len(key).to_bytes(4, "big") + key + END_MARK)
        else:
            parts.append(encode_records(pa.array([key], pa.binary()), pa.array([value], pa.binary())).to_pybytes()[:-4])
    return b"".join(parts) + END_MARK


def write(
    folder: Path, version_id: VersionId, kind: FileKind, changes: Changes, lineage: list[LineageItem] | None = None
) -> Path:
    """Writes a file; a delta with an id begins with a lineage."""
    header = b"" if lineage is None else encode_header(lineage)
    path = folder / file_name(version_id, kind)
    path.write_bytes(compress("lz4", header + records(changes)))
    return path


def pairs(chunk: RecordChunk) -> list[tuple[bytes, bytes | None]]:
    spans = [memoryview(spans).cast("i").tolist() for spans in (chunk.keys, chunk.values)]
    data = bytes(chunk.data)
    keys, values = (
        [data[s[i] : s[i] + s[i + 1]] if s[i + 1] >= 0 else None for i in range(0, len(s), 2)] for s in spans
    )
    return list(zip(keys, values, strict=True))  # type: ignore[arg-type]


class Watched:
    """A local folder by fsspec's methods, which cannot be listed."""

    protocol = "watched"

    def __init__(self, root: Path) -> None:
        self.root = root
        self.opened: list[str] = []
        self.missed: list[str] = []

    @property
    def filesystem(self) -> FileManager:
        return ArrowFileManager(PyFileSystem(FSSpecHandler(self)))

    def isfile(self, path: str) -> bool:
        found = (self.root / path).is_file()
        if not found:
            self.missed.append(Path(path).name)
        return found

    def open(self, path: str, mode: str) -> object:
        self.opened.append(Path(path).name)
        return (self.root / path).open(mode)
