"""Writes Arrow as UnsafeRows: measures values from the leaves up, then places and writes them from the root down.

At each node of the tree of types, one compiled loop goes over all rows or elements.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hdfsstore._cext import unsafe_array, unsafe_row, unsafe_values
from hdfsstore.codecs import types as t
from hdfsstore.codecs.arrow_types import cast_array
from hdfsstore.codecs.row_plan import Node, plan
from hdfsstore.errors import SchemaMismatchError

_BINARY = plan(t.BinaryType(), "")
# A cast between Arrow types of one family keeps the meaning of values.
_FAMILIES = (
    (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary),
    (pa.types.is_decimal,),
    (lambda arrow: pa.types.is_timestamp(arrow) and arrow.tz is None,),
    (lambda arrow: pa.types.is_timestamp(arrow) and arrow.tz is not None,),
    (pa.types.is_duration,),
    (pa.types.is_time,),
)


@dataclass
class _Column:
    """The buffers of an Arrow array, the index `first` of its first value in them, and the sizes of the written values.

    values, offsets, sizes: pyarrow buffers, or None if the type has none.
    """

    node: Node
    first: int
    validity: pa.Buffer | None
    values: Any = None
    offsets: Any = None
    sizes: Any = None
    children: list[_Column] = field(default_factory=list)

    @property
    def source(self) -> tuple[int, pa.Buffer | None, Any, Any]:
        return self.first, self.validity, self.values, self.sizes


def write_rows(node: Node, rows: pa.StructArray) -> pa.BinaryArray | pa.LargeBinaryArray:
    try:
        column = _measure(node, rows)
    except OverflowError:
        raise SchemaMismatchError("a row takes more than 2 GiB") from None
    arrow, null_count, buffers, places = unsafe_values.lay_out(column.sizes)
    _write(column, buffers[2], places)
    return pa.Array.from_buffers(arrow, len(rows), buffers, null_count)


def _measure(node: Node, array: Any) -> _Column:
    array = _conform(node, array)
    first, count = array.offset, len(array)
    buffers = array.buffers()
    column = _Column(node, first, buffers[0] if array.null_count else None)
    validity = column.validity
    match node.type:
        case t.StructType():
            column.children = [_measure(c, array.field(i)) for i, c in enumerate(node.children)]
            sources = [c.source for c in column.children]
            column.sizes = unsafe_row.row_sizes(count, first, validity, node.kinds, node.all_digits, sources)
        case t.ArrayType():
            column.offsets = buffers[1]
            column.children = [_measure(node.children[0], array.values)]
            column.sizes = _array_sizes(column, count, column.children[0])
        case t.MapType():
            column.offsets = buffers[1]
            entries = array.values
            if entries.field(0).null_count:
                raise SchemaMismatchError(f"field {node.path!r} has a null key")
            column.children = [_measure(c, entries.field(i)) for i, c in enumerate(node.children)]
            keys, values = (_array_sizes(column, count, c) for c in column.children)
            column.sizes = unsafe_values.join_sizes(first, validity, keys, values, 8)
        case t.VariantType():
            column.children = [_measure(_BINARY, array.field(i)) for i in (0, 1)]
            for i, child in enumerate(column.children):
                if child.validity is not None and pc.any(pc.and_(array.is_valid(), array.field(i).is_null())).as_py():
                    raise SchemaMismatchError(f"field {node.path!r} has a variant without a value or metadata")
            value, metadata = (c.sizes for c in column.children)
            column.sizes = unsafe_values.join_sizes(first, validity, value, metadata, 4)
        case t.DecimalType() if node.kind == "D":
            column.values = buffers[1]
            column.sizes = unsafe_values.decimal_sizes(count, first, validity, column.values)
        case t.CalendarIntervalType():
            column.values = buffers[1]
            column.sizes = unsafe_values.fixed_sizes(count, first, validity, 16)
        case t.NullType():
            pass
        case _ if node.kind == "s":
            column.offsets, column.values = buffers[1:]
            column.sizes = unsafe_values.byte_sizes(count, first, validity, column.offsets)
        case _:
            column.values = buffers[1]
    return column


def _array_sizes(column: _Column, count: int, elements: _Column) -> pa.Buffer:
    kind = elements.node.kind
    return unsafe_array.array_sizes(count, column.first, column.validity, column.offsets, kind, elements.sizes)


def _write(column: _Column, out: pa.Buffer, places: pa.Buffer) -> None:
    """Writes the values of a column that do not fit into a slot to their places."""
    node, first = column.node, column.first
    match node.type:
        case t.StructType():
            sources = [c.source for c in column.children]
            bad, children = unsafe_row.write_fields(out, places, node.kinds, node.all_digits, sources)
            if bad >= 0:
                raise _does_not_fit(node.children[bad])
            for child, child_places in zip(column.children, children, strict=True):
                if child_places is not None:
                    _write(child, out, child_places)
        case t.ArrayType():
            _write_elements(column, column.children[0], out, places)
        case t.MapType():
            keys, values = column.children
            key_sizes = _array_sizes(column, places.size // 8, keys)
            key_places, value_places = unsafe_values.write_pairs(out, places, key_sizes, False)
            _write_elements(column, keys, out, key_places)
            _write_elements(column, values, out, value_places)
        case t.VariantType():
            value, metadata = column.children
            value_places, metadata_places = unsafe_values.write_pairs(out, places, value.sizes, True)
            _write(value, out, value_places)
            _write(metadata, out, metadata_places)
        case t.DecimalType(digits, _):
            if not unsafe_values.write_decimals(out, places, first, column.values, column.sizes, digits):
                raise _does_not_fit(node)
        case t.CalendarIntervalType():
            if not unsafe_values.write_intervals(out, places, first, column.values):
                raise _does_not_fit(node)
        case _:
            unsafe_values.write_bytes(out, places, first, column.offsets, column.values)


def _write_elements(column: _Column, elements: _Column, out: pa.Buffer, places: pa.Buffer) -> None:
    node = elements.node
    good, element_places = unsafe_array.write_elements(
        out, places, column.first, column.offsets, node.kind, node.digits, elements.source
    )
    if not good:
        raise _does_not_fit(node)
    if element_places is not None:
        _write(elements, out, element_places)


def _conform(node: Node, array: Any) -> Any:
    """The array, cast if its type differs but has the same meaning. Raises SchemaMismatchError."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    arrow = array.type
    match node.type:
        case t.StructType() | t.VariantType():
            fits = pa.types.is_struct(arrow) and _names(arrow) == _names(node.arrow)
        case t.ArrayType():
            if pa.types.is_large_list(arrow):
                array = cast_array(array, pa.list_(arrow.value_field), f"field {node.path!r}")
            fits = pa.types.is_list(array.type)
        case t.MapType():
            fits = pa.types.is_map(arrow)
        case _:
            fits = arrow == node.arrow
            if not fits and any(
                any(known(arrow) for known in family) and any(known(node.arrow) for known in family)
                for family in _FAMILIES
            ):
                return cast_array(array, node.arrow, f"field {node.path!r}")
    if not fits:
        where = f"field {node.path!r} has" if node.path else "the rows have"
        raise SchemaMismatchError(f"{where} the Arrow type {arrow}, and not {node.arrow}")
    return array


def _names(struct: Any) -> list[str]:
    return [struct.field(i).name for i in range(struct.num_fields)]


def _does_not_fit(node: Node) -> SchemaMismatchError:
    match node.type:
        case t.DecimalType(digits, _):
            why = f"a decimal with more than {digits} digits"
        case t.CalendarIntervalType():
            why = "an interval with a fraction of a microsecond"
        case _:
            why = "an interval with days or a time, not only months"
    return SchemaMismatchError(f"field {node.path!r} has {why}")
