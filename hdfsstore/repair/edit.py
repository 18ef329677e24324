"""Changes rows of one store: removes some, puts others, or makes all of them anew.

    rows of the source -> kept: those that stay -> added: those that are put -> placed and encoded like any others

A row is a key and a value, as the store is read. What keeps counts and indexes beside its rows is refused: joins and
transformWithState.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hdfsstore._cext.key_set import KeySet
from hdfsstore._cext.records import digest_spans
from hdfsstore.checkpoint import conf as confs
from hdfsstore.checkpoint.operator_state import OperatorState
from hdfsstore.checkpoint.operators import DEFAULT_STORE, Store
from hdfsstore.checkpoint.row_converter import RowConverter
from hdfsstore.checkpoint.state_request import StateRequest
from hdfsstore.checkpoint.stored_rows import rows_of_store
from hdfsstore.codecs.records import RecordChunk
from hdfsstore.codecs.types import StructType
from hdfsstore.codecs.unsafe_row import RowCodec
from hdfsstore.conditions.names import unique_names, with_names
from hdfsstore.conditions.where import parse_condition
from hdfsstore.errors import RepairError, SchemaMismatchError, StateStoreError
from hdfsstore.repair.fitted_rows import fitted_rows, numbers
from hdfsstore.repair.operator_kinds import AGGREGATION, JOIN, SESSION_WINDOW, TRANSFORM
from hdfsstore.repair.provider_rows import RowsOfProvider, plain_chunk

_AGGREGATION_FORMAT = "spark.sql.streaming.aggregation.stateFormatVersion"
_CHUNK_ROWS = 16_384


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of the rows of one store. At least one of the last three is given; `function` only by itself.

    Attributes:
        operator_id, store_name: the store.
        remove: a condition as `--where` has it: rows for which it is true are removed.
        rows: are put, after that: each in the place of the row with its key, or as a new one. Columns as
            Checkpoint.read_state() has them; partition_id may be missing, and does not count.
        function: takes all rows as such a table, and returns the rows that are to be there instead. It is called once.
    """

    operator_id: int = 0
    store_name: str = DEFAULT_STORE
    remove: str | None = None
    rows: pa.Table | None = None
    function: Callable[[pa.Table], pa.Table] | None = None

    def __post_init__(self) -> None:
        given = [each is not None for each in (self.remove, self.rows, self.function)]
        if not any(given) or (self.function is not None and sum(given) > 1):
            raise RepairError("an edit removes and puts rows, or makes all of them anew: give one of them")


class StoreEdit:
    """An edit of the rows that one store has. Threads may share it.

    Args:
        kind: of the operator, as placement_of tells it.

    Raises:
        ConditionError: the condition does not fit the store.
        RepairError: the store keeps more than its rows, so that an edit would break it.
        SchemaMismatchError: rows do not fit the store; the message has the number of the first one.
    """

    def __init__(self, state: OperatorState, store: Store, edit: Edit, kind: str) -> None:
        if kind in (JOIN, TRANSFORM) or store.has_families:
            raise RepairError(
                f"operator {state.operator.operator_id} is of kind {kind}, which keeps counts and indexes beside its "
                "rows: this release does not edit it",
                store.partition_path(0),
                remedy="Rows of joins and of transformWithState can be read with Checkpoint",
            )
        self._state, self._store, self._edit, self._kind = state, store, edit, kind
        converter, self._readers = rows_of_store(state, _request(edit))
        assert isinstance(converter, RowConverter)
        self._rows = converter
        self._schema = unique_names(self._rows.schema)
        self._removes = None if edit.remove is None else parse_condition(edit.remove, self._schema)
        self._lock = threading.Lock()
        self._given = KeySet()
        if edit.rows is not None:
            for chunk in self.added:
                self._given.add(chunk.data, chunk.keys)

    def kept(self, chunk: RecordChunk, partition_id: int) -> RecordChunk:
        """The rows of a chunk of the store that stay as they are."""
        if self._edit.function is not None:
            return chunk.first(0)
        if self._removes is not None:
            batch = with_names(self._rows.of_partition(partition_id)(chunk), self._schema)
            removed = pc.fill_null(self._removes(batch), False)
            if pc.any(removed).as_py():
                chunk = chunk.take(pc.indices_nonzero(pc.invert(removed)))
        if self._edit.rows is None or not len(chunk):
            return chunk
        keys, values = (pa.py_buffer(bytearray(spans)) for spans in (chunk.keys, chunk.values))
        with self._lock:
            count = self._given.keep_absent(chunk.data.cast("B"), keys, values)
        return replace(chunk, keys=keys, values=values).first(count)

    @cached_property
    def added(self) -> list[RecordChunk]:
        """The rows that are put, encoded for the provider of the source, in partitions that their keys tell.

        Raises:
            SchemaMismatchError: as the class says, of the rows that a function returns.
        """
        rows = self._edit.rows
        if self._edit.function is not None:
            rows = self._edit.function(self._all_rows())
            if not isinstance(rows, pa.Table):
                raise RepairError(f"the function returned {type(rows).__name__}, and no pyarrow.Table")
        return [] if rows is None else list(self._encoded(rows))

    def told(self) -> list[str | int | bool | None]:
        """The edit as a manifest has it, to be held against that of a second run: by the rows that it makes."""
        digests = [digest_spans(chunk.data, chunk.keys, chunk.values) for chunk in self.added]
        edit = self._edit
        return [edit.operator_id, edit.store_name, edit.remove, edit.function is not None, sum(digests) % (1 << 64)]

    def _all_rows(self) -> pa.Table:
        batches = [
            with_names(batch, self._schema)
            for partition_id in self._state.partitions(self._store, self._store.key_type)
            for batch in self._readers[partition_id].load(self._state.version, self._rows.of_partition(partition_id))
        ]
        return pa.Table.from_batches(batches, self._schema)

    def _encoded(self, rows: pa.Table) -> Iterator[RecordChunk]:
        """Rows as the files of the source have them, in chunks."""
        keys, values = fitted_rows(rows, self._rows.schema)
        if self._kind in (AGGREGATION, SESSION_WINDOW):
            keys = _normalized(keys)
        self._check_repeated_keys(keys, values)
        encoded_keys = RowCodec(self._rows.key_type).encode(keys)
        _refuse_twice(encoded_keys)
        encoded_values = RowCodec(self._rows.value_type).encode(values)
        plain = replace(self._state, provider=confs.HDFS_PROVIDER)
        stored = RowsOfProvider(plain, self._store, self._state.provider)
        for at in range(0, len(keys), _CHUNK_ROWS):
            yield stored.convert(plain_chunk(*(each.slice(at, _CHUNK_ROWS) for each in (encoded_keys, encoded_values))))

    def _check_repeated_keys(self, keys: pa.StructArray, values: pa.StructArray) -> None:
        """Values of session windows, and of aggregations in state format 1, have the key's columns, too."""
        repeats = self._kind == SESSION_WINDOW or (
            self._kind == AGGREGATION and self._state.conf.get(_AGGREGATION_FORMAT) == "1"
        )
        for at, field in enumerate(keys.type if repeats else ()):
            also = values.type.get_all_field_indices(field.name)
            if len(also) != 1 or values.type[also[0]].type != field.type:
                continue
            alone = RowCodec(StructType((self._rows.key_type.fields[at],)))
            ours, theirs = (
                alone.encode(pa.StructArray.from_arrays([column], names=[field.name]))
                for column in (keys.field(at), values.field(also[0]))
            )
            differs = pc.indices_nonzero(pc.not_equal(ours, theirs))
            if len(differs):
                raise SchemaMismatchError(
                    f"row {differs[0]}: key.{field.name} and value.{field.name} differ, and this operator keeps the "
                    "same in both",
                    remedy="Nothing was changed. Rows count from 0",
                )


