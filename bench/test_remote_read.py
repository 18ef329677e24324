"""State read from S3, on a MinIO of this machine: beside bare GETs of its files, and a read of a local disk."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import hdfsstore
from bench import big_state
from bench.conftest import BUCKET
from bench.report import Report
from bench.side_by_side import side_by_side
from hdfsstore._cext.records import encode_records
from hdfsstore.checkpoint.conf import HDFS_PROVIDER, PROVIDER, SHUFFLE_PARTITIONS
from hdfsstore.checkpoint.state_schema import DEFAULT_FAMILY, ColumnFamily, encode_state_schema
from hdfsstore.codecs.compression import compress
from hdfsstore.codecs.types import BinaryType, LongType, StructField, StructType
from hdfsstore.codecs.unsafe_row import RowCodec
from hdfsstore.fs.location import resolve
from hdfsstore.fs.s3.s3_files import S3FileManager
from tests.services.fixtures import running
from tests.services.minio import Minio
from tests.services.toxiproxy import Toxiproxy

PARALLEL = (4, 16)
PARTITIONS = 32
VALUE_BYTES = 1000
STATE_BYTES = 1 << 30
LATENCY_MS = 20
ROUNDS = 9  # some take half as long again, see docs/performance.md
KEY = StructType((StructField("id", LongType()),))
VALUE = StructType((StructField("payload", BinaryType()),))


@pytest.fixture(scope="module")
def toxiproxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toxiproxy]:
    with running(lambda: Toxiproxy(tmp_path_factory.mktemp("toxiproxy"))) as server:
        yield server


def test_read_of_many_keys(checkpoint: Path, minio: Minio, spark: SparkSession, report: Report, rounds: int) -> None:
    files = big_state.chain_files(checkpoint)
    for name, value in minio.storage_options().items():
        spark.conf.set(name, value)
    what = f"{big_state.NUM_PARTITIONS} partitions"
    try:
        _measure(what, checkpoint, files, minio, minio.port, report, rounds, spark)
    finally:
        for name in minio.storage_options():
            spark.conf.unset(name)


def test_read_at_a_latency(minio: Minio, toxiproxy: Toxiproxy, report: Report, smoke: bool, tmp_path: Path) -> None:
    root = _large_state(tmp_path, STATE_BYTES // 100 if smoke else STATE_BYTES)
    files = sorted(root.rglob("*.snapshot"))
    what = f"{PARTITIONS} partitions, {LATENCY_MS} ms a request"
    with toxiproxy.before(minio.port) as proxy, proxy.toxic("latency", latency=LATENCY_MS):
        _measure(what, root, files, minio, proxy.port, report, 1 if smoke else ROUNDS)


def _measure(
    what: str,
    root: Path,
    files: list[Path],
    minio: Minio,
    port: int,
    report: Report,
    rounds: int,
    spark: SparkSession | None = None,
) -> None:
    """Reads the state of a checkpoint on a local disk and from a copy on S3, and fetches the state's files alone."""
    uri = f"s3://{BUCKET}/{uuid.uuid4()}"
    there, path = resolve(uri, minio.storage_options())
    for file in root.rglob("*"):
        if file.is_file() and file.suffix != ".crc":
            there.write_unique(f"{path}/{file.relative_to(root)}", [file.read_bytes()])
    local = hdfsstore.Checkpoint(root)
    options = minio.storage_options(port)
    remote = hdfsstore.Checkpoint(uri, storage_options=options)
    prefix = path.partition("/")[2]
    keys = {f"{prefix}/{file.relative_to(root)}": file.stat().st_size for file in files}
    bare = {f"{n} GETs at once": partial(_download, remote.file_manager, keys, n) for n in PARALLEL}
    work: dict[str, Callable[[], object]] = {"read_state, local": local.read_state, "read_state": remote.read_state}
    assert local.read_state().num_rows == remote.read_state().num_rows
    if spark is not None:
        sparks = partial(big_state.spark_read_arrow, spark, f"s3a{uri.removeprefix('s3')}")
        beside_spark = side_by_side({"Spark": sparks, "read_state": remote.read_state}, rounds)
        faster = beside_spark["Spark"] / beside_spark["read_state"]
        report.add(f"S3, {what}: read_state is faster than Spark by", f"{faster:.1f} x", "")
    # Not in turns with Spark, whose threads tidy up behind it for a while.
    seconds = side_by_side({**work, **bare}, rounds)
    quickest, decode, ours = min(seconds[name] for name in bare), seconds["read_state, local"], seconds["read_state"]
    size = sum(keys.values())
    for name, taken in seconds.items():
        report.add(f"S3, {what}, {size / 1e6:,.0f} MB: {name}", f"{taken * 1e3:.0f} ms", "")
    report.add(
        f"S3, {what}: read_state / (1.3 x GETs + 1.1 x local)", f"{ours / (1.3 * quickest + 1.1 * decode):.2f}", ""
    )
    for name in bare:
        report.add(f"S3, {what}: read_state / {name}", f"{ours / seconds[name]:.2f} x", "goal: 1.25 x of 16, or")
    report.add(f"S3, {what}: read_state / a local disk", f"{ours / decode:.2f} x", "goal: 1.15 x")


