"""Every key and value in the state files that real Sparks left behind, decoded and encoded again."""

from __future__ import annotations

import array
import io
import struct
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from hdfsstore import Checkpoint
from hdfsstore.checkpoint.conf import HDFS_PROVIDER, PROVIDER, compression_codec, row_checksum
from hdfsstore.checkpoint.operators import Operator, Store
from hdfsstore.checkpoint.spark_quirks import stored_value_type
from hdfsstore.codecs.records import RecordChunk, RecordFormat, read_chunks
from hdfsstore.codecs.types import CalendarIntervalType, StringType, StructType, parse_type
from hdfsstore.codecs.unsafe_row import RowCodec
from tests.unit.checkpoint.real_checkpoints import CASES, truth


def hdfs_cases() -> list[Path]:
    confs = {case: Checkpoint(case / "checkpoint").batches[0].conf for case in CASES}
    return [case for case, conf in confs.items() if conf.get(PROVIDER, HDFS_PROVIDER) == HDFS_PROVIDER]


def chunks(checkpoint: Checkpoint, store: Store) -> Iterator[RecordChunk]:
    conf = checkpoint.batches[-1].conf
    file_format = RecordFormat(compression_codec(conf), row_checksum(conf))
    for partition in store.partition_ids:
        for path in sorted(Path(store.partition_path(partition)).glob("[0-9]*.*")):
            kind = path.suffix[1:]
            if kind in ("delta", "snapshot"):
                yield from read_chunks(io.BytesIO(path.read_bytes()), file_format, kind, str(path))  # type: ignore


def rows(struct_type: StructType, chunk: RecordChunk, spans: pa.Buffer) -> list[bytes | None]:
    """The rows as they stand in the file, but for what is no part of a value and nothing tells in Arrow."""
    numbers = array.array("i", spans.to_pybytes())
    return [
        None if size < 0 else tidied(struct_type, bytearray(chunk.data[at : at + size]))
        for at, size in zip(numbers[::2], numbers[1::2], strict=True)
    ]


def tidied(struct_type: StructType, row: bytearray) -> bytes:
    """Without the stray bytes after a row and the offsets of null strings (Spark 2.1), and with zeros in the space of
    null calendar intervals (every Spark leaves there what was in its buffer)."""
    nulls = (len(struct_type.fields) + 63) // 64 * 8
    for i, field in enumerate(struct_type.fields):
        slot = nulls + 8 * i
        size, at = struct.unpack_from("<II", row, slot)
        null = row[i // 8] >> (i % 8) & 1
        if null and isinstance(field.type, CalendarIntervalType):
            row[at : at + 16] = bytes(16)
        elif null and isinstance(field.type, StringType):
            row[slot : slot + 8] = bytes(8)
        elif isinstance(field.type, StructType) and not null:
            row[at : at + size] = tidied(field.type, row[at : at + size])
    return bytes(row[: len(row) // 8 * 8])


def encoded_again(struct_type: StructType, chunk: RecordChunk, spans: pa.Buffer) -> list[bytes | None]:
    codec = RowCodec(struct_type)
    decoded = codec.decode(chunk.data, spans)
    decoded.validate(full=True)
    again: list[bytes | None] = codec.encode(decoded).to_pylist()
    return again


def types_of(case: Path, checkpoint: Checkpoint, operator: Operator, store: Store) -> tuple[StructType, StructType]:
    """The types that a store keeps; where it has no schema file (Spark 2) those that Spark 4.3 was given to read it."""
    conf = checkpoint.batches[-1].conf
    if store.key_type is None or store.value_type is None:
        (read, *_) = (r for r in truth(case)["reads"] if r["store_name"] == store.name)
        key_type, value_type = parse_type(read["key_schema"]), parse_type(read["value_schema"])
        assert isinstance(key_type, StructType)
        assert isinstance(value_type, StructType)
        return key_type, value_type
    first = next(chunks(checkpoint, store), None)
    return store.key_type, stored_value_type(operator, store, store.value_type, conf, lambda: first)


@pytest.mark.parametrize("case", hdfs_cases(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_rows_are_equal_to_the_byte(case: Path) -> None:
    checkpoint = Checkpoint(case / "checkpoint")
    records = 0
    for operator in checkpoint.operators:
        for store in operator.stores:
            key_type, value_type = types_of(case, checkpoint, operator, store)
            for chunk in chunks(checkpoint, store):
                records += len(chunk)
                assert encoded_again(key_type, chunk, chunk.keys) == rows(key_type, chunk, chunk.keys)
                assert encoded_again(value_type, chunk, chunk.values) == rows(value_type, chunk, chunk.values)
    assert records
