"""What is read from Spark's logs, metadata and schema files is written again byte for byte as Spark wrote it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hdfsstore.checkpoint.commit_log import encode_commit_log, read_commit_log
from hdfsstore.checkpoint.offset_log import OffsetLogEntry, encode_offset_log, read_offset_log
from hdfsstore.checkpoint.operator_metadata import (
    OperatorMetadata,
    OperatorMetadataFiles,
    StoreMetadata,
    encode_operator_metadata,
    read_operator_metadata,
)
from hdfsstore.checkpoint.query_metadata import encode_query_metadata, read_query_id
from hdfsstore.checkpoint.state_schema import ColumnFamily, encode_state_schema, parse_state_schema
from hdfsstore.codecs.spark_json import dump_json
from hdfsstore.codecs.types import LongType, StringType, StructField, StructType
from hdfsstore.fs.local_files import LocalFileManager
from tests.support.truth import cases
from tests.unit.checkpoint.build import put

LOCAL = LocalFileManager()
CASES = cases()


def offsets_again(path: Path) -> bytes:
    return encode_offset_log(read_offset_log(LOCAL, str(path)))


def commit_again(path: Path) -> bytes:
    return encode_commit_log(read_commit_log(LOCAL, str(path)))


def query_again(path: Path) -> bytes:
    return encode_query_metadata(read_query_id(LOCAL, str(path)))


def operator_again(path: Path) -> bytes:
    folder, batch = (path.parents[2], int(path.name)) if path.parent.name == "v2" else (path.parents[1], None)
    metadata = OperatorMetadataFiles(LOCAL, str(folder)).at(batch)
    assert metadata is not None
    found = re.search(r'"(file:[^"]*)/_stateSchema/', path.read_text())
    return encode_operator_metadata(int(folder.name), metadata, found[1] if found else "")


def schema_again(path: Path) -> bytes:
    content = path.read_bytes()
    return encode_state_schema(parse_state_schema(content, str(path)), version=int(content[3:4]))


@pytest.mark.parametrize(
    ("names", "again", "at_least"),
    [
        ("metadata", query_again, 110),
        ("offsets/*", offsets_again, 440),
        ("commits/*", commit_again, 430),
        ("state/*/_metadata/**/*", operator_again, 90),
        ("state/*/0/**/_metadata/schema", schema_again, 140),
        ("state/*/_stateSchema/*/*", schema_again, 4),
    ],
)
def test_the_bytes_are_sparks(names: str, again: Callable[[Path], bytes], at_least: int) -> None:
    paths = [path for case in CASES for path in case.checkpoint.glob(names) if path.is_file() and path.name[0] != "."]
    assert len(paths) >= at_least
    for path in paths:
        assert again(path) == path.read_bytes(), path


def test_control_characters_have_upper_case_escapes() -> None:
    """As Jackson writes them; what looks like one after a backslash of the text itself stays as it is."""
    assert dump_json({"a\x1f\n": '\\u001f\x0b"é😀\u2028\x7f'}) == '{"a\\u001F\\n":"\\\\u001f\\u000B\\"é😀\u2028\x7f"}'


def test_offsets_with_a_source_that_has_none(tmp_path: Path) -> None:
    entry = OffsetLogEntry(1, 5, 9, {"a": "b"}, ['{"logOffset":2}', None], ["0", "1"], {}, {})
    assert encode_offset_log(entry) == (
        b'v1\n{"batchWatermarkMs":5,"batchTimestampMs":9,"conf":{"a":"b"}}\n{"logOffset":2}\n-'
    )
    assert read_offset_log(LOCAL, str(put(tmp_path / "3", encode_offset_log(entry)))) == entry


def test_offsets_of_a_control_batch(tmp_path: Path) -> None:
    entry = OffsetLogEntry(2, 5, 9, {}, [None], ["clicks"], {"clicks": {"sourceId": "clicks"}}, {"operationType": "x"})
    assert read_offset_log(LOCAL, str(put(tmp_path / "3", encode_offset_log(entry)))) == entry


def test_operator_metadata_of_version_1(tmp_path: Path) -> None:
    metadata = OperatorMetadata("stateStoreSave", [StoreMetadata("default", 5, 1, [])], {})
    put(tmp_path / "_metadata/metadata", encode_operator_metadata(3, metadata, "file:/cp/state/3"))
    assert read_operator_metadata(LOCAL, str(tmp_path)) == metadata


# One of the names is longer than a piece, one has a pair of surrogates where Spark's pieces are cut, and the
# last have more bytes than Spark can write.
@pytest.mark.parametrize("name", ["x" * 70_000, "é" * 3, "a\0b", "x" * 65_470 + "😀" * 40, "é" * 40_000, "😀" * 40_000])
@pytest.mark.parametrize("version", [2, 3])
def test_schemas_of_any_length_and_character(name: str, version: int) -> None:
    key = StructType((StructField(name, StringType()),))
    family = ColumnFamily("default", key, StructType((StructField("n", LongType(), False),)), {})
    assert parse_state_schema(encode_state_schema([family], version), "f") == [family]


@pytest.mark.parametrize(
    ("text", "pieces"), [("x" * 65_000, 1), ("x" * 66_000, 2), ("é" * 32_000, 1), ("é" * 33_000, 2)]
)
def test_schemas_in_as_many_pieces_as_spark_writes_or_as_fit(text: str, pieces: int) -> None:
    struct = StructType((StructField(text, StringType()),))
    encoded = encode_state_schema([ColumnFamily("default", struct, struct, {})], 2)
    assert encoded[4:8] == pieces.to_bytes(4, "big")


def test_schema_with_user_keys_and_ids() -> None:
    struct = StructType((StructField("k", StringType()),))
    families = [
        ColumnFamily("a\0😀", struct, struct, {"keyStateEncoderType": "x", "numColsPrefixKey": 1}, struct, 1, 2),
        ColumnFamily("default", struct, struct, {}),
    ]
    assert parse_state_schema(encode_state_schema(families, 3), "f") == families
