"""Partitions of keys, as users ask for them and as stores check them."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import hdfsstore
from hdfsstore import Checkpoint, SchemaMismatchError, StateStoreId, UnsupportedTypeError
from tests.support.truth import DATA

CASES = ["aggregation", "drop_duplicates", "window_aggregation", "types_keys"]
KEYS = pa.record_batch({"user": pa.array(["ann", "bob", "eve", None])})


@pytest.mark.parametrize("case", CASES)
def test_keys_are_where_spark_has_put_them(case: str) -> None:
    checkpoint = Checkpoint(DATA / "spark-4.3.0" / case / "checkpoint")
    store = checkpoint.operator().store()
    state = checkpoint.read_state()
    keys = pa.concat_arrays(state["key"].chunks)
    assert len(keys)
    assert hdfsstore.partition_ids(keys, store.num_partitions).to_pylist() == state["partition_id"].to_pylist()


def test_takes_structs_batches_and_tables() -> None:
    of_batch = hdfsstore.partition_ids(KEYS, 5)
    assert of_batch.type == pa.int32()
    assert hdfsstore.partition_ids(KEYS.to_struct_array(), 5).equals(of_batch)
    halves = pa.Table.from_batches([KEYS.slice(0, 1), KEYS.slice(1)])
    assert hdfsstore.partition_ids(halves, 5).equals(of_batch)
    assert len(hdfsstore.partition_ids(halves.slice(0, 0), 5)) == 0


def test_takes_sparks_types_where_arrow_has_not_all_of_them() -> None:
    fields = [{"name": "user", "type": "string collate UTF8_LCASE", "nullable": True, "metadata": {}}]
    collated = json.dumps({"type": "struct", "fields": fields}).replace("string collate UTF8_LCASE", "string")
    assert hdfsstore.partition_ids(KEYS, 5, collated).equals(hdfsstore.partition_ids(KEYS, 5))
    with pytest.raises(SchemaMismatchError):
        hdfsstore.partition_ids(KEYS, 5, pa.schema([("user", pa.string()), ("n", pa.int64())]))
    with pytest.raises(UnsupportedTypeError, match="map"):
        hdfsstore.partition_ids(pa.record_batch({"m": pa.array([], pa.map_(pa.string(), pa.int64()))}), 5)


def test_a_partition_is_one_of_the_number_of_partitions() -> None:
    store_id = StateStoreId("file:///nowhere/state", operator_id=0, partition_id=4)
    with pytest.raises(ValueError, match="no partition 4 among 4"):
        hdfsstore.open_provider(store_id, key_schema=KEYS.schema, num_partitions=4)
    with pytest.raises(SchemaMismatchError, match="num_partitions needs the key schema"):
        hdfsstore.open_provider(store_id, num_partitions=5)
