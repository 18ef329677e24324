"""Fits rows that a user gives to the types of a store: by the names of fields, with the number of the row in errors.

Rows have the columns that a store is read with: key and value, structs whose repeated names are numbered (sum, sum_2).
A column partition_id is left aside, because the key tells where a row belongs.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hdfsstore.conditions.names import unique_names
from hdfsstore.errors import SchemaMismatchError

COLUMNS = ("key", "value")


def fitted_rows(rows: pa.Table, schema: pa.Schema) -> tuple[pa.StructArray, pa.StructArray]:
    """The keys and the values of the rows, of the types of a store.

    Args:
        schema: of a store: key, value and partition_id.

    Raises:
        SchemaMismatchError: a column or field is missing or unknown, a value is not of its type or does not fit it, or
            a null is where the store has none. The message has the field and the number of the row, from 0.
    """
    unknown = [name for name in rows.column_names if name not in schema.names]
    missing = [name for name in COLUMNS if rows.column_names.count(name) != 1]
    if unknown or missing:
        raise SchemaMismatchError(
            f"the rows have the columns {', '.join(rows.column_names)}",
            remedy="Give key and value, as `hdfsstore read` writes them",
        )
    fitted = []
    for name in COLUMNS:
        column = rows.column(name).combine_chunks()
        column = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column
        fitted.append(_fit(column, schema.field(name).with_nullable(False), name, numbers(len(rows))))
    keys, values = fitted
    return keys, values


def numbers(count: int) -> pa.Int64Array:
    """0 to count - 1."""
    return pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), count)), 1)


def _fit(array: Any, field: pa.Field, path: str, rows: Any) -> Any:
    """The array as one of the field.

    Args:
        rows: the number of the row of each value.
    """
    kind = field.type
    if not field.nullable and array.null_count:
        raise _error(f"{path} is null, which the store does not have", rows[pc.index(array.is_null(), True).as_py()])
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), kind)
    if pa.types.is_struct(kind):
        return _fit_struct(array, kind, path, rows)
    if pa.types.is_list(kind):
        return _fit_list(array, kind, path, rows)
    if array.type == kind:
        return array
    if not _is_alike(array.type, kind):
        raise SchemaMismatchError(f"{path} is {array.type}, and the store has {kind}")
    try:
        fitted = array.cast(kind)
    except pa.ArrowException:
        at = _first_bad(array, kind)
    else:
        if not (pa.types.is_floating(kind) and pa.types.is_floating(array.type)):
            return fitted
        # pyarrow makes an infinity of a number that is too large.
        at = pc.index(pc.and_(pc.is_finite(array), pc.is_inf(fitted)), True).as_py()
        if at < 0:
            return fitted
    raise _error(f"{path} is {array[at]}, which does not fit {kind}", rows[at])


def _fit_struct(array: Any, kind: Any, path: str, rows: Any) -> pa.StructArray:
    names = unique_names(pa.schema(list(kind))).names
    given = [each.name for each in array.type] if pa.types.is_struct(array.type) else []
    if sorted(given) != sorted(names):
        raise SchemaMismatchError(f"{path} is {array.type}, and the store has the fields {', '.join(names)}")
    valid = array.is_valid()
    children = []
    for name, field in zip(names, kind, strict=True):
        child = array.field(given.index(name))
        if array.null_count:  # What is below a null is no value.
            there = pc.indices_nonzero(valid)
            fitted = _fit(child.take(there), field, f"{path}.{name}", rows.take(there))
            back = pc.if_else(valid, pc.subtract(pc.cumulative_sum(valid.cast(pa.int64())), 1), None)
            children.append(fitted.take(back))
        else:
            children.append(_fit(child, field, f"{path}.{name}", rows))
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())


def _fit_list(array: Any, kind: Any, path: str, rows: Any) -> pa.ListArray:
    if pa.types.is_large_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    if not pa.types.is_list(array.type):
        raise SchemaMismatchError(f"{path} is {array.type}, and the store has {kind}")
    elements = _fit(array.flatten(), kind.value_field, f"{path}[]", rows.take(pc.list_parent_indices(array)))
    sizes = pc.fill_null(pc.list_value_length(array), 0)
    ends = pc.cumulative_sum(sizes.cast(pa.int32()))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return pa.ListArray.from_arrays(offsets, elements, type=kind, mask=array.is_null())


def _is_alike(given: pa.DataType, kind: pa.DataType) -> bool:
    """Whether values of the two types mean the same, so that a cast makes no other value of one."""
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if is_number:
        decimal_to_float = pa.types.is_decimal(given) and pa.types.is_floating(kind)
        to_whole = pa.types.is_floating(given) and not pa.types.is_floating(kind)
        is_given = pa.types.is_integer(given) or pa.types.is_floating(given) or pa.types.is_decimal(given)
        return bool(is_given and not decimal_to_float and not to_whole)
    if pa.types.is_dictionary(given):
        return _is_alike(given.value_type, kind)
    families = (
        (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
        (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary),
        (pa.types.is_date,),
        (pa.types.is_time,),
        (pa.types.is_duration,),
        (pa.types.is_map,),
    )
    if pa.types.is_timestamp(kind):
        return bool(pa.types.is_timestamp(given) and bool(given.tz) == bool(kind.tz))
    return any(
        any(is_one(given) for is_one in family) and any(is_one(kind) for is_one in family) for family in families
    )


def _first_bad(array: Any, kind: pa.DataType) -> int:
    """The place of a value that cannot be cast; the array has one."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            array.slice(low, middle - low).cast(kind)
            low = middle
        except pa.ArrowException:
            high = middle
    return low


def _error(message: str, row: Any) -> SchemaMismatchError:
    return SchemaMismatchError(f"row {row}: {message}", remedy="Nothing was changed. Rows count from 0")
