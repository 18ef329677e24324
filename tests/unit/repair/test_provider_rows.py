"""Rows of one provider as those of the other, on the checkpoints that Sparks wrote."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from hdfsstore import Checkpoint
from hdfsstore._cext.rocksdb_rows import stored
from hdfsstore.checkpoint.conf import HDFS_PROVIDER, ROCKSDB_PROVIDER, ROW_CHECKSUM
from hdfsstore.checkpoint.operator_state import OperatorState
from hdfsstore.checkpoint.operators import Store
from hdfsstore.codecs.records import RecordChunk
from hdfsstore.errors import RepairError, UnsupportedVersionError
from hdfsstore.repair.provider_rows import RowsOfProvider
from hdfsstore.state.rows import spans_of
from tests.support.truth import DATA, Case, cases, few_cases

OTHER = {HDFS_PROVIDER: ROCKSDB_PROVIDER, ROCKSDB_PROVIDER: HDFS_PROVIDER}
PLAIN = [case for case in cases() if not case.families and "spark-2" not in str(case)]
# Of one query in both providers. Others of the same name have other queries or input.
SAME = (
    *("aggregation", "aggregation_complete", "window_aggregation", "session_window", "dedup_then_aggregate"),
    *("drop_duplicates", "drop_duplicates_within_watermark", "flat_map_groups_with_state", "global_limit"),
    *("apply_in_pandas_with_state", "join_format1", "snapshots"),
)
PAIRS = [
    case
    for case in PLAIN
    if (name := case.folder.name.removeprefix("rocksdb_")) in SAME
    and case.rocksdb
    and (case.folder.parent / name).is_dir()
]


def states(case: Case) -> Iterator[tuple[OperatorState, Store]]:
    checkpoint = Checkpoint(case.checkpoint)
    for operator in checkpoint.operators:
        state = checkpoint.operator_state(operator.operator_id)
        for store in state.operator.stores:
            yield state, store


def chunks(state: OperatorState, store: Store) -> Iterator[tuple[int, RecordChunk]]:
    for partition_id in state.partitions(store, store.key_type):
        for chunk in state.files(store, partition_id).stream(state.version, RecordChunk.copy):
            yield partition_id, chunk


def rows(chunk: RecordChunk) -> list[tuple[bytes, bytes]]:
    spans = [memoryview(each).cast("B").cast("i").tolist() for each in (chunk.keys, chunk.values)]
    keys, values = (
        [bytes(chunk.data[at : at + size]) for at, size in zip(s[::2], s[1::2], strict=True)] for s in spans
    )
    return list(zip(keys, values, strict=True))


@pytest.mark.parametrize("case", few_cases(PLAIN), ids=str)
def test_there_and_back(case: Case) -> None:
    for state, store in states(case):
        there = RowsOfProvider(state, store, OTHER[state.provider])
        back = RowsOfProvider(replace(state, provider=OTHER[state.provider]), store, state.provider)
        for _, chunk in chunks(state, store):
            converted = there.convert(chunk)
            assert len(converted) == len(chunk)
            assert converted.data.format == "B", "which the compiled modules take"
            assert rows(converted) != rows(chunk)
            assert rows(back.convert(converted)) == rows(chunk)
            assert RowsOfProvider(state, store, state.provider).convert(chunk) is chunk


@pytest.mark.parametrize("case", PAIRS, ids=str)
def test_the_rows_are_those_that_spark_itself_wrote(case: Case) -> None:
    other = Case(case.folder.parent / case.folder.name.removeprefix("rocksdb_"))
    for (state, store), (rocksdb, same) in zip(states(other), states(case), strict=True):
        assert (state.operator.operator_id, store.name) == (rocksdb.operator.operator_id, same.name)
        convert = RowsOfProvider(state, store, ROCKSDB_PROVIDER).convert
        converted = sorted((p, *row) for p, chunk in chunks(state, store) for row in rows(convert(chunk)))
        assert converted == sorted((p, *row) for p, chunk in chunks(rocksdb, same) for row in rows(chunk))


def test_row_checksums_lie_in_front_of_the_values_in_rocksdb() -> None:
    """Spark reads none of its own files with a checksum that does not match, so its own are the truth."""
    (pair,) = states(Case(DATA / "spark-4.3.0/rocksdb_row_checksum"))
    state, store = pair
    assert state.conf[ROW_CHECKSUM] == "true"
    plain = RowsOfProvider(state, store, HDFS_PROVIDER)
    again = RowsOfProvider(replace(state, provider=HDFS_PROVIDER), store, ROCKSDB_PROVIDER)
    for _, chunk in chunks(state, store):
        assert {len(value) % 8 for _, value in rows(chunk)} == {1}
        assert {len(value) % 8 for _, value in rows(plain.convert(chunk))} == {0}
        assert rows(again.convert(plain.convert(chunk))) == rows(chunk)


@pytest.mark.parametrize("name", ["rocksdb_join_format3", "rocksdb_join_format4", "transform_ttl"])
def test_column_families_stay_with_rocksdb(name: str) -> None:
    ((state, store),) = states(Case(DATA / "spark-4.3.0" / name))
    with pytest.raises(RepairError, match="state format 3 or 4 and transformWithState"):
        RowsOfProvider(state, store, HDFS_PROVIDER)


def test_without_a_schema_file_a_prefix_is_not_known() -> None:
    ((state, store),) = states(Case(DATA / "spark-2.4.8/aggregation"))
    with pytest.raises(RepairError, match="no schema file"):
        RowsOfProvider(state, store, ROCKSDB_PROVIDER)


def test_an_error_names_the_file() -> None:
    ((state, store),) = states(Case(DATA / "spark-4.3.0/aggregation"))
    _, chunk = next(iter(chunks(state, store)))
    with pytest.raises(UnsupportedVersionError) as caught:
        RowsOfProvider(replace(state, provider=ROCKSDB_PROVIDER), store, HDFS_PROVIDER).convert(
            replace(chunk, values=chunk.keys, data=memoryview(bytes([7]) * len(chunk.data)))
        )
    assert caught.value.path == chunk.path


def test_rows_of_any_size() -> None:
    sizes = [*range(70), 1000, 100_000]
    keys, values = (pa.array([bytes([fill]) * size for size in sizes], pa.binary()) for fill in (1, 2))
    data, key_spans, value_spans = stored(*spans_of(keys, "keys"), b"ab", *spans_of(values, "values"), False)
    chunk = RecordChunk(memoryview(data), key_spans, value_spans, "", 0)
    assert rows(chunk) == [
        (b"ab" + key, b"\0" + value) for key, value in zip(keys.to_pylist(), values.to_pylist(), strict=True)
    ]
    with pytest.raises(ValueError, match="null"):
        stored(*spans_of(keys, "keys"), b"", *spans_of(pa.nulls(len(sizes), pa.binary()), "values"), False)
    with pytest.raises(ValueError, match="72 keys and 1 values"):
        stored(*spans_of(keys, "keys"), b"", *spans_of(values[:1], "values"), False)
