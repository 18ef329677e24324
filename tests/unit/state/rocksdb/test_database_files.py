"""Files of a RocksDB that are missing, damaged or not those that are named, and files that are read from afar."""

from __future__ import annotations

import gc
import random
from pathlib import Path

import pytest
from pyarrow.fs import LocalFileSystem
from rocksdict import CompactOptions, Rdict

from hdfsstore import CorruptFileError, MissingFileError, StateStoreError
from hdfsstore.fs.arrow_files import ArrowFileManager
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.state.rocksdb.archive import Archive
from hdfsstore.state.rocksdb.database import Database
from hdfsstore.state.rocksdb.manifest import live_files
from hdfsstore.state.rocksdb.sst_file import SstFile
from tests.support.databases import Row, archive_of, opened, options, rows_of


@pytest.fixture
def written(tmp_path: Path) -> tuple[Archive, list[Row]]:
    """A level of several files, and a file of level 0 on top."""
    chance = random.Random("files")
    how = options(compression="none", change=lambda found, _: found.set_target_file_size_base(100_000))
    database = Rdict(str(tmp_path / "db"), how)
    for first in range(2):
        for i in range(first, 6000, 2):
            database[b"%05d" % i] = chance.randbytes(60)
        database.flush()
    database.compact_range(None, None, CompactOptions())
    for i in range(0, 6000, 7):
        database[b"%05d" % i] = b"newer"
    database.flush()
    rows = list(database.items())
    database.close()
    archive = archive_of(tmp_path / "db", tmp_path)
    assert len({file.level for file in live_files(archive.files, "the.zip")}) == 2
    assert len(archive.ssts) > 3
    return archive, rows


def test_windows_are_ahead_where_a_read_is_a_request(tmp_path: Path, written: tuple[Archive, list[Row]]) -> None:
    archive, rows = written
    database = Database(ArrowFileManager(LocalFileSystem()), str(tmp_path), archive, "the.zip")
    assert rows_of(database.chunks()) == rows
    assert rows_of(database.chunks(first=b"")) == rows  # in windows that grow
    assert rows_of(database.chunks(first=b"03000", end=b"03002")) == rows[3000:3002]
    given_up = database.chunks(first=b"")
    next(given_up)
    given_up.close()  # type: ignore[attr-defined]


def test_files_that_were_read_are_let_go(tmp_path: Path, written: tuple[Archive, list[Row]]) -> None:
    archive, rows = written
    gc.collect()
    for chunk in opened(archive, tmp_path).chunks():
        assert len(chunk) == len(rows)
        assert sum(isinstance(found, SstFile) for found in gc.get_objects()) <= 2  # one for each level


@pytest.mark.parametrize("size", [10, 200_000])
def test_bytes_at_places(tmp_path: Path, size: int) -> None:
    content = random.Random(size).randbytes(size)
    (tmp_path / "file").write_bytes(content)
    for fs in (LocalFileManager(), ArrowFileManager(LocalFileSystem())):
        for known in (None, size):
            file = fs.open_file(str(tmp_path / "file"), known)
            assert bytes(file.read_at(size - 5, 5)) == content[-5:]
            start = bytearray(4)
            file.readinto(start)
            assert bytes(file.read_at(2, 3)) == content[2:5]
            file.readinto(memoryview(start)[2:])
            assert start == content[:2] + content[4:6]
            file.close()


def test_missing_and_cut_files(tmp_path: Path, written: tuple[Archive, list[Row]]) -> None:
    archive, rows = written
    path = tmp_path / "SSTs" / archive.ssts[0].remote
    content = path.read_bytes()
    database = opened(archive, tmp_path)
    path.write_bytes(content[:-1])
    with pytest.raises(CorruptFileError, match="MANIFEST") as cut:
        rows_of(database.chunks())
    assert cut.value.path == str(path)
    path.unlink()
    with pytest.raises(MissingFileError) as missing:
        rows_of(database.chunks())
    assert missing.value.path == str(path)
    path.write_bytes(content)
    assert rows_of(database.chunks()) == rows


def test_the_metadata_and_the_manifest_name_the_same_files(tmp_path: Path, written: tuple[Archive, list[Row]]) -> None:
    archive, _ = written
    for ssts in (archive.ssts[1:], [archive.ssts[0]._replace(size=1), *archive.ssts[1:]]):
        with pytest.raises(CorruptFileError, match=archive.ssts[0].local):
            opened(archive._replace(ssts=ssts), tmp_path)
    more = archive.ssts[0]._replace(local="999999.sst")
    with pytest.raises(CorruptFileError, match="999999"):
        opened(archive._replace(ssts=[*archive.ssts, more]), tmp_path)


def test_every_cut_and_every_change_of_a_manifest_is_found(tmp_path: Path, written: tuple[Archive, list[Row]]) -> None:
    archive, _ = written
    name = archive.files["CURRENT"].decode().strip()
    content = archive.files[name]
    for at in range(len(content)):
        damaged = bytearray(content)
        damaged[at] ^= 1 << at % 8
        for bad in (bytes(damaged), content[:at]):
            # A cut between two records changes which files are live, or only what comes next in the database.
            try:
                opened(archive._replace(files={**archive.files, name: bad}), tmp_path)
            except StateStoreError as error:
                assert error.path  # noqa: PT017 - most are found, and all found ones name the file
            else:
                assert bad == content[:at]
                assert live_files({**archive.files, name: bad}, "") == live_files(archive.files, "")
