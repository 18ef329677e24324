"""An open store as tools take it that know Arrow's PyCapsule interface."""

from __future__ import annotations

import duckdb
import nanoarrow
import polars as pl
import pyarrow as pa
import pytest

from hdfsstore import SchemaMismatchError, StateStoreClosedError
from hdfsstore.state.protocols import ReadStateStore, StateStoreProvider
from tests.contract.rows import SCHEMAS, keys, values
from tests.support.partition import Partition, ref
from tests.support.rows import counted

COUNT = 20_000


def rows_of(store: ReadStateStore) -> dict[tuple[str, int], int]:
    rows = pa.table(store).to_pylist()
    return {(row["key"]["word"], row["key"]["number"]): row["value"]["count"] for row in rows}


def put(provider: StateStoreProvider, version: tuple[int, str | None], count: int) -> tuple[int, str | None]:
    """A version with COUNT keys of that count."""
    store = provider.get_store(*version)
    store.put_batch(keys([(f"w{n % 7}", n) for n in range(COUNT)]), values([(count, None)] * COUNT))
    return ref(store.commit())


def test_tools_take_a_store_more_than_once(partition: Partition) -> None:
    provider = partition.open(**SCHEMAS)
    one = put(provider, (0, None), 5)
    with provider.get_read_store(*one) as store:
        expected = counted(pa.Table.from_batches(store.scan()))
        assert expected.total() == COUNT
        assert counted(pa.table(nanoarrow.c_array_stream(store))) == expected
        assert counted(pl.DataFrame(store).to_arrow().cast(pa.table(store).schema)) == expected
        found = duckdb.sql("select count(distinct key), sum(value.count) from store").fetchall()
        assert found == [(COUNT, 5 * COUNT)]


def test_a_stream_keeps_its_rows_whatever_becomes_of_the_store(partition: Partition) -> None:
    provider = partition.open(**SCHEMAS)
    one = put(provider, (0, None), 1)
    store = provider.get_store(*one)
    stream = pa.RecordBatchReader.from_stream(store)
    first = stream.read_next_batch()
    store.put_batch(keys([("w0", 0)]), values([(2, None)]))
    assert rows_of(store)["w0", 0] == 2
    two = ref(store.commit())
    three = put(provider, two, 3)
    for _ in range(3):
        provider.do_maintenance()
    provider.release()
    rest = pa.Table.from_batches([first, *stream])
    assert (len(rest), set(rest["value"].combine_chunks().field("count").to_pylist())) == (COUNT, {1})
    with provider.get_read_store(*three) as newest:
        assert set(rows_of(newest).values()) == {3}
    with pytest.raises(StateStoreClosedError, match="was committed"):
        pa.table(store)


def test_an_unread_stream_outlives_the_provider(partition: Partition) -> None:
    provider = partition.open(**SCHEMAS)
    one = put(provider, (0, None), 1)
    store = provider.get_read_store(*one)
    stream = pa.RecordBatchReader.from_stream(store)
    store.close()
    provider.close()
    assert stream.read_all().num_rows == COUNT


def test_fields_of_one_name_are_numbered(partition: Partition) -> None:
    sums = pa.schema([("sum", pa.int64()), ("sum", pa.float64())])
    provider = partition.open(key_schema=pa.schema({"k": pa.int64()}), value_schema=sums)
    store = provider.get_store(0)
    row = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2.0])], schema=sums)
    store.put_batch(pa.record_batch({"k": [7]}), row)
    assert pl.DataFrame(store).to_dicts() == [{"key": {"k": 7}, "value": {"sum": 1, "sum_2": 2.0}}]
    assert [field.name for field in next(store.scan()).schema.field("value").type] == ["sum", "sum"]
    store.abort()


def test_types_that_are_asked_for_and_stores_without_schemas(partition: Partition) -> None:
    provider = partition.open(**SCHEMAS)
    one = put(provider, (0, None), 1)
    with provider.get_read_store(*one) as store:
        schema = pa.table(store).schema
        wide = schema.set(0, pa.field("key", pa.struct({"word": pa.large_string(), "number": pa.int64()})))
        assert pa.RecordBatchReader.from_stream(store, schema=wide).read_all().schema == wide
        with pytest.raises(TypeError, match="cannot be cast from struct"):
            pa.RecordBatchReader.from_stream(store, schema=schema.set(0, pa.field("key", pa.int64())))
    with (
        partition.open("elsewhere").get_read_store(*one) as store,
        pytest.raises(SchemaMismatchError, match="key_schema"),
    ):
        pa.table(store)