def sql_function(query: str) -> Callable[[pa.Table], pa.Table]:
    """A function for Edit.function: the rows of a query of DuckDB's on the table `state`.

    Raises:
        StateStoreError: DuckDB is not installed, or refuses the query.
    """
    try:
        import duckdb
    except ModuleNotFoundError:
        raise StateStoreError("an edit by SQL needs DuckDB", remedy="pip install 'hdfsstore[sql]'") from None

    def run(table: pa.Table) -> pa.Table:
        with duckdb.connect(config={"python_enable_replacements": "false"}) as connection:
            connection.execute("set timezone = 'UTC'")
            connection.register("state", table)
            try:
                result = connection.sql(query)
                if result is None:
                    raise RepairError("the query gives no rows", remedy="Write a select")
                return pa.RecordBatchReader.from_stream(result).read_all()
            except duckdb.Error as error:
                raise RepairError(str(error), remedy="The table is `state`, with key, value, partition_id") from None

    return run


def _request(edit: Edit) -> StateRequest:
    return StateRequest(
        operator_id=edit.operator_id,
        store_name=edit.store_name,
        batch_id=None,
        join_side=None,
        partitions=None,
        key_schema=None,
        value_schema=None,
    )


def _refuse_twice(keys: pa.BinaryArray | pa.LargeBinaryArray) -> None:
    """Raises SchemaMismatchError where a key is there twice."""
    # Keys are numbered as they come, so the first one that was there before has another number than its row.
    found = keys.dictionary_encode().indices
    again = pc.indices_nonzero(pc.not_equal(found, numbers(len(keys))))
    if len(again):
        row = again[0].as_py()
        raise SchemaMismatchError(
            f"rows {found[row]} and {row} have the same key",
            remedy="Nothing was changed. Rows count from 0",
        )


def _normalized(array: Any) -> Any:
    """Keys as Spark groups by them: 0.0 for -0.0, and one NaN."""
    if pa.types.is_struct(array.type):
        children = [_normalized(array.field(i)) for i in range(array.type.num_fields)]
        return (
            pa.StructArray.from_arrays(children, fields=list(array.type), mask=array.is_null()) if children else array
        )
    if pa.types.is_list(array.type):
        return pa.Array.from_buffers(
            array.type, len(array), array.buffers()[:2], offset=array.offset, children=[_normalized(array.values)]
        )
    if not pa.types.is_floating(array.type):
        return array
    return pc.if_else(pc.is_nan(array), pa.scalar(float("nan"), array.type), pc.add(array, pa.scalar(0.0, array.type)))
