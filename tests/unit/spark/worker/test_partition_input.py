"""A task's rows come all at once, or in parts of whole keys if they are larger than maxBytesPerCall."""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hdfsstore import StateStoreError
from hdfsstore.codecs.murmur3 import partition_ids
from hdfsstore.spark.base_ids import BaseIds
from hdfsstore.spark.spec import BatchSpec, Columns, EventTime, QuerySpec
from hdfsstore.spark.worker.engine import KeyedRows
from hdfsstore.spark.worker.partition_input import PartitionInput
from tests.support.query_partition import QueryPartition, struct

PARTITIONS = 4
KEYS = struct(user="long", name="string")
KIB = 1 << 10
UNWRITABLE = Path("/proc")


@pytest.fixture(autouse=True)
def _in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.SparkFiles.getRootDirectory", lambda: ".")


def in_local_dir(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Names the folder as a standalone cluster's worker does. SPARK_LOCAL_DIRS names another one."""
    folder.mkdir(exist_ok=True)
    monkeypatch.setenv("SPARK_LOCAL_DIRS", tempfile.gettempdir())
    monkeypatch.setenv("SPARK_EXECUTOR_DIRS", str(folder))


def query_of(tmp_path: Path, limit: int) -> QuerySpec:
    query = QueryPartition(tmp_path, KEYS, struct(n="long"), num_partitions=PARTITIONS).query
    columns = Columns(("user", "name", "v", "at"), ("user", "name"), (0, 1), EventTime(3, is_window=False))
    return replace(query, columns=columns, max_bytes_per_call=limit)


def partition_of(query: QuerySpec, rows: pa.Table) -> pa.Int32Array:
    keys = rows.select(["user", "name"]).to_struct_array().combine_chunks()
    return partition_ids(keys, query.key_schema, PARTITIONS)


def rows_of_partition(query: QuerySpec, users: list[int]) -> pa.Table:
    """Returns the users' rows that belong to partition 3; every fifth is late."""
    table = pa.table(
        {
            "user": users,
            "name": [None if user % 7 == 0 else f"user {user}" for user in users],
            "v": [str(i) * 5 for i in range(len(users))],
            "at": pa.array([0 if i % 5 == 0 else 10_000_000 for i in range(len(users))], pa.timestamp("us", "UTC")),
        }
    )
    return table.filter(pc.equal(partition_of(query, table), 3))


def calls_of(query: QuerySpec, rows: pa.Table, has_markers: bool, seed: int) -> tuple[PartitionInput, list[KeyedRows]]:
    batch = BatchSpec(5, BaseIds((None,) * PARTITIONS), 1_000, 0, 1_000, is_sorted=False, has_markers=has_markers)
    batches: list[pa.RecordBatch] = rows.to_batches(max_chunksize=500)
    if has_markers:
        batches = [
            pa.RecordBatch.from_arrays([pa.nulls(each.num_rows, pa.int32()), *each.columns], ["", *each.schema.names])
            for each in batches
        ]
        marker = [pa.array([3], pa.int32()), *(pa.nulls(1, field.type) for field in rows.schema)]
        at = random.Random(seed).randrange(len(batches))
        batches.insert(at, pa.RecordBatch.from_arrays(marker, ["", *rows.schema.names]))
    calls = PartitionInput(query, batch, iter(batches))
    return calls, list(calls)


def keys_of(call: KeyedRows) -> set[tuple[int, str | None]]:
    return set(zip(call.rows["user"].to_pylist(), call.rows["name"].to_pylist(), strict=True))


@pytest.mark.parametrize("has_markers", [True, False])
@pytest.mark.parametrize(("limit", "hot"), [(64 * KIB, 0), (4 * KIB, 0), (16 * KIB, 10_000), (1, 100)])
def test_rows_that_are_too_many_come_in_parts_of_whole_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_markers: bool, limit: int, hot: int
) -> None:
    in_local_dir(monkeypatch, tmp_path / "spill")
    query = query_of(tmp_path, limit)
    chance = random.Random(limit)
    users = [chance.randrange(3_000) for _ in range(20_000)]
    users += [next(user for user in users if rows_of_partition(query, [user, user]).num_rows)] * hot
    chance.shuffle(users)
    rows = rows_of_partition(query, users)
    kept = [row for row in rows.to_pylist() if row["at"].timestamp()]
    calls, made = calls_of(query, rows, has_markers, seed=limit)
    assert (calls.partition_id, calls.num_rows, calls.num_late) == (3, rows.num_rows, rows.num_rows - len(kept))
    given = [row for call in made for row in call.rows.to_pylist()]
    assert Counter(row["v"] for row in given) == Counter(row["v"] for row in kept)
    assert sorted(map(repr, given)) == sorted(map(repr, kept))
    times = Counter(key for call in made for key in keys_of(call))
    assert set(times.values()) == {1}, "a key's rows are in one call"
    assert len(made) > 1
    assert all(call.rows.nbytes <= limit or len(keys_of(call)) == 1 for call in made)
    assert all(call.keys.to_pylist() == call.rows.select(["user", "name"]).to_pylist() for call in made)
    assert list((tmp_path / "spill").iterdir()) == []


def test_rows_that_may_be_held_are_one_call_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_local_dir(monkeypatch, UNWRITABLE)
    query = query_of(tmp_path, 1 << 20)
    rows = rows_of_partition(query, list(range(1_000)))
    (call,) = calls_of(query, rows, has_markers=True, seed=1)[1]
    assert call.rows.num_rows < rows.num_rows
    assert not call.is_sorted


def test_a_disk_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_local_dir(monkeypatch, UNWRITABLE)
    query = query_of(tmp_path, KIB)
    with pytest.raises(StateStoreError, match=r"/proc: rows of a large partition.*maxBytesPerCall") as caught:
        calls_of(query, rows_of_partition(query, list(range(1_000))), has_markers=True, seed=1)
    assert caught.value.path == str(UNWRITABLE)


def test_a_part_is_all_that_is_held(tmp_path: Path) -> None:
    """Memory does not grow with the number of rows: parts that wait for their turn are on the disk."""
    limit = 1 << 20
    query = query_of(tmp_path, limit)
    rows = rows_of_partition(query, list(range(40_000)))
    batch = BatchSpec(5, BaseIds((None,) * PARTITIONS), 1_000, 0, 1_000, is_sorted=False, has_markers=False)

    def batches() -> Iterator[pa.RecordBatch]:
        for _ in range(40):  # some 20 MiB
            yield from pa.Table.from_batches(rows.to_batches()).to_batches(max_chunksize=1_000)

    before = pa.total_allocated_bytes()
    held = []
    calls = PartitionInput(query, batch, batches())
    held.append(pa.total_allocated_bytes() - before)
    for call in calls:
        held.append(pa.total_allocated_bytes() - before)
        assert call.rows.nbytes <= limit
    assert calls.nbytes > 20 * limit
    assert max(held) < 5 * limit
