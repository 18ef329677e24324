"""Versions from changelogs, zips and SST files, with what is missing or damaged; Spark's checkpoints are in
tests/unit/checkpoint/test_truth.py."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hdfsstore._cext.sst import Overlay
from hdfsstore.codecs.compression import compress
from hdfsstore.errors import BatchNotAvailableError, CorruptFileError, MissingFileError, UnsupportedVersionError
from hdfsstore.state.base import key_part
from hdfsstore.state.protocols import KeyRange
from hdfsstore.state.rocksdb import archive, partition_reader
from hdfsstore.state.rocksdb.archive import encode
from tests.support.changelogs import DELETE, DELETE_RANGE, MERGE, PUT, TypedRecord
from tests.support.rocksdb_partition import (
    FAMILIES,
    UNNUMBERED,
    Rows,
    cut_sst,
    damage_manifest,
    damage_metadata,
    damage_zip,
    flip_a_block,
    loaded,
    name,
    reader,
    remove_sst,
    rows_of,
    write_changelog,
    write_zip,
)

BASE = {b"a": b"1", b"b": b"2", b"c": b"3", b"d": b"4"}
CHANGES: dict[int, list[TypedRecord]] = {
    2: [(MERGE, b"a", b"x"), (DELETE, b"b", None), (PUT, b"e", b"5")],
    3: [(MERGE, b"a", b"y"), (MERGE, b"b", b"new"), (DELETE_RANGE, b"c", b"e"), (PUT, b"d", b"after")],
}


@pytest.mark.parametrize(("delimiter", "joined"), [(b",", b"1,x,y"), (b"", b"1xy")])
def test_changelogs_lie_over_the_zip(tmp_path: Path, delimiter: bytes, joined: bytes) -> None:
    write_zip(tmp_path, 1, BASE)
    for version, records in CHANGES.items():
        write_changelog(tmp_path, version, records)
    partition = reader(tmp_path, delimiter=delimiter)
    assert loaded(partition, 1) == BASE
    assert loaded(partition, 3) == {b"a": joined, b"b": b"new", b"d": b"after", b"e": b"5"}
    assert loaded(partition, 3, KeyRange(b"b", b"d\0")) == {b"b": b"new", b"d": b"after"}
    assert loaded(partition, 3, KeyRange(end=b"b")) == {b"a": joined}
    assert partition.families(3) == FAMILIES


@pytest.mark.parametrize("count", [-1, 0, 3, 1 << 40])
def test_the_number_of_keys_of_a_zip_is_not_relied_on(tmp_path: Path, count: int) -> None:
    write_zip(tmp_path, 1, BASE)
    path = tmp_path / "1.zip"
    path.write_bytes(encode(archive.decode(path.read_bytes(), "1.zip")._replace(num_keys=count)))
    for version, records in CHANGES.items():
        write_changelog(tmp_path, version, records)
    assert loaded(reader(tmp_path), 1) == BASE
    assert len(loaded(reader(tmp_path), 3)) == 4
    assert reader(tmp_path).families(3) == FAMILIES


def test_changelogs_alone(tmp_path: Path) -> None:
    write_changelog(tmp_path, 1, [(PUT, key, value) for key, value in BASE.items()])
    for version, records in CHANGES.items():
        write_changelog(tmp_path, version, records)
    assert loaded(reader(tmp_path), 3) == {b"a": b"1,x,y", b"b": b"new", b"d": b"after", b"e": b"5"}
    assert loaded(reader(tmp_path), 3, KeyRange(b"b", b"c")) == {b"b": b"new"}
    with pytest.raises(MissingFileError, match=UNNUMBERED):
        reader(tmp_path).families(3)


def test_changelogs_that_do_not_fit_into_the_memory_are_read_in_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(key_part, "LEAST_MEMORY", 1)
    rows = {b"%08d" % i: bytes([i % 251]) * 500 for i in range(8000)}  # several chunks
    ssts = write_zip(tmp_path, 1, rows)
    changes: list[TypedRecord] = [(MERGE, b"%08d" % i, b"more") for i in range(0, 8000, 7)]
    changes += [(DELETE, b"%08d" % i, None) for i in range(0, 8000, 11)]
    changes += [(DELETE_RANGE, b"00002000", b"00002500"), (PUT, b"00002100", b"again")]
    write_changelog(tmp_path, 2, changes)
    write_changelog(tmp_path, 3, [(PUT, b"%08d" % i, b"new") for i in range(0, 8000, 13)])
    expected = loaded(reader(tmp_path), 3)
    limit = 60_000
    sizes: list[int] = []

    class Watched(Overlay):
        def add(self, *args: Any) -> None:
            super().add(*args)
            sizes.append(len(self))

    monkeypatch.setattr(partition_reader, "Overlay", Watched)

    def streamed() -> Rows:
        parts = list(reader(tmp_path).stream(3, rows_of, memory=limit))
        assert sum(map(len, parts)) == len(expected)
        return {key: value for part in parts for key, value in part.items()}

    assert streamed() == expected
    # 2,501 records with some 130 bytes each, so six parts, and a deletion of a range in each.
    assert max(sizes) < 2501 / 6 * 1.5
    assert max(sizes) * 120 < limit * 1.5
    write_zip(tmp_path, 2, loaded(reader(tmp_path), 2))
    damaged = max((tmp_path / "SSTs").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    assert damaged not in ssts
    content = bytearray(damaged.read_bytes())
    content[len(content) * 3 // 4] ^= 1
    damaged.write_bytes(content)
    limit = 20_000
    assert streamed() == expected
    assert any("going on from" in message for message in caplog.messages)


def test_a_folder_without_files_is_empty(tmp_path: Path) -> None:
    assert loaded(reader(tmp_path), 7) == {}


def test_changes_have_the_kinds_of_the_records(tmp_path: Path) -> None:
    for version, records in CHANGES.items():
        write_changelog(tmp_path, version, records)
    found = reader(tmp_path).changes([2, 3], lambda version, chunk: (version, bytes(chunk.kinds or b"")))
    assert found == [(2, bytes([2, 0, 1])), (3, bytes([2, 2, 15, 1]))]


def test_changes_without_a_changelog(tmp_path: Path) -> None:
    write_zip(tmp_path, 1, BASE)
    with pytest.raises(BatchNotAvailableError, match="no changelog of version 1, only a snapshot"):
        reader(tmp_path).changes([1], lambda _, chunk: chunk)


def test_a_lineage_tells_the_files(tmp_path: Path) -> None:
    ids, others = ({version: str(uuid.uuid4()) for version in range(1, 5)} for _ in range(2))
    write_zip(tmp_path, 1, BASE, ids)
    write_zip(tmp_path, 1, {b"other": b"attempt"}, others)
    for version, records in CHANGES.items():
        write_changelog(tmp_path, version, records, ids=ids)
        write_changelog(tmp_path, version, [(PUT, b"other", b"attempt")], ids=others)
    partition = reader(tmp_path, ids)
    assert loaded(partition, 3) == {b"a": b"1,x,y", b"b": b"new", b"d": b"after", b"e": b"5"}
    assert partition.changes([2], lambda version, chunk: (version, len(chunk))) == [(2, 3)]
    with pytest.raises(BatchNotAvailableError, match="no state of version 4"):
        loaded(partition, 4)


DAMAGE = [damage_zip, damage_manifest, damage_metadata, remove_sst, cut_sst, flip_a_block]


@pytest.mark.parametrize("with_ids", [False, True])
@pytest.mark.parametrize("damage", DAMAGE)
def test_an_older_zip_takes_the_place_of_a_damaged_one(
    damage: Any, with_ids: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ids = {version: str(uuid.uuid4()) for version in range(1, 4)} if with_ids else None
    write_zip(tmp_path, 1, BASE, ids)
    for version, records in CHANGES.items():
        write_changelog(tmp_path, version, records, ids=ids)
    expected = loaded(reader(tmp_path, ids), 3)
    ssts = write_zip(tmp_path, 3, expected, ids)
    assert loaded(reader(tmp_path, ids), 3) == expected
    damage(tmp_path / name(3, "zip", ids), ssts)
    with caplog.at_level(logging.WARNING):
        assert loaded(reader(tmp_path, ids), 3) == expected
    assert any("going on from" in message for message in caplog.messages)


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_without_an_older_zip(damage: Any, tmp_path: Path) -> None:
    ssts = write_zip(tmp_path, 5, BASE)
    damage(tmp_path / "5.zip", ssts)
    with pytest.raises(CorruptFileError) as caught:
        loaded(reader(tmp_path), 5)
    assert caught.value.path is not None
    assert caught.value.path.startswith(str(tmp_path))
    assert caught.value.remedy


def test_a_stream_goes_on_behind_the_last_row_before_the_damage(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = {b"%08d" % i: bytes([i % 251]) * 500 for i in range(8000)}  # several chunks
    write_zip(tmp_path, 1, rows)
    write_changelog(tmp_path, 2, [(PUT, b"%08d" % i, b"new") for i in range(0, 8000, 7)])
    expected = loaded(reader(tmp_path), 2)
    ssts = write_zip(tmp_path, 2, expected)
    content = bytearray(ssts[0].read_bytes())
    content[len(content) * 3 // 4] ^= 1
    ssts[0].write_bytes(content)
    parts: Iterator[Rows] = reader(tmp_path).stream(2, rows_of)
    first = next(parts)
    assert not caplog.messages
    got = [first, *parts]
    assert sum(map(len, got)) == len(expected)
    assert {key: value for part in got for key, value in part.items()} == expected
    assert any("going on from" in message for message in caplog.messages)


def test_damage_in_a_changelog_is_passed_over_by_no_snapshot(tmp_path: Path) -> None:
    write_zip(tmp_path, 1, BASE)
    for version, records in CHANGES.items():
        write_changelog(tmp_path, version, records)
    (tmp_path / "2.changelog").write_bytes(compress("lz4", b"\0\2v2\x07"))
    with pytest.raises(CorruptFileError, match="unknown type 0x07") as caught:
        loaded(reader(tmp_path), 3)
    assert (caught.value.path, caught.value.offset) == (str(tmp_path / "2.changelog"), 4)
    (tmp_path / "2.changelog").unlink()
    with pytest.raises(MissingFileError):
        loaded(reader(tmp_path), 3)
    (tmp_path / "2.changelog").write_bytes(compress("lz4", b"\0\2v9\0"))
    with pytest.raises(UnsupportedVersionError, match="v9"):
        loaded(reader(tmp_path), 3)
