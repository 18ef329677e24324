"""Finds the partition of each row of a state by the rule of its operator, and proves the rule on the rows there are.

Spark puts a row into the partition pmod(hash, partitions), where the hash is Murmur3 over the columns that decide
(operator_kinds.py). Keys are decoded in columns, and no row becomes an object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import pyarrow as pa
import pyarrow.compute as pc

from hdfsstore._cext import rocksdb_rows
from hdfsstore.checkpoint.operator_state import OperatorState
from hdfsstore.checkpoint.operators import Store
from hdfsstore.checkpoint.row_converter import KeyCodec
from hdfsstore.checkpoint.state_schema import DEFAULT_FAMILY
from hdfsstore.codecs import murmur3
from hdfsstore.codecs.records import RecordChunk
from hdfsstore.codecs.rocksdb_keys import family_prefix
from hdfsstore.codecs.types import StructType
from hdfsstore.codecs.unsafe_row import RowCodec
from hdfsstore.errors import PlacementError, StateStoreError
from hdfsstore.repair.families import family_numbers
from hdfsstore.repair.operator_kinds import (
    JOIN,
    KINDS,
    LIMIT,
    Columns,
    columns_type,
    deciding_columns,
    possible_kinds,
)
from hdfsstore.state.parallel import run_all


@dataclass(frozen=True, slots=True)
class _Part:
    """The keys of a column family, or of a store without families.

    Attributes:
        prefix: the bytes that they begin with; empty without families; None: there are no such keys.
        keys: decodes them, without these bytes.
        columns, decides: the columns that decide, and their type; None: the rows are in partition 0.
    """

    prefix: bytes | None
    keys: KeyCodec
    columns: Columns | None
    decides: StructType | None

    def partitions(self, chunk: RecordChunk, n: int) -> pa.Int32Array:
        if self.columns is None or self.decides is None:
            return pa.repeat(pa.scalar(0, pa.int32()), len(chunk))
        data = pa.py_buffer(chunk.data)
        try:
            spans = rocksdb_rows.strip(data, chunk.keys, self.prefix) if self.prefix else chunk.keys
            rows = self.keys.decode(data, spans)
        except StateStoreError as error:
            raise chunk.locate(error) from None
        for place in self.columns.path:
            rows = cast(pa.StructArray, rows.field(place))
        if self.columns.without_last:
            fields = list(rows.type)[:-1]
            rows = pa.StructArray.from_arrays([rows.field(i) for i in range(len(fields))], fields=fields)
        return murmur3.partition_ids(rows, self.decides, n)


class Placement:
    """The rule that places the rows of one store. It has no state, so threads may share it.

    Attributes:
        kind: of the operator.
        keyless: all rows are in partition 0, the only one that Spark runs.
        name: the rule in words.
    """

    def __init__(self, kind: str, store: Store, parts: Sequence[_Part]) -> None:
        self.kind = kind
        self._store = store
        self._parts = parts
        decides = {tuple(field.name for field in part.decides.fields) for part in parts if part.decides is not None}
        self.keyless = not decides
        self.name = f"{kind}: hash of ({', '.join(min(decides))})" if decides else f"{kind}: all rows in partition 0"

    def partitions(self, chunk: RecordChunk, n: int) -> pa.Int32Array:
        """The partition of each row among n, 0 to n - 1.

        Args:
            chunk: rows of the store as its files have them, with the numbers of column families in RocksDB.

        Raises:
            PlacementError: a row is of a column family that has no schema.
            CorruptFileError, SchemaMismatchError: a key is none of the store.
            UnsupportedTypeError: a column that decides has a type whose hash is not known.
        """
        if self._parts[0].prefix == b"":
            return self._parts[0].partitions(chunk, n)
        data = pa.py_buffer(chunk.data)
        places, found = [], []
        for part in self._parts:
            if part.prefix is None:
                continue
            numbers = rocksdb_rows.begin_with(data, chunk.keys, part.prefix)
            if count := numbers.size // 8:
                rows = pa.Array.from_buffers(pa.int64(), count, [None, numbers])
                places.append(rows)
                found.append(part.partitions(chunk if count == len(chunk) else _keys_of(chunk, rows), n))
        if sum(map(len, found)) != len(chunk):
            raise PlacementError(
                "rows are of a column family that the schema file does not name, so where they belong is not known",
                self._store.schema_path,
                remedy="The schema file is not of this state: nothing was changed",
            )
        if len(found) == 1:
            return found[0]
        if not found:
            return pa.array([], pa.int32())
        return pa.concat_arrays(found).take(pc.array_sort_indices(pa.concat_arrays(places)))

    def check(self, chunk: RecordChunk, partition_id: int) -> None:
        """Proves the rule on rows that are in a partition of the store.

        Raises:
            PlacementError: a row belongs elsewhere.
        """
        partitions = self.partitions(chunk, self._store.num_partitions)
        misplaced = pc.indices_nonzero(pc.not_equal(partitions, partition_id))
        if not len(misplaced):
            return
        row = misplaced[0].as_py()
        at, size = memoryview(chunk.keys).cast("B").cast("i")[2 * row : 2 * row + 2]
        raise PlacementError(
            f"{len(misplaced)} of {len(chunk)} rows that were read are not where the rule puts them ({self.name}): "
            f"the row of the key {bytes(chunk.data[at : at + size]).hex()} is in partition {partition_id} of "
            f"{self._store.num_partitions}, and belongs into {partitions[row]}",
            self._store.partition_path(partition_id),
            remedy="Nothing was changed. If the operator is of another kind, give --operator-kind "
            f"({', '.join(KINDS)}). Rows of an operator without keys that are not in partition 0 were put there by "
            "Spark's own repartition",
        )


def placement_of(state: OperatorState, store: Store, kind: str | None = None, memory: int | None = None) -> Placement:
    """The rule of a store.

    Before Spark 4.0 nothing names the operator. Where its schema fits several kinds, its rows are read to tell.

    Args:
        kind: what the user says the operator is, one of KINDS; for operators without a name.
        memory: bytes that changes since a snapshot may take, while rows are read.

    Raises:
        PlacementError: the rule is not known, or several fit, or Spark has not named the operator and its rows prove
            nothing, because they are in one partition; or the metadata of an operator with column families is lost.
    """
    placements = possible_placements(state, store, kind)
    kinds = [placement.kind for placement in placements]
    if state.operator.name is None and kind is None and kinds[0] not in (JOIN, LIMIT) and store.num_partitions == 1:
        raise PlacementError(
            f"operator {state.operator.operator_id} has one partition, so its rows do not prove where they belong, and "
            "before Spark 4.0 nothing names it",
            store.partition_path(0),
            remedy=f"Say what it is with --operator-kind: {', '.join(KINDS)}",
        )
    if len(placements) == 1:
        return placements[0]
    fitting, count = [], 0
    for placement in placements:
        try:
            count = check_placement(state, store, placement, memory=memory)
        except PlacementError:
            continue
        fitting.append(placement)
    if len(fitting) == 1 or (fitting and count == 0):
        return fitting[0]
    raise PlacementError(
        f"operator {state.operator.operator_id} may be of kind {' or '.join(kinds)}, and its rows fit "
        f"{'all of them' if fitting else 'none'}",
        store.schema_path,
        remedy=f"Say what it is with --operator-kind: {', '.join(KINDS)}",
    )


def possible_placements(state: OperatorState, store: Store, kind: str | None = None) -> list[Placement]:
    """The rules that fit the schema of a store: one, unless the operator has no name. Raises PlacementError."""
    if state.operator.name is None and store.has_families:
        raise PlacementError(
            "the operator's metadata, which names this schema file, is missing, and Spark does not start without it",
            store.schema_path,
            remedy=f"Restore state/{state.operator.operator_id}/_metadata",
        )
    return [Placement(each, store, _parts(state, store, each)) for each in possible_kinds(state.operator, kind)]


def check_placement(
    state: OperatorState, store: Store, placement: Placement, threads: int = 1, memory: int | None = None
) -> int:
    """Proves the rule on every row of the store; returns how many there are.

    Raises:
        PlacementError: a row belongs elsewhere.
    """

    def check(partition_id: int) -> int:
        def one(chunk: RecordChunk) -> int:
            placement.check(chunk, partition_id)
            return len(chunk)

        return sum(state.files(store, partition_id).stream(state.version, one, memory=memory))

    partition_ids = state.partitions(store, store.key_type)
    return sum(run_all([partial(check, partition_id) for partition_id in partition_ids], threads))


def _parts(state: OperatorState, store: Store, kind: str) -> list[_Part]:
    operator = state.operator
    if store.has_families:
        numbers = family_numbers(state, store)
        parts = []
        for family in store.column_families:
            columns = deciding_columns(kind, operator, store, family.name, family.key_type)
            keys, _ = state.family_codecs(store, family, lists=False)
            # A family that was added after this batch has no number yet.
            number = numbers.get(family.name)
            parts.append(_part(None if number is None else family_prefix(number), keys, columns, family.key_type))
        return parts
    key_type, value_type = store.key_type, store.value_type
    if key_type is None or value_type is None:
        raise PlacementError(
            "the store has no schema file, so nothing tells what its keys are",
            store.schema_path,
            remedy="Spark 3.0 and later write it when the query is started once",
        )
    codecs = state.codecs(store, key_type, value_type)
    columns = deciding_columns(kind, operator, store, DEFAULT_FAMILY, key_type)
    return [_part(b"", codecs[0] if codecs else RowCodec(key_type), columns, key_type)]


def _part(prefix: bytes | None, keys: KeyCodec, columns: Columns | None, key_type: StructType) -> _Part:
    return _Part(prefix, keys, columns, None if columns is None else columns_type(columns, key_type))


def _keys_of(chunk: RecordChunk, rows: pa.Int64Array) -> RecordChunk:
    """The keys of some rows alone."""
    taken = pa.Array.from_buffers(pa.int64(), len(chunk), [None, chunk.keys]).take(rows)
    return replace(chunk, keys=taken.buffers()[1])
