"""Any rows of any schema: repartition and convert, there and back, change none of them."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from hdfsstore import Checkpoint
from hdfsstore._cext.records import encode_records
from hdfsstore.checkpoint.conf import HDFS_PROVIDER, PROVIDER, SHUFFLE_PARTITIONS
from hdfsstore.checkpoint.state_schema import DEFAULT_FAMILY, ColumnFamily, encode_state_schema
from hdfsstore.codecs import types as t
from hdfsstore.codecs.compression import compress
from hdfsstore.codecs.murmur3 import partition_ids
from hdfsstore.codecs.unsafe_row import RowCodec
from hdfsstore.repair.verbs import convert, repartition
from tests.support.row_strategies import all_leaves, plain_leaves, schemas, structs, to_arrow, values
from tests.support.rows import counted
from tests.unit.repair.states import raw_rows

# Spark does not group by maps.
KEYS = structs(
    st.recursive(plain_leaves, lambda types: st.one_of(st.builds(t.ArrayType, types), structs(types, 1)), max_leaves=3),
    min_size=1,
)
PARTITIONS = st.integers(1, 4)


@st.composite
def states(draw: st.DrawFn) -> tuple[t.StructType, pa.StructArray, t.StructType, pa.StructArray]:
    """A schema of keys and one of values, and up to 8 rows."""
    key_type, value_type = draw(KEYS), draw(schemas(all_leaves, min_size=1))
    count = draw(st.integers(0, 8))
    rows = [
        to_arrow(each, draw(st.lists(values(each), min_size=count, max_size=count))) for each in (key_type, value_type)
    ]
    encoded = RowCodec(key_type).encode(rows[0]).to_pylist()
    once = pa.array([at for at, key in enumerate(encoded) if key not in encoded[:at]], pa.int64())
    return key_type, rows[0].take(once), value_type, rows[1].take(once)


def written(
    root: Path, state: tuple[t.StructType, pa.StructArray, t.StructType, pa.StructArray], partitions: int
) -> Path:
    """The checkpoint of an aggregation with these rows after its first batch, as Spark 4 writes it."""
    key_type, keys, value_type, rows = state
    conf = {SHUFFLE_PARTITIONS: str(partitions), PROVIDER: HDFS_PROVIDER}
    operator: dict[str, Any] = {
        "operatorInfo": {"operatorId": 0, "operatorName": "stateStoreSave"},
        "stateStoreInfo": [{"storeName": "default", "numColsPrefixKey": 0, "numPartitions": partitions}],
    }
    offsets = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": conf})
    files = {
        "metadata": b'{"id":"any"}',
        "offsets/0": f'v1\n{offsets}\n{{"logOffset":0}}'.encode(),
        "commits/0": b'v1\n{"nextBatchWatermarkMs":0}',
        "state/0/_metadata/metadata": f"v1\n{json.dumps(operator)}".encode(),
        "state/0/0/_metadata/schema": encode_state_schema([ColumnFamily(DEFAULT_FAMILY, key_type, value_type, {})], 2),
    }
    places = partition_ids(keys, key_type, partitions).to_pylist()
    for partition in range(partitions):
        own = pa.array([at for at, place in enumerate(places) if place == partition], pa.int64())
        encoded = [RowCodec(kind).encode(each.take(own)) for kind, each in ((key_type, keys), (value_type, rows))]
        files[f"state/0/{partition}/1.delta"] = compress("lz4", encode_records(*encoded))
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
    return root


@settings(max_examples=40)
@given(state=states(), before=PARTITIONS, after=PARTITIONS, last=PARTITIONS)
def test_rows_come_back_from_other_partitions_and_the_other_provider(
    state: tuple[t.StructType, pa.StructArray, t.StructType, pa.StructArray], before: int, after: int, last: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        source = written(at / "source", state, before)
        whole = counted(Checkpoint(source).read_state().drop_columns("partition_id"))
        assert whole.total() == len(state[1])
        repartition(source, at / "1", after)
        convert(at / "1", at / "2", "rocksdb")
        repartition(at / "2", at / "3", last)
        convert(at / "3", at / "4", "hdfs")
        repartition(at / "4", at / "5", before)
        for number in range(1, 6):
            assert counted(Checkpoint(at / str(number)).read_state().drop_columns("partition_id")) == whole
        assert raw_rows(at / "5") == raw_rows(source)
