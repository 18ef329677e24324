"""Logs beside the MANIFEST: those of Spark have no changes, or records without any."""

from __future__ import annotations

import struct

import pytest

from hdfsstore._cext.crc32c import crc32c
from hdfsstore.errors import CorruptFileError, UnsupportedProviderError
from hdfsstore.state.rocksdb.archive import decode
from hdfsstore.state.rocksdb.manifest import live_files
from tests.support.truth import DATA

ZIP = next((DATA / "spark-4.0.0/transform_with_state/checkpoint/state/0/0").glob("1.zip"))
FILES = decode(ZIP.read_bytes(), "1.zip").files
OF_SPARK_3_2 = bytes.fromhex("0fa926660c0001030000000000000000000000")


def log_of(batch: bytes) -> bytes:
    crc = crc32c(b"\1" + batch)
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    return struct.pack("<IHB", masked, len(batch), 1) + batch


def test_records_without_updates_are_passed_over() -> None:
    assert log_of(struct.pack("<QI", 3, 0)) == OF_SPARK_3_2
    expected = live_files(FILES, "1.zip")
    for content in (b"", OF_SPARK_3_2, OF_SPARK_3_2 * 3):
        assert live_files({**FILES, "000042.log": content}, "1.zip") == expected


@pytest.mark.parametrize(
    "batch", [struct.pack("<QI", 3, 1) + b"\1\1k\1v", struct.pack("<QI", 3, 0) + b"\1\1k\1v", b"x"]
)
def test_updates_are_refused(batch: bytes) -> None:
    with pytest.raises(UnsupportedProviderError, match=r"000042.log has changes"):
        live_files({**FILES, "000042.log": OF_SPARK_3_2 + log_of(batch)}, "1.zip")


@pytest.mark.parametrize("place", range(len(OF_SPARK_3_2)))
def test_damage(place: int) -> None:
    content = bytearray(OF_SPARK_3_2)
    content[place] ^= 1
    with pytest.raises(CorruptFileError):
        live_files({**FILES, "000042.log": bytes(content)}, "1.zip")
