"""Decodes the records of a store into Arrow: a key struct, a value struct, and the partition's number."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from typing import Any, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa
import pyarrow.compute as pc

from hdfsstore.codecs.records import RecordChunk
from hdfsstore.codecs.types import StructType
from hdfsstore.codecs.unsafe_row import RowCodec
from hdfsstore.errors import SchemaMismatchError, StateStoreError

# A key as its fields by name, or as an array with this one row, whose fields count by their places.
Key: TypeAlias = "Mapping[str, Any] | pa.StructArray"
# The change types of records.
UPDATE, DELETE, APPEND, DELETE_RANGE = "update", "delete", "append", "delete_range"

Convert = Callable[[RecordChunk], pa.RecordBatch]


class Converter(Protocol):
    """Turns the chunks of each partition into record batches of one schema.

    Attributes:
        schema: of the rows.
        joins_rows: whether `finish` joins rows of several batches.
    """

    schema: pa.Schema
    joins_rows: bool

    def of_partition(self, partition_id: int) -> Convert:
        """Converts the chunks of one partition."""

    def finish(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """What becomes of the batches of one partition, in their order."""


class KeyCodec(Protocol):
    """Converts the keys of a store."""

    def decode(self, data: pa.Buffer, spans: pa.Buffer, /) -> pa.StructArray:
        """Keys in `data` as structs; `spans` as in a RecordChunk."""

    def encode(self, keys: pa.StructArray, /) -> pa.BinaryArray | pa.LargeBinaryArray:
        """The bytes of keys in a chunk."""


class ValueCodec(Protocol):
    """Converts the values of a store."""

    def decode(self, data: pa.Buffer, keys: pa.Buffer, spans: pa.Buffer, /) -> pa.StructArray:
        """Values in `data` as structs; `keys` and `spans` as in a RecordChunk."""


@runtime_checkable
class Narrows(Protocol):
    """Codecs that can leave out fields."""

    def only(self, fields: Collection[int], /) -> Any:
        """The same codec, which decodes only the fields at these places: all others are null."""


class PlainValues:
    """Values that are rows."""

    def __init__(self, value_type: StructType) -> None:
        self._rows = RowCodec(value_type)

    def only(self, fields: Collection[int]) -> PlainValues:
        """As the protocol says."""
        narrow = copy(self)
        narrow._rows = self._rows.only(fields)
        return narrow

    def decode(self, data: pa.Buffer, _keys: pa.Buffer, spans: pa.Buffer, /) -> pa.StructArray:
        """As the protocol says."""
        return self._rows.decode(data, spans)


class RowConverter:
    """Turns chunks of records into record batches of (key, value, partition_id).

    Args:
        key_type, value_type: of the store.
        codecs: of keys and values; None: they are rows.
        lists: whether the codec gives lists of values.
    """

    joins_rows = False

    def __init__(
        self,
        key_type: StructType,
        value_type: StructType,
        codecs: tuple[KeyCodec, ValueCodec] | None = None,
        *,
        lists: bool = False,
    ) -> None:
        self.key_type = key_type
        self.value_type = value_type
        self.key_arrow_type = RowCodec(key_type).arrow_type
        self.value_arrow_type = RowCodec(value_type).arrow_type
        self.keys, self._values = codecs or (RowCodec(key_type), PlainValues(value_type))
        self._needs: Collection[str] = ("key", "value")
        value_field = pa.field("value", self.value_arrow_type)
        if lists:
            value_field = pa.field("value", pa.list_(value_field.with_name("element")))
        self.schema = pa.schema(
            [
                pa.field("key", self.key_arrow_type),
                value_field,
                pa.field("partition_id", pa.int32()),
            ]
        )

    def only(self, needed: Mapping[str, Collection[int] | None]) -> RowConverter:
        """The same converter, which leaves null what is not needed, as far as the codecs can.

        Args:
            needed: the columns, and of each the places of its fields that are needed; None = all of them.
        """
        narrow = copy(self)
        narrow._needs = needed
        key_fields, value_fields = needed.get("key"), needed.get("value")
        if key_fields is not None and isinstance(self.keys, Narrows):
            narrow.keys = self.keys.only(key_fields)
        if value_fields is not None and isinstance(self._values, Narrows):
            narrow._values = self._values.only(value_fields)
        return narrow

    def of_partition(self, partition_id: int) -> Convert:
        """Converts the chunks of one partition."""
        ids = PartitionIds(partition_id)

        def convert(chunk: RecordChunk) -> pa.RecordBatch:
            keys, values = self.decode(chunk)
            return pa.RecordBatch.from_arrays([keys, values, ids.array(len(chunk))], schema=self.schema)

        return convert

    def finish(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """The batches as they are."""
        return batches

    def changes(self, chunk: RecordChunk, types: pa.StringArray) -> tuple[pa.StringArray, list[pa.Array]]:
        """The change types and the columns of a delta's records."""
        return types, list(self.decode(chunk))

    def stored_key(self, key: Key) -> bytes:
        """The bytes of a key in a chunk. Raises SchemaMismatchError where it is no key of the store."""
        (stored,) = self.keys.encode(key_array(key, self.key_arrow_type)).to_pylist()
        return bytes(stored)

    def decode(self, chunk: RecordChunk) -> tuple[pa.StructArray, Any]:
        """Keys and values of a chunk; a tombstone's value is null."""
        data = pa.py_buffer(chunk.data)
        if "key" in self._needs:
            keys = _decode("key", chunk, chunk.keys, lambda: self.keys.decode(data, chunk.keys))
        else:
            keys = pa.nulls(len(chunk), self.schema.field("key").type)
        if "value" in self._needs:
            values = _decode("value", chunk, chunk.values, lambda: self._values.decode(data, chunk.keys, chunk.values))
        else:
            values = pa.nulls(len(chunk), self.schema.field("value").type)
        return keys, values


