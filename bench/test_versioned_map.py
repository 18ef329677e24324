"""The map beside a Python dict of the same bytes: every key put and got, in random order, on one thread."""

from __future__ import annotations

import random
from collections.abc import Callable

import pyarrow as pa
from pytest_benchmark.fixture import BenchmarkFixture

from bench import store_data
from bench.images import image_of
from bench.report import Report
from bench.side_by_side import side_by_side
from hdfsstore._cext.versioned_map import VersionedMap

NUM_KEYS = 2_000_000

Rows = list[tuple[pa.BinaryArray, pa.BinaryArray]]


def shuffled(num_keys: int) -> Rows:
    """Every key, and a new value of it, in random order, in batches."""
    ids = random.Random(7).sample(range(num_keys), num_keys)
    chunks = (ids[start : start + store_data.BATCH_KEYS] for start in range(0, num_keys, store_data.BATCH_KEYS))
    return [store_data.rows(pa.array(chunk, pa.int64()), round_=1) for chunk in chunks]


class Fresh:
    """The rows as bytes objects that no dict has seen: a bytes object remembers its hash once it was asked for."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.keys: list[bytes] = []
        self.values: list[bytes] = []
        self.renew()

    def renew(self) -> None:
        """Makes them anew."""
        self.keys = [key for keys, _ in self._rows for key in keys.to_pylist()]
        self.values = [value for _, values in self._rows for value in values.to_pylist()]


def test_put_many_and_get_many(benchmark: BenchmarkFixture, report: Report, smoke: bool, rounds: int) -> None:
    num_keys = NUM_KEYS // 100 if smoke else NUM_KEYS
    rows = shuffled(num_keys)
    held = VersionedMap(image_of(num_keys))
    fresh = Fresh(rows)
    plain = dict(zip(fresh.keys, fresh.values, strict=True))

    def dict_put() -> None:
        for key, value in zip(fresh.keys, fresh.values, strict=True):
            plain[key] = value

    def dict_get() -> list[bytes | None]:
        return list(map(plain.get, fresh.keys))

    def put_many() -> None:
        for keys, values in rows:
            transaction = held.transaction(0)
            transaction.put_many(keys, values)
            transaction.seal()

    def put_all() -> None:
        transaction = held.transaction(0)
        for keys, values in rows:
            transaction.put_many(keys, values)
        transaction.seal()

    def get_many() -> None:
        for keys, _ in rows:
            found = held.transaction(0).get_many(keys)
            assert found.null_count == 0

    work: dict[str, Callable[[], object]] = {
        "dict put": dict_put,
        "put_many, 20,000 a delta": put_many,
        "put_many, all one delta": put_all,
        "dict get": dict_get,
        "get_many": get_many,
    }
    seconds = side_by_side(work, rounds, {"dict put": fresh.renew, "dict get": fresh.renew})
    benchmark.pedantic(put_many, rounds=rounds)
    for name, taken in seconds.items():
        report.add(f"{num_keys:,} keys, random order: {name}", f"{taken / num_keys * 1e9:.0f} ns a record", "")
    dict_puts, puts, _, dict_gets, gets = seconds.values()
    report.add("put_many is faster than a dict by", f"{dict_puts / puts:.1f} x", "goal: 3 x")
    report.add("get_many is faster than a dict by", f"{dict_gets / gets:.1f} x", "goal: 3 x; of a bare image 5 x")
