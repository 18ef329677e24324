"""Finds what decodes the rows that a caller asks for, and what reads their partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import pyarrow as pa
from pyarrow.fs import FileType

from hdfsstore.checkpoint.join_state import SIDES, JoinListConverter, JoinSideConverter, side_families, side_stores
from hdfsstore.checkpoint.operator_state import OperatorState
from hdfsstore.checkpoint.operators import DEFAULT_STORE, Store
from hdfsstore.checkpoint.row_converter import Converter, OneKey, RowConverter, describe_rows
from hdfsstore.checkpoint.spark_quirks import stored_value_type
from hdfsstore.checkpoint.state_request import StateRequest
from hdfsstore.checkpoint.state_variables import LIST, VariableConverter, state_variable
from hdfsstore.codecs.arrow_types import from_arrow_schema
from hdfsstore.codecs.types import StructType
from hdfsstore.errors import CheckpointNotFoundError, SchemaMismatchError, StateStoreError, UnsupportedTypeError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.reading import file_types
from hdfsstore.state.protocols import ALL_KEYS, KeyRange, PartitionReader

Readers: TypeAlias = dict[int, PartitionReader]


def rows_of_request(state: OperatorState, request: StateRequest) -> tuple[Converter, Readers, KeyRange]:
    if request.join_side is not None:
        if request.key is not None:
            raise StateStoreError(
                "the keys of a join's side are not those of its rows, so no single one of them can be read",
                remedy="Leave the key or the join side out; history takes both, and `where` a condition on the key",
            )
        if request.of_variable or request.store_name != DEFAULT_STORE:
            raise StateStoreError(
                "a side of a join is no store, state variable or timers, and cannot be read together with one",
                remedy="Give the one or the other",
            )
        sides, readers = _of_join_side(state, request, request.join_side)
        return sides, readers, sides.keys
    rows, readers = rows_of_store(state, request)
    if request.key is None:
        return rows, readers, ALL_KEYS
    if isinstance(rows, VariableConverter):
        return rows, readers, rows.key_range(request.key)
    stored = rows.stored_key(request.key)
    return OneKey(rows, stored), readers, KeyRange(stored, stored + b"\0")


def rows_of_store(state: OperatorState, request: StateRequest) -> tuple[RowConverter | VariableConverter, Readers]:
    store = state.operator.store(request.store_name)
    if store.has_families or request.of_variable:
        return _of_variable(state, request, store)
    rows = _row_converter(state, store, request.key_schema, request.value_schema)
    return rows, _readers(state, store, rows.key_type, request.partitions)


def _of_variable(state: OperatorState, request: StateRequest, store: Store) -> tuple[VariableConverter, Readers]:
    _refuse_schemas(request, store)
    if has_join_families(store):
        raise StateStoreError(
            f"the state of operator {state.operator.operator_id} is that of a stream-stream join",
            store.schema_path,
            remedy=f"Give one of its sides: join_side is {' or '.join(SIDES)}",
        )
    where = state.version - 1, store.schema_path
    variable = state_variable(state.operator, request.state_var, *where, timers=request.read_registered_timers)
    rows = _family_converter(state, store, variable.name, lists=variable.kind == LIST)
    converter = VariableConverter(rows, variable, flatten=request.flatten_collections)
    return converter, _readers(state, store, converter.key_type, request.partitions, variable.name)


def _of_join_families(
    state: OperatorState, request: StateRequest, side: str, store: Store
) -> tuple[JoinListConverter | JoinSideConverter, Readers]:
    """A side of state format 3 or 4: families of one store."""
    _refuse_schemas(request, store)
    count_family, row_family, list_family = side_families(side)
    if list_family in (family.name for family in store.column_families):
        lists = JoinListConverter(_family_converter(state, store, list_family, lists=True), request.near_key)
        return lists, _readers(state, store, lists.key_type, request.partitions, list_family)
    rows = _family_converter(state, store, row_family)
    counts = _family_converter(state, store, count_family)
    readers = _readers(state, store, rows.key_type, request.partitions, row_family)
    count_readers = {i: state.reader(store, i, count_family) for i in readers}
    return JoinSideConverter(counts, rows, count_readers, state.version, request.near_key), readers


def _refuse_schemas(request: StateRequest, store: Store) -> None:
    if request.key_schema is not None or request.value_schema is not None:
        raise StateStoreError(
            "key_schema and value_schema are of stores without column families",
            store.schema_path,
            remedy="Leave them out: this file has the schema of each family",
        )


def _family_converter(state: OperatorState, store: Store, name: str, *, lists: bool = False) -> RowConverter:
    family = store.family(name)
    return RowConverter(
        family.key_type, family.value_type, state.family_codecs(store, family, lists=lists), lists=lists
    )


def _of_join_side(
    state: OperatorState, request: StateRequest, side: str
) -> tuple[JoinListConverter | JoinSideConverter, Readers]:
    store = state.operator.stores[0]
    if has_join_families(store):
        return _of_join_families(state, request, side, store)
    count_store, row_store = (state.operator.store(name) for name in side_stores(side, state.operator))
    rows = _row_converter(state, row_store, None, request.value_schema)
    counts = _row_converter(state, count_store, request.key_schema, None)
    readers = _readers(state, row_store, rows.key_type, request.partitions)
    count_readers = {i: state.reader(count_store, i) for i in readers}
    return JoinSideConverter(counts, rows, count_readers, state.version, request.near_key), readers


def has_join_families(store: Store) -> bool:
    """Whether it is the store of a stream-stream join of state format 3 or 4."""
    names = side_families(SIDES[0])
    return store.has_families and any(family.name in names for family in store.named_families)


def _readers(
    state: OperatorState, store: Store, key_type: StructType, wanted: Sequence[int] | None, family: str | None = None
) -> Readers:
    """Reads the wanted partitions. Raises CheckpointNotFoundError where one has no folder."""
    found, declared = set(state.partitions(store, key_type)), range(store.num_partitions)
    expected = store.needed_partitions(key_type)
    needed = expected if wanted is None else [i for i in sorted(set(wanted)) if i in expected or i not in declared]
    partition_id = next((i for i in needed if i not in found), None)
    if partition_id is not None:
        raise CheckpointNotFoundError(
            f"operator {state.operator.operator_id} has no partition {partition_id}",
            store.partition_path(partition_id),
            remedy=f"Its partitions are {sorted(found)}; {store.num_partitions} are declared",
        )
    _check_folders(state.fs, store)
    return {i: state.reader(store, i, family) for i in sorted(found if wanted is None else found & set(wanted))}


def _check_folders(fs: FileManager, store: Store) -> None:
    """Refuses a store that has a folder in no partition: it does not exist, whatever the metadata says."""
    if store.name == DEFAULT_STORE:
        return  # its folders are those of the partitions, which were listed
    folders = [store.partition_path(partition_id) for partition_id in store.partition_ids]
    if folders and not any(file_types(fs, [folder]) == [FileType.Directory] for folder in folders):
        raise CheckpointNotFoundError(
            f"no partition has a folder of the store {store.name!r}, which the operator metadata names",
            folders[0],
            remedy="The checkpoint was not copied whole, or its metadata is damaged",
        )


def _row_converter(
    state: OperatorState, store: Store, key_schema: pa.Schema | None, value_schema: pa.Schema | None
) -> RowConverter:
    key_type = store.key_type if key_schema is None else from_arrow_schema(key_schema)
    value_type = store.value_type if value_schema is None else from_arrow_schema(value_schema)
    if key_type is None or value_type is None:
        raise _no_schema(state, store, key_type is None, value_type is None)
    if value_schema is None:
        value_type = stored_value_type(state.operator, store, value_type, state.conf, lambda: state.first_chunk(store))
    try:
        return RowConverter(key_type, value_type, state.codecs(store, key_type, value_type))
    except UnsupportedTypeError as error:
        raise UnsupportedTypeError(error.message, store.schema_path, remedy=error.remedy) from None


def _no_schema(state: OperatorState, store: Store, no_key: bool, no_value: bool) -> SchemaMismatchError:
    first = state.first_chunk(store)
    looks = "it has no rows at this batch"
    if first is not None:
        looks = f"keys: {describe_rows(first.keys)}; values: {describe_rows(first.values)}"
    missing = [f"{part}_schema=pyarrow.schema([...])" for part, no in (("key", no_key), ("value", no_value)) if no]
    return SchemaMismatchError(
        f"the store has no schema file; {looks}", store.schema_path, remedy=f"Give {' and '.join(missing)}"
    )
