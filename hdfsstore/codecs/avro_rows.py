"""Converts rows that Spark has encoded with Avro to Arrow and back (AvroStateEncoder, SchemaConverters of Spark).

    row              int16 LE schema id | Avro's binary encoding of the row
    row of a prefix  the encoding alone

Each field of a struct, and each struct, array and map in an array or map, is a union of null and its type, in this
order. Other elements, and the values of maps, have no place for null. Times and dates are numbers, decimals are fixed.
A map is read as an array of structs of key and value, which has the same bytes.
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from hdfsstore._cext.rocksdb_rows import strip
from hdfsstore.codecs import types as t
from hdfsstore.codecs.arrow_types import to_arrow_type
from hdfsstore.errors import CorruptFileError, SchemaMismatchError, StateStoreError, UnsupportedTypeError

_PRIMITIVES: dict[type[t.DataType], str] = {
    t.NullType: "null",
    t.BooleanType: "boolean",
    t.ByteType: "int",
    t.ShortType: "int",
    t.IntegerType: "int",
    t.DateType: "int",
    t.LongType: "long",
    t.TimestampType: "long",
    t.TimestampNTZType: "long",
    t.FloatType: "float",
    t.DoubleType: "double",
    t.StringType: "string",
    t.BinaryType: "bytes",
}
_NUMBERS: dict[type[t.DataType], t.DataType] = {
    t.DateType: t.IntegerType(),
    t.TimestampType: t.LongType(),
    t.TimestampNTZType: t.LongType(),
}


class AvroRows:
    """Decodes and encodes the rows of one schema. It has no state, so threads may share it.

    Args:
        struct_type: of the rows in Arrow.
        schema_id: of this type; None: rows are prefixes, and have no id.
        older: schema id -> the type of rows that were written with it.

    Raises:
        UnsupportedTypeError: Spark encodes no such type with Avro.
        StateStoreError: fastavro is missing.
    """

    def __init__(
        self,
        struct_type: t.StructType,
        schema_id: int | None = None,
        older: Mapping[int, t.StructType] = MappingProxyType({}),
    ) -> None:
        self._fastavro = module = _fastavro()
        self.arrow_type: Any = to_arrow_type(struct_type)
        self._numbers = to_arrow_type(_as_numbers(struct_type))
        self._schema_id = schema_id
        self._schema = module.parse_schema(_record(struct_type, "row"))
        self._writers = {
            number: module.parse_schema(_record(type_, "row")) for number, type_ in older.items() if number != schema_id
        }

    def decode(self, data: pa.Buffer, spans: pa.Buffer, prefix: bytes = b"") -> pa.StructArray:
        """Rows to Arrow.

        Args:
            spans: one (offset, size) pair of int32 for each row, which lies in the data; size -1 is a null row.
            prefix: the bytes in front of each row, which are part of its span.

        Raises:
            CorruptFileError, SchemaMismatchError: a row does not fit its schema; `offset` counts in the data.
        """
        if prefix:
            spans = strip(data, spans, prefix)
        pairs = pa.Array.from_buffers(pa.int32(), spans.size // 4, [None, spans]).to_pylist()
        view = memoryview(data)
        rows = [
            None if size < 0 else self._row(view[offset : offset + size], offset)
            for offset, size in zip(pairs[::2], pairs[1::2], strict=True)
        ]
        try:
            return pa.array(rows, self.arrow_type)
        except (pa.ArrowException, OverflowError) as error:
            raise CorruptFileError("a number in a row in Avro is too large for its type", offset=pairs[0]) from error

    def encode(self, rows: pa.StructArray) -> pa.BinaryArray:
        """Rows that are not null, of `arrow_type`, to Avro."""
        start = b"" if self._schema_id is None else self._schema_id.to_bytes(2, "little", signed=True)
        encoded = []
        for row in rows.cast(self._numbers).to_pylist():
            out = io.BytesIO(start)
            out.seek(len(start))
            self._fastavro.schemaless_writer(out, self._schema, row)
            encoded.append(out.getvalue())
        return pa.array(encoded, pa.binary())

    def _row(self, row: memoryview, offset: int) -> Any:
        writer, reader = self._schema, None
        if self._schema_id is not None:
            if len(row) < 2:
                raise CorruptFileError("a row in Avro ends before its schema id", offset=offset)
            schema_id = int.from_bytes(row[:2], "little", signed=True)
            row = row[2:]
            if schema_id != self._schema_id:
                writer, reader = self._writer(schema_id, offset), self._schema
        source = io.BytesIO(row)
        try:
            decoded = self._fastavro.schemaless_reader(source, writer, reader)
        except self._fastavro.read.SchemaResolutionError as error:
            raise SchemaMismatchError(f"a row in Avro does not fit the newer schema: {error}", offset=offset) from error
        except (EOFError, ValueError, IndexError, OverflowError, ArithmeticError) as error:
            raise CorruptFileError(f"a row in Avro is damaged: {error}", offset=offset) from error
        if source.tell() != len(row):
            raise CorruptFileError(f"a row in Avro has {len(row)} bytes, but ends after {source.tell()}", offset=offset)
        return decoded

    def _writer(self, schema_id: int, offset: int) -> Any:
        try:
            return self._writers[schema_id]
        except KeyError:
            known = ", ".join(map(str, sorted({self._schema_id, *self._writers})))  # type: ignore[type-var]
            raise CorruptFileError(
                f"a row in Avro has schema id {schema_id}, and the schema files have {known}",
                offset=offset,
                remedy="Restore the schema file of that id, which is in _stateSchema/ with those that are there",
            ) from None


def _fastavro() -> Any:
    try:
        importlib.import_module("fastavro.read")
        return importlib.import_module("fastavro")
    except ImportError as error:
        raise StateStoreError(
            f"state in Avro needs the package fastavro, which cannot be imported: {error}",
            remedy="Install it: pip install 'hdfsstore[avro]'",
        ) from error


def _record(struct_type: t.StructType, path: str) -> dict[str, Any]:
    fields = [
        {"name": field.name, "type": _or_null(_schema(field.type, f"{path}.{field.name}")), "default": None}
        for field in struct_type.fields
    ]
    return {"type": "record", "name": path, "fields": fields}


def _schema(type_: t.DataType, path: str) -> Any:
    """Avro's schema of a type that is no element; the path names it, as each name may be defined once."""
    match type_:
        case t.StructType():
            return _record(type_, path)
        case t.ArrayType(element):
            return {"type": "array", "items": _item(element, path)}
        case t.MapType(t.StringType(), value):
            entry = [{"name": "key", "type": "string"}, {"name": "value", "type": _item(value, f"{path}.value")}]
            return {"type": "array", "items": {"type": "record", "name": path, "fields": entry}}
        case t.DecimalType(precision, scale):
            size = next(size for size in range(1, 17) if 2 ** (8 * size - 1) >= 10**precision)
            decimal = {"logicalType": "decimal", "precision": precision, "scale": scale}
            return {"type": "fixed", "name": path, "size": size, **decimal}
    try:
        return _PRIMITIVES[type(type_)]
    except KeyError:
        raise UnsupportedTypeError(f"Spark encodes no {type_} with Avro, which {path!r} is") from None


def _item(type_: t.DataType, path: str) -> Any:
    if isinstance(type_, t.NullType) or (isinstance(type_, t.StructType) and not type_.fields):
        # So many elements as a damaged count says would fit into no bytes.
        raise UnsupportedTypeError(f"the elements of {path!r} in Avro have no bytes")
    schema = _schema(type_, f"{path}.element")
    return _or_null(schema) if isinstance(type_, (t.StructType, t.ArrayType, t.MapType)) else schema


def _or_null(schema: Any) -> Any:
    return schema if schema == "null" else ["null", schema]


def _as_numbers(struct_type: t.StructType) -> t.StructType:
    """The type with numbers for dates and times, as Avro has them."""

    def plain(type_: t.DataType) -> t.DataType:
        match type_:
            case t.StructType():
                return _as_numbers(type_)
            case t.ArrayType(element, contains_null):
                return t.ArrayType(plain(element), contains_null)
        return _NUMBERS.get(type(type_), type_)

    return t.StructType(tuple(t.StructField(f.name, plain(f.type), f.nullable, f.metadata) for f in struct_type.fields))