def _download(files: Any, sizes: dict[str, int], parallel: int) -> None:
    """Fetches objects in `parallel` ranges each of them, or several objects at once, by botocore alone."""
    assert isinstance(files, S3FileManager)
    client = files._bucket.client()
    each = max(1, parallel // len(sizes))
    ranges = [
        (key, start, min(start + -(-size // each), size) - 1)
        for key, size in sizes.items()
        for start in range(0, size, -(-size // each))
    ]

    def get(wanted: tuple[str, int, int]) -> int:
        key, first, last = wanted
        with client.get_object(Bucket=BUCKET, Key=key, Range=f"bytes={first}-{last}")["Body"] as body:
            return len(body.read())

    with ThreadPoolExecutor(parallel) as pool:
        if sum(pool.map(get, ranges)) != sum(sizes.values()):
            raise RuntimeError("the objects are shorter than they were written")


def _large_state(folder: Path, nbytes: int) -> Path:
    """A checkpoint whose state does not compress: a snapshot in each partition."""
    root = folder / "checkpoint"
    conf = {SHUFFLE_PARTITIONS: str(PARTITIONS), PROVIDER: HDFS_PROVIDER}  # as Spark pins them
    offsets = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": conf})
    _put(root / "metadata", b'{"id":"bench"}')
    _put(root / "offsets/0", f"v1\n{offsets}\n-".encode())
    _put(root / "commits/0", b'v1\n{"nextBatchWatermarkMs":0}')
    operator = {
        "operatorInfo": {"operatorId": 0, "operatorName": "stateStoreSave"},
        "stateStoreInfo": [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": PARTITIONS}],
    }
    _put(root / "state/0/_metadata/metadata", f"v1\n{json.dumps(operator)}".encode())
    schema = encode_state_schema([ColumnFamily(DEFAULT_FAMILY, KEY, VALUE, {})], 2)
    _put(root / "state/0/0/_metadata/schema", schema)
    rows, ids = nbytes // VALUE_BYTES // PARTITIONS, count()
    for partition in range(PARTITIONS):
        keys = pa.array([next(ids) for _ in range(rows)], pa.int64())
        data = pa.py_buffer(os.urandom(rows * VALUE_BYTES))
        payloads = pa.Array.from_buffers(pa.binary(VALUE_BYTES), rows, [None, data]).cast(pa.binary())
        raw = encode_records(
            RowCodec(KEY).encode(pa.StructArray.from_arrays([keys], ["id"])),
            RowCodec(VALUE).encode(pa.StructArray.from_arrays([payloads], ["payload"])),
        )
        _put(root / f"state/0/{partition}/1.snapshot", compress("lz4", raw))
    return root


def _put(path: Path, content: bytes | bytearray | memoryview | pa.Buffer) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
