"""Converts record batches to UnsafeRows of a store and back, by its key and value schemas."""

from __future__ import annotations

from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from hdfsstore.codecs import types as t
from hdfsstore.codecs.arrow_types import from_arrow_schema
from hdfsstore.codecs.row_plan import plan
from hdfsstore.codecs.unsafe_row import RowCodec
from hdfsstore.errors import SchemaMismatchError, SizeLimitError

BinaryRows: TypeAlias = "pa.BinaryArray | pa.LargeBinaryArray"
_MOST_BYTES = (1 << 31) - 1  # of an array of bytes that is not large
Schema: TypeAlias = "pa.Schema | t.StructType | str"


def struct_type(schema: Schema) -> t.StructType:
    """A key or value schema as the struct that it describes.

    Args:
        schema: pyarrow's, with the types that Spark's toArrow() gives; ours; or Spark's JSON of a struct.

    Raises:
        SchemaMismatchError: the JSON is not that of a struct.
        UnsupportedTypeError: an Arrow type has no counterpart in Spark.
    """
    if isinstance(schema, pa.Schema):
        return from_arrow_schema(schema)
    parsed = schema if isinstance(schema, t.DataType) else t.parse_type(schema)
    if not isinstance(parsed, t.StructType):
        raise SchemaMismatchError(f"a schema of rows is a struct, not {t.to_json(parsed)}")
    return parsed


def prefix_plan(key_type: t.StructType, num_columns: int) -> tuple[int, bytes]:
    """The layout of the first columns of a key in its row.

    Args:
        num_columns: of the prefix, at least 1 and fewer than the key has.

    Returns:
        The number of columns of the key, and for each column of the prefix 0: it lies in its slot; 1: in the row's
        variable part; 2: there too, in 16 bytes that are reserved even where it is null.
    """
    if not 0 < num_columns < len(key_type.fields):
        raise ValueError(f"num_cols_prefix_key is {num_columns}, and the key has {len(key_type.fields)} columns")
    kinds = [child.kind for child in plan(key_type, "").children[:num_columns]]
    return len(key_type.fields), bytes({"s": 1, "D": 2, "i": 2}.get(kind, 0) for kind in kinds)


def binary(rows: Any) -> BinaryRows:
    """Returns the argument. TypeError: it is not an array of bytes."""
    if not isinstance(rows, pa.BinaryArray | pa.LargeBinaryArray):
        raise TypeError(f"a pyarrow (large) binary array is needed, not {getattr(rows, 'type', type(rows).__name__)}")
    return rows


class RecordLimit:
    """Refuses keys and values of more than max_record_bytes, which the store could not load again."""

    def __init__(self, max_record_bytes: int) -> None:
        self._most = max_record_bytes

    def check(self, key: bytes, value: bytes) -> None:
        if len(key) > self._most or len(value) > self._most:
            raise self._too_large(max(len(key), len(value)))

    def check_many(self, rows: BinaryRows) -> None:
        data = rows.buffers()[2]
        if data is not None and data.size > self._most:
            size = pc.max(pc.binary_length(rows)).as_py() or 0
            if size > self._most:
                raise self._too_large(size)

    def _too_large(self, size: int) -> SizeLimitError:
        return SizeLimitError(
            f"a key or value has {size} bytes, and this store can read {self._most} at most",
            remedy="Raise max_record_bytes of the StateStoreConf, in a query the option hdfsstore.maxRecordBytes",
        )


class BatchCodec:
    """Encodes and decodes the rows of one part of the records: the keys or the values.

    Args:
        part: "key" or "value".
        schema: of its rows; None makes every call a SchemaMismatchError.
    """

    def __init__(self, part: str, schema: t.StructType | None) -> None:
        self._part = part
        self._codec = None if schema is None else RowCodec(schema)

    @property
    def arrow_type(self) -> Any:
        """The Arrow struct of a row."""
        return self._known().arrow_type

    def encode(self, batch: pa.RecordBatch) -> BinaryRows:
        """The rows of a batch with the schema's columns. TypeError: it is not a batch, but a table for example."""
        self._known()
        if not isinstance(batch, pa.RecordBatch):
            raise TypeError(f"a pyarrow.RecordBatch of {self._part}s is needed, not {type(batch).__name__}")
        return self.encode_structs(batch.to_struct_array())

    def encode_structs(self, rows: pa.StructArray) -> BinaryRows:
        """The same for structs. Unlike a batch, they may have rows without any column."""
        try:
            return self._known().encode(rows)
        except SchemaMismatchError as error:
            raise self._mismatch(error) from error

    def decode(self, rows: BinaryRows) -> pa.StructArray:
        """The rows as structs; a null stays one."""
        codec = self._known()
        data, spans = spans_of(rows, f"{self._part}s")
        try:
            return codec.decode(data, spans)
        except SchemaMismatchError as error:
            raise self._mismatch(error) from error

    def decode_columns(self, rows: BinaryRows) -> pa.RecordBatch:
        """The rows as a batch of the schema's columns. All columns are null where the row is null."""
        structs = self.decode(rows)
        fields = [field.with_nullable(True) for field in self.arrow_type]
        return pa.RecordBatch.from_arrays(structs.flatten(), schema=pa.schema(fields))

    def _known(self) -> RowCodec:
        if self._codec is None:
            raise SchemaMismatchError(
                f"the {self._part} schema is not known, which rows need",
                remedy=f"Open the provider with {self._part}_schema=pyarrow.schema([...]), or use the calls for bytes",
            )
        return self._codec

    def _mismatch(self, error: SchemaMismatchError) -> SchemaMismatchError:
        return SchemaMismatchError(
            f"the {self._part} schema does not fit: {error.message}",
            remedy=f"Open the provider with the {self._part}_schema that the rows have",
        )


def spans_of(rows: BinaryRows, what: str) -> tuple[pa.Buffer, pa.Buffer]:
    """The bytes of rows, and a pair of int32 for each row: its offset in them, and its size or -1 for a null.

    Raises:
        SizeLimitError: they take 2 GiB or more; the message begins with their number and `what`.
    """
    if pa.types.is_large_binary(rows.type):
        if (pc.sum(pc.binary_length(rows)).as_py() or 0) > _MOST_BYTES:
            raise SizeLimitError(f"{len(rows)} {what} take 2 GiB or more", remedy="Ask for fewer rows at a time")
        rows = pa.concat_arrays([rows]).cast(pa.binary())  # drops the bytes before a slice
    sizes = pc.fill_null(pc.binary_length(rows), -1).cast(pa.int64())
    _, offsets, data = rows.buffers()
    if offsets is None:  # of an empty array
        return pa.py_buffer(b""), pa.py_buffer(b"")
    starts = pa.Array.from_buffers(pa.int32(), len(rows), [None, offsets], offset=rows.offset).cast(pa.int64())
    pairs = pc.bit_wise_or(pc.shift_left(sizes, 32), starts)  # on a little-endian machine
    return data or pa.py_buffer(b""), pairs.buffers()[1]
