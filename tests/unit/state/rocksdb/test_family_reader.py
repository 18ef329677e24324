"""One column family of a partition: its number comes from a zip, and a family that is made again has another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hdfsstore.errors import CorruptFileError, MissingFileError
from hdfsstore.state.protocols import ALL_KEYS, KeyRange
from hdfsstore.state.rocksdb import archive
from hdfsstore.state.rocksdb.archive import Archive
from hdfsstore.state.rocksdb.family_reader import FamilyReader
from tests.support.changelogs import DELETE, PUT, TypedRecord
from tests.support.rocksdb_partition import (
    UNNUMBERED,
    Rows,
    damage_manifest,
    damage_zip,
    reader,
    remove_sst,
    rows_of,
    write_changelog,
    write_zip,
)


def of_family(folder: Path, version: int, name: str, keys: KeyRange = ALL_KEYS) -> Rows:
    rows: Rows = {}
    for found in FamilyReader(reader(folder), name).load(version, rows_of, keys):
        rows |= found
    return rows


def changes(folder: Path, versions: list[int], name: str) -> list[tuple[int, Rows]]:
    return FamilyReader(reader(folder), name).changes(versions, lambda version, chunk: (version, rows_of(chunk)))


COUNTS = {b"a": b"1", b"b": b"2"}
STORED = {b"\1\0a": b"other", **{b"\2\0" + key: value for key, value in COUNTS.items()}}


def test_a_family_is_read_by_one_look_at_the_zip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_zip(tmp_path, 1, STORED)
    decoded: list[str] = []
    decode = archive.decode

    def watched(data: bytes, path: str) -> Archive:
        decoded.append(path)
        return decode(data, path)

    monkeypatch.setattr(archive, "decode", watched)
    assert of_family(tmp_path, 1, "counts") == COUNTS
    assert len(decoded) == 1
    assert of_family(tmp_path, 1, "counts", KeyRange(b"b")) == {b"b": b"2"}
    assert of_family(tmp_path, 1, "counts", KeyRange(end=b"b")) == {b"a": b"1"}
    assert of_family(tmp_path, 1, "default") == {b"a": b"other"}
    assert of_family(tmp_path, 1, "no such family") == {}


def test_a_family_that_an_older_zip_does_not_name_is_found_by_the_newest_one(tmp_path: Path) -> None:
    write_zip(tmp_path, 1, {b"\1\0a": b"other"}, families={"default": 1})
    write_changelog(tmp_path, 2, [(PUT, b"\2\0" + key, value) for key, value in COUNTS.items()])
    (sst,) = write_zip(tmp_path, 2, STORED)
    assert of_family(tmp_path, 2, "counts") == COUNTS
    sst.unlink()
    assert of_family(tmp_path, 2, "counts") == COUNTS


@pytest.mark.parametrize("damage", [damage_zip, damage_manifest, remove_sst])
def test_a_family_whose_only_zip_is_damaged_is_not_read_as_empty(damage: Any, tmp_path: Path) -> None:
    """Spark writes the changelog of version 1, too. It has all rows, and nobody can tell of which family."""
    write_changelog(tmp_path, 1, [(PUT, key, value) for key, value in STORED.items()])
    write_changelog(tmp_path, 2, [(PUT, b"\2\0c", b"3")])
    ssts = write_zip(tmp_path, 1, STORED)
    assert len(of_family(tmp_path, 2, "counts")) == 3
    assert changes(tmp_path, [2], "counts") == [(2, {b"c": b"3"})]
    damage(tmp_path / "1.zip", ssts)
    if damage is damage_zip:
        with pytest.raises(CorruptFileError, match=r"1\.zip"):
            of_family(tmp_path, 2, "counts")
        with pytest.raises(CorruptFileError, match=r"1\.zip"):
            changes(tmp_path, [2], "counts")
    else:
        assert len(of_family(tmp_path, 2, "counts")) == 3  # the zip still has the numbers, and changelogs the rows
    (tmp_path / "1.zip").unlink()
    with pytest.raises(MissingFileError, match=UNNUMBERED) as caught:
        of_family(tmp_path, 2, "counts")
    assert caught.value.path == str(tmp_path)
    assert caught.value.remedy
    with pytest.raises(MissingFileError, match=UNNUMBERED):
        changes(tmp_path, [2], "counts")


@pytest.mark.parametrize("older", [{"default": 1}, {"default": 1, "counts": 5}, {"default": 3}], ids=str)
def test_a_family_that_only_a_damaged_zip_may_name_is_not_read_as_empty(older: dict[str, int], tmp_path: Path) -> None:
    """An older zip does not have the family, or had it before it was removed and made again."""
    write_zip(tmp_path, 1, {}, families=older)
    write_changelog(tmp_path, 2, [(PUT, b"\2\0" + key, value) for key, value in COUNTS.items()])
    damage_zip(tmp_path / "2.zip", write_zip(tmp_path, 2, STORED))
    with pytest.raises(CorruptFileError, match=r"2\.zip"):
        of_family(tmp_path, 2, "counts")
    with pytest.raises(CorruptFileError, match=r"2\.zip"):
        changes(tmp_path, [2], "counts")
    (tmp_path / "2.zip").unlink()
    with pytest.raises(MissingFileError, match=UNNUMBERED):
        of_family(tmp_path, 2, "counts")
    with pytest.raises(MissingFileError, match=UNNUMBERED):
        changes(tmp_path, [2], "counts")


def test_changes_of_a_family_that_was_made_again_are_those_of_its_newest_number(tmp_path: Path) -> None:
    """Spark deletes the rows of a family that it removes, and gives it the next number when it comes again."""
    made, again = {"default": 1, "counts": 2}, {"default": 1, "counts": 3}
    write_zip(tmp_path, 1, STORED, families=made)
    write_changelog(tmp_path, 2, [(PUT, b"\2\0c", b"3")])
    removed: list[TypedRecord] = [(DELETE, b"\2\0" + key, None) for key in (b"a", b"b", b"c")]
    write_changelog(tmp_path, 3, [*removed, (PUT, b"\3\0d", b"4")])
    write_zip(tmp_path, 3, {b"\3\0d": b"4"}, families=again)
    write_changelog(tmp_path, 4, [(PUT, b"\1\0a", b"x"), (PUT, b"\3\0e", b"5")])
    assert changes(tmp_path, [2], "counts") == [(2, {b"c": b"3"})]
    assert changes(tmp_path, [2, 3, 4], "counts") == [(3, {b"d": b"4"}), (4, {b"e": b"5"})]
    damage_zip(tmp_path / "3.zip", [])
    for name in ("counts", "default"):
        with pytest.raises(CorruptFileError, match=r"3\.zip"):
            changes(tmp_path, [4], name)
    assert changes(tmp_path, [2], "counts") == [(2, {b"c": b"3"})]


def test_a_family_of_a_store_without_files_has_no_rows(tmp_path: Path) -> None:
    assert of_family(tmp_path, 1, "counts") == {}
