"""Tells in which partition of a store Spark looks for a key, and refuses keys of other partitions."""

from __future__ import annotations

from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from hdfsstore.codecs import murmur3
from hdfsstore.codecs.arrow_types import from_arrow_schema
from hdfsstore.codecs.types import StructType
from hdfsstore.errors import StateStoreError
from hdfsstore.state.rows import Schema, struct_type


def partition_ids(
    keys: pa.RecordBatch | pa.Table | pa.StructArray, num_partitions: int, key_schema: Schema | None = None
) -> pa.Int32Array:
    """The partition of each key, 0 to num_partitions - 1, in Spark's hash partitioning by all columns of the key.

    So Spark partitions the state of aggregations, dropDuplicates and functions. It partitions session windows by the
    key without the session, and joins by the join's key.

    Args:
        keys: their columns, in the order of the key.
        num_partitions: of the store, at least 1.
        key_schema: Spark's types where Arrow's do not tell them (char, collated strings): a pyarrow.Schema, or Spark's
            JSON of a struct. None: the types of `keys`.

    Raises:
        UnsupportedTypeError: Spark hashes no such type, or its hash needs the ICU library.
        SchemaMismatchError: the keys do not fit key_schema.
        ValueError: num_partitions is less than 1.
    """
    structs = keys if isinstance(keys, pa.StructArray) else _structs(keys)
    kind = from_arrow_schema(pa.schema(list(structs.type))) if key_schema is None else struct_type(key_schema)
    return murmur3.partition_ids(structs, kind, num_partitions)


def check_placement(keys: pa.RecordBatch, key_type: StructType, partition_id: int, num_partitions: int) -> None:
    """Raises StateStoreError where a key is not one of the partition, and Spark would never find it again."""
    structs = keys.to_struct_array()
    places = murmur3.partition_ids(structs, key_type, num_partitions)
    index = pc.index(pc.not_equal(places, partition_id), True).as_py()
    if index >= 0:
        raise StateStoreError(
            f"the key {structs[index].as_py()} is one of partition {places[index]} of {num_partitions} by Spark's "
            f"hash, and this store is partition {partition_id}: Spark would never find it",
            remedy="Divide keys by hdfsstore.partition_ids(keys, num_partitions), and write each to its partition",
        )


def _structs(keys: pa.RecordBatch | pa.Table) -> pa.StructArray:
    if isinstance(keys, pa.RecordBatch):
        return keys.to_struct_array()
    nothing = pa.nulls(0, pa.struct(list(keys.schema)))
    return cast(pa.StructArray, pa.concat_arrays([nothing, *(batch.to_struct_array() for batch in keys.to_batches())]))
