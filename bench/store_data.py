"""The store that the benchmarks of writing share: files that Spark's HDFS-backed store and ours both load.

One partition of (user, hour) -> (count, sum, largest, last), lz4: a snapshot of version 1 with all keys and three
deltas, 20,000 updates each, after it; and batches of 20,000 updates as plain records, for either side to commit. A
record takes 72 bytes: two lengths of 4, a key row of 24 and a value row of 40.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from bench.cache import cache_folder, work_folder
from hdfsstore._cext.records import encode_records
from hdfsstore.codecs import types as t
from hdfsstore.codecs.compression import compress, decompress
from hdfsstore.codecs.unsafe_row import RowCodec

KEY_DDL = "user bigint, hour int"
VALUE_DDL = "count bigint, sum double, largest double, last timestamp"
RECORD_BYTES = 72
BATCH_KEYS = 20_000
NUM_DELTAS = 3
VERSION = 1 + NUM_DELTAS
NUM_BATCHES = 8

_CHUNK = 100_000
_END_MARK = 4
_PRIME = 2_147_483_647

_KEY = t.StructType((t.StructField("user", t.LongType()), t.StructField("hour", t.IntegerType())))
_VALUE = t.StructType(
    (
        t.StructField("count", t.LongType()),
        t.StructField("sum", t.DoubleType()),
        t.StructField("largest", t.DoubleType()),
        t.StructField("last", t.TimestampType()),
    )
)


def root(folder: Path) -> Path:
    """The checkpoint root of a store's id: what Spark calls the state's location."""
    return folder / "state"


def store_folder(num_keys: int) -> Path:
    """The store with that many keys; made once, then kept in the cache. Not to be written to."""
    made = cache_folder() / f"store-{num_keys}"
    if not made.exists():
        with work_folder() as work:
            _make(work / "store", num_keys)
            (work / "store").rename(made)
    return made


@contextmanager
def copy_of(num_keys: int) -> Iterator[Path]:
    """A copy of the store that a benchmark may write to, for as long as it runs; the files are linked, not copied."""
    with work_folder() as work:
        shutil.copytree(store_folder(num_keys) / "state", root(work), copy_function=os.link)
        yield work


def update_files(num_keys: int) -> list[Path]:
    """The batches as files of plain records, which end in an end mark as a delta does."""
    return [store_folder(num_keys) / "updates" / f"{batch}.records" for batch in range(NUM_BATCHES)]


def plain_snapshot(num_keys: int, folder: Path) -> Path:
    """The records of the snapshot, decompressed into a file in `folder`."""
    plain = folder / "snapshot.records"
    plain.write_bytes(decompress("lz4", (root(store_folder(num_keys)) / "0" / "0" / "1.snapshot").read_bytes()))
    return plain


def updates(num_keys: int, batch: int) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    """Key and value rows of the update_files' records, of any number of batches: they differ."""
    ids = random.Random(batch).sample(range(num_keys), min(BATCH_KEYS, num_keys))
    return rows(pa.array(ids, pa.int64()), round_=VERSION + 1 + batch)


def batches(num_keys: int, count: int = NUM_BATCHES) -> list[tuple[pa.BinaryArray, pa.BinaryArray]]:
    """The first batches of updates."""
    return [updates(num_keys, batch) for batch in range(count)]


def rows(ids: pa.Array, round_: int = 0) -> tuple[pa.BinaryArray, pa.BinaryArray]:
    """The keys of these ids and the values that they have after so many updates."""
    # Multiplying modulo a prime spreads the keys and keeps them apart.
    spread = _modulo(pc.multiply(ids, 48271), _PRIME)
    hour = _modulo(ids, 24).cast(pa.int32())
    noise = _modulo(pc.add(pc.multiply(spread, 16807), round_ * 7919), _PRIME)
    cents = _modulo(noise, 1_000_003)
    last = pc.add(1_790_000_000_000_000, pc.multiply(noise, 1000)).cast(pa.timestamp("us", tz="UTC"))
    values = [
        pc.add(_modulo(noise, 997), round_),
        pc.divide(cents.cast(pa.float64()), 100.0),
        pc.divide(_modulo(cents, 9973).cast(pa.float64()), 100.0),
        last,
    ]
    return _encode(_KEY, [pc.add(spread, 1000), hour]), _encode(_VALUE, values)


def all_keys(num_keys: int) -> list[pa.BinaryArray]:
    """Every key, in arrays of 50,000."""
    at_once = 50_000
    ids = (range(start, min(start + at_once, num_keys)) for start in range(0, num_keys, at_once))
    return [rows(pa.array(chunk, pa.int64()))[0] for chunk in ids]


def _encode(struct: t.StructType, columns: list[pa.Array]) -> pa.BinaryArray:
    codec = RowCodec(struct)
    return codec.encode(pa.StructArray.from_arrays(columns, fields=list(codec.arrow_type)))


def _modulo(numbers: pa.Array, divisor: int) -> pa.Array:
    return pc.subtract(numbers, pc.multiply(pc.divide(numbers, divisor), divisor))


def _make(folder: Path, num_keys: int) -> None:
    partition = root(folder) / "0" / "0"
    partition.mkdir(parents=True)
    with (partition / "1.snapshot").open("wb") as snapshot:
        for start in range(0, num_keys, _CHUNK):
            end = min(start + _CHUNK, num_keys)
            raw = encode_records(*rows(pa.array(range(start, end), pa.int64())))
            # Several lz4 streams behind each other, which Spark reads as one.
            snapshot.write(compress("lz4", raw if end == num_keys else raw[: raw.size - _END_MARK]))
    for delta in range(NUM_DELTAS):
        ids = random.Random(-1 - delta).sample(range(num_keys), min(BATCH_KEYS, num_keys))
        raw = encode_records(*rows(pa.array(ids, pa.int64()), round_=1 + delta))
        (partition / f"{2 + delta}.delta").write_bytes(compress("lz4", raw))
    (folder / "updates").mkdir()
    for batch in range(NUM_BATCHES):
        (folder / "updates" / f"{batch}.records").write_bytes(encode_records(*updates(num_keys, batch)))
