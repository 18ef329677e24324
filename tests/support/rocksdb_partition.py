"""A partition of a RocksDB store, of hand-made changelogs and zips, and its rows."""

from __future__ import annotations

import json
import uuid
import zipfile
from pathlib import Path
from typing import Any

import rocksdict

from hdfsstore.codecs.compression import compress
from hdfsstore.codecs.lineage import LineageItem, encode_header
from hdfsstore.codecs.records import RecordChunk
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.state.protocols import ALL_KEYS, KeyRange
from hdfsstore.state.rocksdb.archive import Archive, Sst, belongs, encode
from hdfsstore.state.rocksdb.changelog import changelog_format
from hdfsstore.state.rocksdb.partition_reader import RocksDbPartitionReader
from tests.support.changelogs import TypedRecord, encode_typed

LOCAL = LocalFileManager()
Rows = dict[bytes, bytes]
UNNUMBERED = "column families whose numbers only a zip tells"


def rows_of(chunk: RecordChunk) -> Rows:
    keys, values = (memoryview(spans).cast("B").cast("i") for spans in (chunk.keys, chunk.values))
    data = bytes(chunk.data)
    return {
        data[keys[i] : keys[i] + keys[i + 1]]: data[values[i] : values[i] + values[i + 1]]
        for i in range(0, len(keys), 2)
    }


def reader(folder: Path, unique_ids: dict[int, str] | None = None, delimiter: bytes = b",") -> RocksDbPartitionReader:
    return RocksDbPartitionReader(LOCAL, str(folder), changelog_format("lz4"), unique_ids or {}, delimiter)


def loaded(partition: RocksDbPartitionReader, version: int, keys: KeyRange = ALL_KEYS) -> Rows:
    rows: Rows = {}
    for part in partition.load(version, rows_of, keys):
        assert not rows.keys() & part.keys()
        assert list(part) == sorted(part)
        rows |= part
    return rows


def write_changelog(folder: Path, version: int, records: list[TypedRecord], **kwargs: Any) -> None:
    (folder / name(version, "changelog", **kwargs)).write_bytes(
        compress("lz4", header(version, **kwargs) + encode_typed(records))
    )


def name(version: int, extension: str, ids: dict[int, str] | None = None, **_: Any) -> str:
    return f"{version}_{ids[version]}.{extension}" if ids else f"{version}.{extension}"


def header(version: int, ids: dict[int, str] | None = None, first: int = 1) -> bytes:
    if ids is None:
        return b"\0\2v2"
    return encode_header([LineageItem(v, ids[v]) for v in range(first, version)]).replace(b"v3", b"v4")


FAMILIES = {"default": 1, "counts": 2}


def write_zip(
    folder: Path, version: int, rows: Rows, ids: dict[int, str] | None = None, families: dict[str, int] = FAMILIES
) -> list[Path]:
    """A zip of the rows, and its SST files. Returns the paths of the latter."""
    local = folder / f"local-{uuid.uuid4()}"
    database = rocksdict.Rdict(str(local), rocksdict.Options(raw_mode=True))
    for key, value in rows.items():
        database[key] = value
    database.flush()
    database.close()
    ssts, files = [], {}
    for path in sorted(local.iterdir()):
        if path.suffix == ".sst":
            ssts.append(Sst(path.name, f"{path.stem}-{uuid.uuid4()}.sst", path.stat().st_size))
            target = folder / "SSTs" / ssts[-1].remote
            target.parent.mkdir(exist_ok=True)
            path.rename(target)
        elif belongs(path.name) and path.suffix != ".log":
            files[path.name] = path.read_bytes()
    content = encode(Archive(files, ssts, None, families))
    (folder / name(version, "zip", ids)).write_bytes(content)
    for path in sorted(local.iterdir()):
        path.unlink()
    local.rmdir()
    return [folder / "SSTs" / sst.remote for sst in ssts]


def damage_zip(zip_path: Path, _: list[Path]) -> None:
    zip_path.write_bytes(zip_path.read_bytes()[:-30])


def damage_manifest(zip_path: Path, _: list[Path]) -> None:
    with zipfile.ZipFile(zip_path) as source:
        files = {each: source.read(each) for each in source.namelist()}
    manifest = next(each for each in files if each.startswith("MANIFEST"))
    files[manifest] = files[manifest][:-1] + bytes([files[manifest][-1] ^ 1])
    with zipfile.ZipFile(zip_path, "w") as target:
        for each, content in files.items():
            target.writestr(each, content)


def damage_metadata(zip_path: Path, _: list[Path]) -> None:
    with zipfile.ZipFile(zip_path) as source:
        files = {each: source.read(each) for each in source.namelist()}
    fields = json.loads(files["metadata"].removeprefix(b"v1\n"))
    fields["sstFiles"][0]["sizeBytes"] += 1
    files["metadata"] = b"v1\n" + json.dumps(fields).encode()
    with zipfile.ZipFile(zip_path, "w") as target:
        for each, content in files.items():
            target.writestr(each, content)


def remove_sst(_: Path, ssts: list[Path]) -> None:
    ssts[0].unlink()


def cut_sst(_: Path, ssts: list[Path]) -> None:
    ssts[0].write_bytes(ssts[0].read_bytes()[:-1])


def flip_a_block(_: Path, ssts: list[Path]) -> None:
    content = bytearray(ssts[0].read_bytes())
    content[10] ^= 1
    ssts[0].write_bytes(content)
