"""Finds 1,000 expired keys a batch, with 50,000 others updated, in states of 50,000 and of 5 million keys."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pytest_benchmark.fixture import BenchmarkFixture

from bench import store_data
from bench.report import Report
from bench.side_by_side import side_by_side
from hdfsstore._cext.records import RecordParser, encode_records
from hdfsstore._cext.versioned_map import Image, ImageBuilder, Merger, VersionedMap
from hdfsstore.codecs import types as t
from hdfsstore.codecs.unsafe_row import RowCodec

FEW, MANY = 50_000, 5_000_000
UPDATED = 50_000  # keys a batch
EXPIRED = 1_000  # keys a batch
BATCHES = 8
TIMEOUT_OFFSET = 16
FIRST_TIMEOUT = 1_790_000_000_000  # ms
CHUNK = 100_000
MAX_RECORD_BYTES = 1 << 20

# As Spark keeps a function's state and timeout.
_STATE = t.StructType((t.StructField("count", t.LongType()), t.StructField("sum", t.DoubleType())))
_VALUE = t.StructType((t.StructField("groupState", _STATE), t.StructField("timeoutTimestamp", t.LongType())))

Rows = tuple[pa.BinaryArray, pa.BinaryArray]


def rows(ids: pa.Array, timeouts: pa.Array) -> Rows:
    """Keys, and values whose timeouts are these."""
    fields = [pa.field("count", pa.int64()), pa.field("sum", pa.float64())]
    state = pa.StructArray.from_arrays([ids, ids.cast(pa.float64())], fields=fields)
    columns = [state, timeouts]
    names = [pa.field("groupState", state.type), pa.field("timeoutTimestamp", pa.int64())]
    return store_data.rows(ids)[0], RowCodec(_VALUE).encode(pa.StructArray.from_arrays(columns, fields=names))


def all_rows(num_keys: int) -> Iterator[Rows]:
    """All keys; at each millisecond one of them expires, in no order."""
    for start in range(0, num_keys, CHUNK):
        ids = pa.array(range(start, min(start + CHUNK, num_keys)), pa.int64())
        spread = pc.multiply(ids, 48_271)
        spread = pc.subtract(spread, pc.multiply(pc.divide(spread, num_keys), num_keys))
        yield rows(ids, pc.add(spread, FIRST_TIMEOUT))


def image_of(num_keys: int, timeout_offset: int | None) -> Image:
    builder = ImageBuilder(row_checksums=False, timeout_offset=timeout_offset)
    parser = RecordParser(row_checksums=False, tombstones=False, max_record_bytes=MAX_RECORD_BYTES)
    for keys, values in all_rows(num_keys):
        raw = memoryview(encode_records(keys, values)).cast("B")
        parser.parse(raw, len(raw))
        builder.append(raw, parser.keys, parser.values)
    return builder.finish()


def batches_of(num_keys: int) -> list[Rows]:
    """The updates of each batch: they put the keys' timeouts off."""
    count = min(UPDATED, num_keys)
    later = pa.array([FIRST_TIMEOUT + MANY + i for i in range(count)], pa.int64())
    return [
        rows(pa.array(random.Random(batch).sample(range(num_keys), count), pa.int64()), later)
        for batch in range(BATCHES)
    ]


def run(image: Image, batches: list[Rows], timeouts: bool) -> dict[str, float]:
    """All batches on top of the image; seconds of one, by what was done."""
    map_, layer = VersionedMap(image), 0
    spent = {"get, put, commit": 0.0, "expired, remove": 0.0, "next_expiry": 0.0}
    for batch, (keys, values) in enumerate(batches):
        transaction = map_.transaction(layer)
        begun = time.perf_counter()
        transaction.get_many(keys)
        transaction.put_many(keys, values)
        updated = time.perf_counter()
        found = 0
        if timeouts:
            for expired, _ in transaction.expired(FIRST_TIMEOUT + EXPIRED * (batch + 1), 10_000):
                found += transaction.remove_many(expired)
            removed = time.perf_counter()
            transaction.next_expiry()
            spent["expired, remove"] += removed - updated
            spent["next_expiry"] += time.perf_counter() - removed
            assert found <= EXPIRED
        committing = time.perf_counter()
        layer = map_.add(layer, transaction.seal())
        spent["get, put, commit"] += updated - begun + time.perf_counter() - committing
    return {what: seconds / len(batches) for what, seconds in spent.items()}


def test_expired(benchmark: BenchmarkFixture, report: Report, smoke: bool, rounds: int) -> None:
    few, many = (size // 100 if smoke else size for size in (FEW, MANY))
    plain = image_of(many, None)
    runs = {
        f"{few:,} keys with timeouts": (image_of(few, TIMEOUT_OFFSET), batches_of(few), True),
        f"{many:,} keys with timeouts": (image_of(many, TIMEOUT_OFFSET), batches_of(many), True),
        f"{many:,} keys without": (plain, batches_of(many), False),
    }
    best: dict[str, dict[str, float]] = {}
    for _ in range(rounds):
        for name, what in runs.items():
            taken = run(*what)
            best[name] = {part: min(best.get(name, taken)[part], taken[part]) for part in taken}
    _, with_timeouts, _ = runs.values()
    benchmark.pedantic(run, with_timeouts, rounds=1)
    for name, taken in best.items():
        for part, seconds in taken.items():
            if seconds:
                report.add(f"{name}, a batch: {part}", f"{1000 * seconds:.1f} ms", "")
    grown = (with_timeouts[0].nbytes - plain.nbytes) / many
    report.add("the index in the image", f"{grown:.2f} bytes a key", "goal: 12")

    def merge(timeout_offset: int | None) -> None:
        merger = Merger(plain, [], timeout_offset=timeout_offset)
        while merger.build():
            continue
        merger.finish()

    def scan() -> None:
        for _ in VersionedMap(plain).transaction(0).scan():
            continue

    work = {"without": lambda: merge(None), "with": lambda: merge(TIMEOUT_OFFSET), "scan": scan}
    medians = side_by_side(work, min(rounds, 3))
    report.add("building an image with the index / without", f"{medians['with'] / medians['without']:.2f}", "")
    report.add(f"a scan of {many:,} keys", f"{1000 * medians['scan']:.0f} ms", "")
