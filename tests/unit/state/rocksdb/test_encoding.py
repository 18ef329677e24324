"""Keys and values as RocksDB has them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from hdfsstore.codecs.types import LongType, StringType, StructField, StructType
from hdfsstore.codecs.unsafe_row import RowCodec
from hdfsstore.errors import CorruptFileError, StateStoreError, UnsupportedVersionError
from hdfsstore.state.rocksdb.encoding import RowEncoding, row_of, stored, value

WORD, NUMBER = StructField("word", StringType()), StructField("number", LongType())
KEY = StructType((WORD, NUMBER))


def rows(struct: StructType, values: list[tuple[object, ...]]) -> pa.BinaryArray:
    codec = RowCodec(struct)
    names = [field.name for field in struct.fields]
    structs = [dict(zip(names, row, strict=True)) for row in values]
    return codec.encode(pa.array(structs, codec.arrow_type))


def test_a_row_has_its_encodings_version_before_it() -> None:
    encoding = RowEncoding(None)
    assert encoding.key(b"row") == value(b"row") == b"\0row"
    assert encoding.keys(pa.array([b"row", b""])) == stored(pa.array([b"row", b""])) == [b"\0row", b"\0"]
    assert encoding.rows([b"\0row", b"\0"]) == [b"row", b""]


def test_a_prefix_is_a_row_of_its_own() -> None:
    encoding = RowEncoding(KEY, 1)
    keys = rows(KEY, [("a", 1), (None, None), ("ä" * 9, 2)])
    prefixes = rows(StructType((WORD,)), [("a",), (None,), ("ä" * 9,)]).to_pylist()
    rests = rows(StructType((NUMBER,)), [(1,), (None,), (2,)]).to_pylist()
    expected = [
        (len(prefix) + 1).to_bytes(4, "little") + b"\0" + prefix + b"\0" + rest
        for prefix, rest in zip(prefixes, rests, strict=True)
    ]
    assert encoding.keys(keys) == [encoding.key(key.as_py()) for key in keys] == expected
    assert encoding.rows(expected) == keys.to_pylist()
    for prefix, key in zip(prefixes, expected, strict=True):
        assert key.startswith(encoding.prefix(prefix))
    assert not expected[1].startswith(encoding.prefix(prefixes[0]))


def test_no_keys_at_all() -> None:
    encoding = RowEncoding(KEY, 1)
    assert encoding.keys(pa.array([], pa.binary())) == encoding.rows([]) == []


@pytest.mark.parametrize("columns", [0, 1])
def test_nulls_are_refused(columns: int) -> None:
    with pytest.raises(ValueError, match="null"):
        RowEncoding(KEY, columns).keys(pa.array([b"\0" * 24, None]))


def test_other_encodings_are_refused() -> None:
    with pytest.raises(UnsupportedVersionError, match="version 1"):
        row_of(b"\1row")
    with pytest.raises(CorruptFileError):
        row_of(b"")


@pytest.mark.parametrize("key", [b"", b"\0\0\0", b"\0\0\0\0\0row", b"\x40\0\0\0\0row", b"\xff\xff\xff\xff\0row"])
def test_a_prefix_that_cannot_be_is_refused(key: bytes) -> None:
    with pytest.raises(CorruptFileError, match="num_cols_prefix_key"):
        RowEncoding(KEY, 1).rows([key])


def test_without_columns_there_is_no_prefix() -> None:
    with pytest.raises(StateStoreError, match="prefix"):
        RowEncoding(KEY).prefix(b"row")
