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
from hdfsstore.checkpoint.irregular import kept_value_type
from hdfsstore.checkpoint.operators import Store
from hdfsstore.codecs.records import RecordFormat, Window, read_windows
from hdfsstore.codecs.types import CalendarIntervalType, StructType
from hdfsstore.codecs.unsafe_row import RowCodec

from .test_real_checkpoints import CASES


def hdfs_cases() -> list[Path]:
    return [case for case in CASES if Checkpoint(case / "checkpoint").batches[0].conf[PROVIDER] == HDFS_PROVIDER]


def windows(checkpoint: Checkpoint, store: Store) -> Iterator[Window]:
    conf = checkpoint.batches[-1].conf
    file_format = RecordFormat(compression_codec(conf), row_checksum(conf))
    for partition in store.partition_ids:
        for path in sorted(Path(store.partition_path(partition)).glob("[0-9]*.*")):
            kind = path.suffix[1:]
            if kind in ("delta", "snapshot"):
                yield from read_windows(io.BytesIO(path.read_bytes()), file_format, kind, str(path))  # type: ignore


def rows(struct_type: StructType, window: Window, spans: pa.Buffer) -> list[bytes | None]:
    """The rows as they stand in the file, but for the space of null calendar intervals, which Spark leaves as it is."""
    numbers = array.array("i", spans.to_pybytes())
    return [
        None if size < 0 else with_null_intervals_cleared(struct_type, bytearray(window.data[at : at + size]))
        for at, size in zip(numbers[::2], numbers[1::2], strict=True)
    ]


def with_null_intervals_cleared(struct_type: StructType, row: bytearray) -> bytes:
    nulls = (len(struct_type.fields) + 63) // 64 * 8
    for i, field in enumerate(struct_type.fields):
        size, at = struct.unpack_from("<II", row, nulls + 8 * i)
        null = row[i // 8] >> (i % 8) & 1
        if isinstance(field.type, CalendarIntervalType) and null:
            row[at : at + 16] = bytes(16)
        elif isinstance(field.type, StructType) and not null:
            row[at : at + size] = with_null_intervals_cleared(field.type, row[at : at + size])
    return bytes(row)


def encoded_again(struct_type: StructType, window: Window, spans: pa.Buffer) -> list[bytes | None]:
    codec = RowCodec(struct_type)
    decoded = codec.decode(window.data, spans)
    decoded.validate(full=True)
    again: list[bytes | None] = codec.encode(decoded).to_pylist()
    return again


@pytest.mark.parametrize("case", hdfs_cases(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_rows_are_equal_to_the_byte(case: Path) -> None:
    checkpoint = Checkpoint(case / "checkpoint")
    conf = checkpoint.batches[-1].conf
    records = 0
    for operator in checkpoint.operators:
        for store in operator.stores:
            key_type = store.key_type
            assert key_type is not None
            assert store.value_type is not None
            value_type = kept_value_type(operator, store, store.value_type, conf, lambda: None)
            for window in windows(checkpoint, store):
                records += len(window)
                assert encoded_again(key_type, window, window.keys) == rows(key_type, window, window.keys)
                assert encoded_again(value_type, window, window.values) == rows(value_type, window, window.values)
    assert records
