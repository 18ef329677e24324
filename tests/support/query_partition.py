"""A partition's state over a real store, without Spark, for tests of the engines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
from pyspark.sql.types import DataType, StructType

from hdfsstore.codecs.arrow_types import to_arrow_schema
from hdfsstore.codecs.types import StructType as OurStruct
from hdfsstore.codecs.types import parse_type
from hdfsstore.fs.location import StorageLocation
from hdfsstore.spark.base_ids import BaseIds
from hdfsstore.spark.spec import NO_TIMEOUT, TIMEOUT_OFFSET, BatchSpec, Columns, QuerySpec
from hdfsstore.spark.worker.engine import KeyedRows
from hdfsstore.spark.worker.partition_state import PartitionState, TimeoutStore
from hdfsstore.state.conf import StateStoreConf
from hdfsstore.state.open import open_provider
from hdfsstore.state.protocols import StateStoreProvider
from hdfsstore.state.rows import BatchCodec
from hdfsstore.state.store_id import StateStoreId


def struct(**columns: DataType | str) -> StructType:
    """PySpark's struct with these columns."""
    schema = StructType()
    for name, data_type in columns.items():
        schema = schema.add(name, data_type)
    return schema


def ours(schema: StructType) -> OurStruct:
    """PySpark's struct as ours."""
    parsed = parse_type(schema.json())
    assert isinstance(parsed, OurStruct)
    return parsed


def arrow_schema(schema: StructType) -> pa.Schema:
    return to_arrow_schema(ours(schema))


class QueryPartition:
    """Partition 0 of a query, whose batches are run one after another."""

    def __init__(
        self,
        folder: Path,
        keys: StructType,
        state: StructType,
        timeout_conf: Any = "NoTimeout",
        num_partitions: int = 1,
    ) -> None:
        self.query = QuerySpec(
            run_id="run",
            state_root=StorageLocation(str(folder / "state")),
            num_partitions=num_partitions,
            columns=Columns((), tuple(keys.names), ()),
            key_schema=ours(keys),
            state_schema=ours(state),
            timeout_conf=timeout_conf,
            store_conf=StateStoreConf(local_dir=str(folder / "local")),
            max_bytes_per_call=1 << 30,
        )
        self._provider: StateStoreProvider = open_provider(
            StateStoreId(self.query.state_root, 0, 0),
            conf=self.query.store_conf,
            timeout_offset=None if timeout_conf == NO_TIMEOUT else TIMEOUT_OFFSET,
        )
        self._version = 0
        self._unique_id: str | None = None

    @contextmanager
    def batch(self, watermark_ms: int = -1, processing_time_ms: int = 1_000) -> Iterator[PartitionState]:
        """The state in the next batch, which is committed at the end."""
        spec = BatchSpec(
            self._version,
            BaseIds((self._unique_id,)),
            watermark_ms,
            processing_time_ms,
            watermark_ms,
            is_sorted=False,
            has_markers=True,
        )
        with self._provider.get_store(self._version, self._unique_id) as store:
            yield PartitionState(self.query, spec, 0, cast("TimeoutStore", store), pa.table({}))
            self._unique_id = store.commit().checkpoint_unique_id
        self._version += 1

    def rows(self) -> dict[Any, Any]:
        """Value rows by key, as dicts; a key of one column is that column's value."""
        keys = BatchCodec("key", self.query.key_schema)
        values = BatchCodec("value", self.query.value_schema)
        with self._provider.get_store(self._version, self._unique_id) as store:
            pairs = list(store.iterator())
        all_keys = keys.decode(pa.array([key for key, _ in pairs], pa.binary())).to_pylist()
        all_values = values.decode(pa.array([value for _, value in pairs], pa.binary())).to_pylist()
        columns = [tuple(key.values()) for key in all_keys]
        return {key if len(key) > 1 else key[0]: value for key, value in zip(columns, all_values, strict=True)}


def call(rows: pa.Table, *keys: str, is_sorted: bool = False) -> KeyedRows:
    """A call with rows whose keys are some of their columns."""
    columns = [rows.column(name).combine_chunks() for name in keys]
    structs = pa.StructArray.from_arrays(columns, fields=[rows.schema.field(name) for name in keys])
    return KeyedRows(rows, structs, is_sorted)


def output_of(batches: Iterable[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    """The rows of an engine's output."""
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
