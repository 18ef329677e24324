"""The rows of a store as the zip and the SST files of a RocksDB, beside an HDFS-backed snapshot of the same rows."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pytest_benchmark.fixture import BenchmarkFixture

from bench import store_data
from bench.cache import work_folder
from bench.report import Report
from bench.side_by_side import side_by_side
from hdfsstore._cext.records import encode_records
from hdfsstore._cext.sst import Merge, Overlay
from hdfsstore.codecs.compression import compress
from hdfsstore.codecs.records import CHUNK_BYTES, RecordChunk
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.fs.publish import publish
from hdfsstore.state.rocksdb.archive import decode
from hdfsstore.state.rocksdb.archive_upload import Zips
from hdfsstore.state.rocksdb.changelog import changelog_format, decode_updates
from hdfsstore.state.rocksdb.database import Database
from hdfsstore.state.rocksdb.database_writer import write_version
from hdfsstore.state.rocksdb.instance import Instance
from hdfsstore.state.rocksdb.instance_dir import InstanceDir
from hdfsstore.state.versions.reader import VersionReader

NUM_KEYS = 2_000_000
FS = LocalFileManager()


def unsorted_rows(num_keys: int) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    return store_data.rows(pa.array(range(num_keys), pa.int64()))


def stored(rows: tuple[pa.BinaryArray, pa.BinaryArray]) -> tuple[bytes, pa.Buffer, pa.Buffer]:
    """The rows as a RocksDB stores them, with a byte of 0 in front."""
    zero, end = pa.scalar(b"\0", pa.binary()), pa.scalar(b"", pa.binary())
    return spans_of(*(pc.binary_join_element_wise(zero, part, end) for part in rows))


def spans_of(keys: pa.BinaryArray, values: pa.BinaryArray) -> tuple[bytes, pa.Buffer, pa.Buffer]:
    data = bytes(keys.buffers()[2]) + bytes(values.buffers()[2])
    found, at = [], 0
    for part in (keys, values):
        offsets = pa.Array.from_buffers(pa.int32(), len(part) + 1, [None, part.buffers()[1]])
        starts, sizes = pc.add(offsets[:-1], pa.scalar(at, pa.int32())), pc.binary_length(part)
        pairs = pa.Table.from_arrays([starts, sizes], ["start", "size"]).to_pandas().to_numpy("int32")
        found.append(pa.py_buffer(pairs.tobytes()))
        at += offsets[-1].as_py()
    return data, *found


def in_order_of_keys(unsorted: tuple[bytes, pa.Buffer, pa.Buffer]) -> Iterator[RecordChunk]:
    overlay = Overlay()
    overlay.add(*unsorted)
    merge = Merge((), overlay, delimiter=b",", chunk_bytes=CHUNK_BYTES)
    while (read := merge.read()) is not None:
        yield RecordChunk(memoryview(read[0]), *read[1:], "rows", 0)


def test_write(benchmark: BenchmarkFixture, report: Report, smoke: bool, rounds: int) -> None:
    num_keys = NUM_KEYS // 100 if smoke else NUM_KEYS
    rows = unsorted_rows(num_keys)
    unsorted = stored(rows)
    in_order = [chunk.copy() for chunk in in_order_of_keys(unsorted)]
    with work_folder() as work:
        partition = work / "0"

        def snapshot() -> None:
            publish(FS, f"{partition}/1.snapshot", compress("lz4", encode_records(*rows)), overwrite=True)

        def ssts(chunks: Iterator[RecordChunk]) -> None:
            write_version(FS, str(partition), (1, None), chunks)

        work_of = {
            "HDFS-backed snapshot": snapshot,
            "zip and SST files": lambda: ssts(iter(in_order)),
            "zip and SST files, sorted first": lambda: ssts(in_order_of_keys(unsorted)),
        }
        seconds = side_by_side(work_of, rounds, {name: lambda: clear(partition) for name in work_of})
        benchmark.pedantic(lambda: ssts(iter(in_order)), rounds=1)
    for name, took in seconds.items():
        report.add(f"{num_keys:,} rows as {name}", f"{took * 1e3:.0f} ms", "")
    ratio = seconds["zip and SST files"] / seconds["HDFS-backed snapshot"]
    report.add("zip and SST files take of a snapshot's time", f"{ratio:.2f} x", "goal: at most 2.5 x")


def test_zips_of_a_rocksdb(report: Report, smoke: bool, rounds: int, tmp_path: Path) -> None:
    """What the backend `rocksdb` does for a snapshot, beside its rows written anew."""
    num_keys = NUM_KEYS // 100 if smoke else NUM_KEYS
    instance = Instance(InstanceDir(str(tmp_path)))
    instance.open()
    for chunk in in_order_of_keys(stored(unsorted_rows(num_keys))):
        instance.write(decode_updates(chunk))
    instance.flush()
    with work_folder() as work:
        first, again = work / "first", work / "again"

        def upload() -> None:
            zips = Zips(VersionReader(FS, str(first), changelog_format("lz4")), 100)
            with instance.checkpoint() as folder:
                publish(FS, f"{first}/1.zip", zips.content(instance, folder, num_keys, (1, None)), overwrite=True)

        def upload_all() -> None:
            instance.uploaded = {}
            upload()

        def write_anew() -> None:
            path = first / "1.zip"
            database = Database(FS, str(first), decode(path.read_bytes(), str(path)), str(path))
            write_version(FS, str(again), (1, None), database.chunks())

        work_of = {
            "zip of hard links, all SST files copied": upload_all,
            "zip of hard links, no SST file copied": upload,
            "zip of rows written anew": write_anew,
        }
        seconds = side_by_side(work_of, rounds, {"zip of rows written anew": lambda: clear(again)})
    for name, took in seconds.items():
        report.add(f"{num_keys:,} rows: {name}", f"{took * 1e3:.1f} ms", "")
    copied, _, anew = seconds.values()
    report.add("rows written anew take of the time of hard links", f"{anew / copied:.1f} x", "")


def clear(partition: Path) -> None:
    shutil.rmtree(partition)