def key_array(key: Key, arrow_type: Any) -> pa.StructArray:
    """A key as an array of one struct of that type. Raises SchemaMismatchError where it is none."""
    fields = list(arrow_type)
    try:
        if isinstance(key, Mapping):
            if set(key) != {field.name for field in fields}:
                raise ValueError("other fields")
            columns = [pa.array([key[field.name]], field.type) for field in fields]
        else:
            if len(key) != 1:
                raise ValueError(f"{len(key)} rows")
            columns = [column.cast(field.type) for column, field in zip(key.flatten(), fields, strict=True)]
        return pa.StructArray.from_arrays(columns, fields=fields)
    except (ValueError, TypeError, pa.ArrowException) as error:
        raise SchemaMismatchError(
            f"{key!r} is no key of the store: {error}", remedy=f"Its keys are {arrow_type}"
        ) from error


class OneKey:
    """Keeps the row of one key.

    Args:
        rows: converts the chunks of the store.
        stored: the key, by `rows.stored_key`.
    """

    joins_rows = False

    def __init__(self, rows: RowConverter, stored: bytes) -> None:
        self.schema = rows.schema
        self._rows = rows
        self._stored = stored

    def finish(self, batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        """The batches as they are."""
        return batches

    def of_partition(self, partition_id: int) -> Convert:
        """Converts the chunks of one partition."""
        convert = self._rows.of_partition(partition_id)

        def convert_and_keep(chunk: RecordChunk) -> pa.RecordBatch:
            rows = convert(chunk)
            stored = self._rows.keys.encode(rows.column(0))
            return rows.filter(pc.equal(stored, pa.scalar(self._stored, stored.type)))

        return convert_and_keep


def _decode(part: str, chunk: RecordChunk, spans: pa.Buffer, decode: Callable[[], pa.StructArray]) -> pa.StructArray:
    try:
        return decode()
    except SchemaMismatchError as error:
        error = SchemaMismatchError(
            f"the {part} schema does not fit: {error.message} ({describe_rows(spans)})",
            offset=error.offset,
            remedy=f"If the schema is wrong, give the right one: {part}_schema=pyarrow.schema([...])",
        )
        raise chunk.locate(error) from None
    except StateStoreError as error:
        raise chunk.locate(error) from None


def describe_rows(spans: pa.Buffer) -> str:
    """Guesses the number of fields from the sizes of rows: 8 bytes of null bits for each 64 fields, 8 bytes a field."""
    sizes = [size & ~7 for size in memoryview(spans).cast("i").tolist()[1::2] if size >= 0]
    if not sizes:
        return "no rows"
    low, high = min(sizes), max(sizes)
    most = next(n for n in range(low // 8, -1, -1) if 8 * ((n + 63) // 64) + 8 * n <= low)
    if low < high:
        return f"{len(sizes)} rows of {low} to {high} bytes: at most {most} fields, some of variable length"
    return f"{len(sizes)} rows of {low} bytes: {most} fields if all have a fixed width, else fewer"


class PartitionIds:
    """The number of a partition as arrays of int32 of any length, which share memory.

    They are made of bytes: before it takes its first value of Python, Arrow imports pandas if it is there, which takes
    longer than to read a million rows.
    """

    def __init__(self, partition_id: int) -> None:
        self._bytes = partition_id.to_bytes(4, sys.byteorder)
        self._array = self._repeated(0)

    def array(self, length: int) -> pa.Int32Array:
        """The number, `length` times."""
        if length > len(self._array):
            self._array = self._repeated(max(length, 2 * len(self._array)))
        return self._array.slice(0, length)

    def _repeated(self, length: int) -> pa.Int32Array:
        return pa.Array.from_buffers(pa.int32(), length, [None, pa.py_buffer(self._bytes * length)])
