"""Read the input of a task: the number of its partition, and its rows by whole keys.

The rows of a partition include one marker row. It has the partition's number in the first column, which is null in the
rows of the data. Sorted input begins with the marker, and equal keys are adjacent. In other input both are anywhere, so
all rows are read before the first key.
A batch without markers has no such column: the key of the first row tells the partition.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from hdfsstore.codecs.arrow_types import to_arrow_schema
from hdfsstore.codecs.murmur3 import partition_ids
from hdfsstore.codecs.unsafe_row import RowCodec
from hdfsstore.errors import StateStoreError
from hdfsstore.spark.spec import BatchSpec, QuerySpec
from hdfsstore.spark.worker.engine import KeyedRows
from hdfsstore.spark.worker.spilled_rows import Parts


class PartitionInput:
    """Reads a partition. For one thread, once.

    Args:
        batches: what Spark gives to the task.

    Attributes:
        partition_id: None if there is neither a marker nor a row.
        num_rows: rows that were read so far, late ones included.
        num_late: late rows among them.
        nbytes: bytes of all these rows in Arrow.
        row_bytes: the largest average size of a row in one of Spark's batches.
        no_rows: an empty table of the data columns.

    Raises:
        StateStoreError: the rows are not those of one partition, or unsorted rows do not fit in memory and cannot be
            written to the local disk.
    """

    def __init__(self, query: QuerySpec, batch: BatchSpec, batches: Iterator[pa.RecordBatch]) -> None:
        self._query = query
        self._batch = batch
        self._key_schema = to_arrow_schema(query.key_schema)
        self._key_codec = RowCodec(query.key_schema)
        self.num_rows = self.num_late = self.nbytes = 0
        self.row_bytes = 0.0
        self._batches = batches
        self._ahead: deque[pa.RecordBatch] = deque()
        self._ahead_bytes = 0
        self._parts: Parts | None = None
        self.no_rows = pa.table({})
        self.partition_id = self._find_marker() if batch.has_markers else self._find_row()

    def __iter__(self) -> Iterator[KeyedRows]:
        if self.partition_id is None:
            return
        if self._parts is not None:
            for part in self._parts:
                yield from self._keyed(part)
            return
        held: list[pa.RecordBatch] = []
        held_bytes = 0
        only: bytes | None = None  # the key of all rows in `held`, once it is known
        for rows in self._data():
            held.append(rows)
            held_bytes += rows.nbytes
            if not self._batch.is_sorted or held_bytes <= self._query.max_bytes_per_call:
                continue
            last = self._key_row(rows, rows.num_rows - 1)
            if last == only:
                continue
            whole, held = self._cut(held, last)
            yield from self._keyed(whole)
            held_bytes = sum(rows.nbytes for rows in held)
            only = last
        yield from self._keyed(held)

    def _data(self) -> Iterator[pa.RecordBatch]:
        """The rows, without the marker column, that are not late."""
        while self._ahead:
            yield from self._kept(self._ahead.popleft())
        for batch in self._batches:
            if not self._batch.has_markers:
                yield from self._kept(batch)
                continue
            if batch.column(0).null_count < batch.num_rows:
                raise self._foreign("a second marker is among the rows")
            yield from self._kept(batch.select(range(1, batch.num_columns)))

    def _kept(self, rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        self.num_rows += rows.num_rows
        self.nbytes += rows.nbytes
        self.row_bytes = max(self.row_bytes, rows.nbytes / max(rows.num_rows, 1))
        event_time = self._query.columns.event_time
        if event_time is not None and rows.num_rows:
            times: Any = rows.column(event_time.column)
            if event_time.is_window:
                times = pc.struct_field(times, "end")
            unit = {"s": 1, "ms": 1000, "us": 1_000_000}[times.type.unit]
            late = pc.less_equal(times.cast(pa.int64()), self._batch.late_watermark_ms * unit // 1000)
            kept = pc.invert(pc.fill_null(late, False))
            num_kept = pc.sum(kept).as_py()
            self.num_late += rows.num_rows - num_kept
            if num_kept < rows.num_rows:
                rows = rows.filter(kept)
        if rows.num_rows:
            yield rows

    def _find_row(self) -> int | None:
        """Finds the partition by the first row. Reads all rows, or of sorted ones only the first batch."""
        first: pa.RecordBatch | None = None
        for rows in self._batches:
            if not rows.num_rows:
                continue
            if first is None:
                first = rows.slice(0, 1)
            self._hold(rows)
            if self._batch.is_sorted:
                break
        if first is None:
            return None
        self.no_rows = self._data_columns(pa.Table.from_batches([first.slice(0, 0)]))
        return cast("int", self._partition_ids(self._keys(first))[0].as_py())

    def _find_marker(self) -> int | None:
        """Reads up to the marker row and removes it. Reads all rows unless they are sorted."""
        found = None
        for batch in self._batches:
            markers = batch.column(0)
            rows = batch.select(range(1, batch.num_columns))
            if markers.null_count == batch.num_rows:
                self._hold(rows)
            else:
                at = pc.index(pc.is_valid(markers), True).as_py()
                if found is not None or batch.num_rows - markers.null_count > 1:
                    raise self._foreign("a second marker is among the rows")
                found = cast("int", markers[at].as_py())
                self.no_rows = self._data_columns(pa.Table.from_batches([rows.slice(0, 0)]))
                for rest in (rows.slice(0, at), rows.slice(at + 1)):
                    if rest.num_rows:
                        self._hold(rest)
                if self._batch.is_sorted:
                    break
        if found is None and (self._ahead or self._parts):
            raise self._foreign("there are rows without a marker")
        return found

    def _hold(self, rows: pa.RecordBatch) -> None:
        """Keeps rows until they are asked for. Unsorted rows over the limit are split by key."""
        self._ahead.append(rows)
        self._ahead_bytes += rows.nbytes
        if self._batch.is_sorted or not self._key_schema.names or self._ahead_bytes <= self._query.max_bytes_per_call:
            return
        if self._parts is None:
            self._parts = Parts(self._keys, self._query.key_schema, self._query.max_bytes_per_call)
        while self._ahead:
            for kept in self._kept(self._ahead.popleft()):
                self._parts.add(kept)

    def _keyed(self, batches: list[pa.RecordBatch]) -> Iterator[KeyedRows]:
        if not batches:
            return
        table = pa.Table.from_batches(batches)
        keys = self._keys(table)
        if not pc.all(pc.equal(self._partition_ids(keys), cast("int", self.partition_id))).as_py():
            raise self._foreign(f"there are rows of other partitions than {self.partition_id}")
        yield KeyedRows(self._data_columns(table), keys, self._batch.is_sorted)

    def _partition_ids(self, keys: pa.StructArray) -> pa.Int32Array:
        return partition_ids(keys, self._query.key_schema, self._query.num_partitions)

    def _data_columns(self, rows: pa.Table) -> pa.Table:
        names = self._query.columns.data_names
        return rows.select(range(len(names))).rename_columns(list(names))

    def _keys(self, rows: pa.Table | pa.RecordBatch) -> pa.StructArray:
        if not self._key_schema.names:
            nothing = pa.struct([])
            return cast(pa.StructArray, pa.Array.from_buffers(nothing, rows.num_rows, [None]))
        columns = []
        for position, wanted in zip(self._query.columns.key_positions, self._key_schema, strict=True):
            column: Any = rows.column(position)
            if isinstance(column, pa.ChunkedArray):
                column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
            columns.append(column if column.type == wanted.type else column.cast(wanted.type))
        return pa.StructArray.from_arrays(columns, fields=list(self._key_schema))

    def _cut(self, held: list[pa.RecordBatch], last: bytes) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
        """Splits sorted rows before those of the last key, which may continue in the next batch."""
        for i in reversed(range(len(held))):
            rows = held[i]
            low, high = 0, rows.num_rows
            while low < high:
                middle = (low + high) // 2
                if self._key_row(rows, middle) == last:
                    high = middle
                else:
                    low = middle + 1
            if low:
                rest = [rows.slice(low), *held[i + 1 :]]
                return [*held[:i], rows.slice(0, low)], [part for part in rest if part.num_rows]
        return [], held

    def _key_row(self, rows: pa.RecordBatch, index: int) -> bytes:
        return cast("bytes", self._key_codec.encode(self._keys(rows.slice(index, 1)))[0].as_py())

    def _foreign(self, what: str) -> StateStoreError:
        return StateStoreError(
            f"batch {self._batch.batch_id} cannot be run: {what}",
            remedy="Spark has not kept the partitions that repartitionById made: report the query's plan "
            "(explain) as a bug of hdfsstore",
        )
