"""A checkpoint of mapWithState without a schema, whose states msgpack has packed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgpack
import pyarrow as pa

import hdfsstore
from hdfsstore.checkpoint.packed_values import PACKED
from hdfsstore.codecs import types as t
from hdfsstore.codecs.arrow_types import to_arrow_schema
from tests.unit.checkpoint import build

STATE = t.StructType((t.StructField("value", t.BinaryType(), metadata=PACKED),))
VALUE = t.StructType((t.StructField("groupState", STATE), t.StructField("timeoutTimestamp", t.LongType(), False)))
KEY = t.StructType((t.StructField("k", t.StringType()),))
VALUES: list[dict[str, Any]] = [{"a": [1, {"n": 2}], "b": "x"}, {"a": 3, "c": None}]


def pack(value: Any) -> bytes:
    packed: bytes = msgpack.packb(value, datetime=True)
    return packed


def rows_of(packed: list[bytes | None]) -> pa.RecordBatch:
    rows = [None if each is None else {"groupState": {"value": each}, "timeoutTimestamp": -1} for each in packed]
    schema = pa.schema([("value", pa.struct(list(to_arrow_schema(VALUE))))])
    return pa.RecordBatch.from_pylist([{"value": row} for row in rows], schema)


def write_checkpoint(root: Path) -> Path:
    """A query with two batches: the first value is put, and then the second one."""
    build.checkpoint(root, 2, **{build.SHUFFLE_PARTITIONS: "1"})
    key, value = (t.to_json(each) for each in (KEY, VALUE))
    build.put(root / "state/0/0/_metadata/schema", build.schema_v2(key, value))
    operator = build.operator_metadata(build.store(numPartitions=1), name="mapWithState")
    build.put(root / "state/0/_metadata/metadata", operator)
    store_id = hdfsstore.StateStoreId(str(root / "state"), operator_id=0, partition_id=0)
    schemas = {"key_schema": to_arrow_schema(KEY), "value_schema": to_arrow_schema(VALUE)}
    conf = hdfsstore.StateStoreConf(checkpoint_format_version=1)
    with hdfsstore.open_provider(store_id, conf=conf, **schemas) as provider:
        for version, state in enumerate(VALUES):
            store = provider.get_store(version)
            value_rows = rows_of([pack(state)]).column(0)
            keys = pa.RecordBatch.from_pylist([{"k": "u"}], schemas["key_schema"])
            store.put_batch(keys, pa.RecordBatch.from_struct_array(value_rows))
            store.commit()
    return root
