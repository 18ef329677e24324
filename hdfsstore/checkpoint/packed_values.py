"""Shows values that msgpack has packed into a binary field as text: JSON.

A field holds such values if its metadata says so, as that of the state of mapWithState without a schema does.

| value              | JSON                                            |
|--------------------|-------------------------------------------------|
| None, bool, int    | null, true, 42                                  |
| float              | 0.5; "NaN", "Infinity", "-Infinity"             |
| str                | a string                                        |
| bytes              | base64                                          |
| datetime           | ISO 8601, in UTC: "2026-03-02T09:00:00.500Z"    |
| list               | an array                                        |
| dict               | an object; an array of [key, value] pairs where |
|                    | a key is no string                              |

Fields of such text have METADATA in Arrow, by which `texts` writes it as JSON and not as a string.
"""

from __future__ import annotations

import base64
import json
from datetime import datetime
from importlib.util import find_spec
from math import isfinite
from typing import Any

import pyarrow as pa

from hdfsstore.codecs.arrow_types import METADATA_KEY
from hdfsstore.conditions.texts import IS_JSON, texts
from hdfsstore.errors import SchemaMismatchError, StateStoreError

# Spark's metadata of a field.
PACKED = {"hdfsstore.encoding": "msgpack"}


def has_msgpack() -> bool:
    """Whether msgpack is installed."""
    return find_spec("msgpack") is not None


def has_packed(schema: pa.Schema) -> bool:
    """Whether there is a field of packed values."""
    return any(map(_has_packed, schema))


def unpacked_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of `unpacked`."""
    return pa.schema([_unpacked_field(field) for field in schema], metadata=schema.metadata)


def unpacked(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with texts in place of packed values. `schema` is its unpacked_schema.

    Raises:
        StateStoreError: msgpack is not installed.
        SchemaMismatchError: a value was not packed by msgpack.
    """
    columns = [_unpacked(column, field) for column, field in zip(batch.columns, batch.schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _is_packed(field: pa.Field) -> bool:
    metadata = (field.metadata or {}).get(METADATA_KEY)
    return metadata is not None and PACKED.items() <= json.loads(metadata).items()


def _has_packed(field: pa.Field) -> bool:
    return _is_packed(field) or (pa.types.is_struct(field.type) and any(map(_has_packed, field.type)))


def _unpacked_field(field: pa.Field) -> pa.Field:
    if _is_packed(field):
        return pa.field(field.name, pa.string(), field.nullable, IS_JSON)
    if pa.types.is_struct(field.type):
        return field.with_type(pa.struct([_unpacked_field(child) for child in field.type]))
    return field


def _unpacked(column: pa.Array, field: pa.Field) -> pa.Array:
    if not _has_packed(field):
        return column
    if _is_packed(field):
        return pa.array(_texts(column.to_pylist(), field.name), pa.string())
    children = [_unpacked(child, below) for child, below in zip(column.flatten(), field.type, strict=True)]
    mask = column.is_null() if column.null_count else None
    return pa.StructArray.from_arrays(children, fields=list(_unpacked_field(field).type), mask=mask)


def _texts(values: list[bytes | None], name: str) -> list[str | None]:
    try:
        import msgpack
    except ImportError as error:
        raise StateStoreError(
            f"the values of the field {name} are packed by msgpack, which is not installed",
            remedy="pip install msgpack, or read their bytes, without decode_values",
        ) from error
    unpack = msgpack.unpackb
    try:
        return [
            None if packed is None else _text(unpack(packed, strict_map_key=False, timestamp=3)) for packed in values
        ]
    except (ValueError, msgpack.UnpackException) as error:
        raise SchemaMismatchError(
            f"a value of the field {name} was not packed by msgpack: {error!r}",
            remedy="Read the bytes, without decode_values",
        ) from error


def _text(value: Any) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    match value:
        case float() if not isfinite(value):
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
        case bytes():
            return base64.b64encode(value).decode()
        case datetime():
            return texts(pa.array([value], pa.timestamp("us", "UTC")))[0]
        case list():
            return [_plain(item) for item in value]
        case dict() if all(isinstance(key, str) for key in value):
            return {key: _plain(item) for key, item in value.items()}
        case dict():
            return [[_plain(key), _plain(item)] for key, item in value.items()]
    return value
