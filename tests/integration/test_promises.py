"""What every FileManager promises (hdfsstore/fs/file_manager.py), on each storage that the tests have."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from pyarrow.fs import FileType

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.hdfs.hdfs_files import HdfsFileManager
from tests.services.places import PLACES, Place

# Elsewhere HDFS is reached by hdfs-native.
pytestmark = pytest.mark.parametrize("place", [*PLACES, "libhdfs"], indirect=True)

MB = 1 << 20
WRITERS = 8
ROUNDS = 200
# More than one page of a list, and than one request to delete: both have 1,000 names on S3.
MANY = 1_100


@pytest.fixture
def files(place: Place) -> FileManager:
    return place.files


@pytest.fixture
def folder(place: Place) -> str:
    return place.path


def read(files: FileManager, path: str) -> bytes:
    file = files.open_file(path)
    try:
        buffer = bytearray(1 << 16)
        content = bytearray()
        while count := file.readinto(buffer):
            content += memoryview(buffer)[:count]
        return bytes(content)
    finally:
        file.close()


def names(files: FileManager, folder: str) -> list[str]:
    return [info.base_name for info in files.list_folder(folder)]


def uses_libhdfs(files: FileManager) -> bool:
    return isinstance(files, HdfsFileManager) and files.client_name.startswith("libhdfs ")


class Failure(Exception):
    """What the content of a file fails with in these tests."""


def of_writers(place: Place, files: FileManager) -> list[FileManager]:
    """On servers half of the writers share a client, and the others have one each, by settings that nobody else has."""
    if not place.storage_options:  # on a local disk there are no clients
        return [files] * WRITERS
    own = [{**place.storage_options, "timeout": str(100 + number)} for number in range(WRITERS)]
    return [files if number % 2 else replace(place, storage_options=own[number]).files for number in range(WRITERS)]


def failing(size: int) -> Iterator[bytes]:
    """A content that fails after so many bytes."""
    for _ in range(size // MB):
        yield bytes(MB)
    yield b"the last bytes"
    raise Failure


def test_all_is_promised_and_tested(files: FileManager) -> None:
    promises = files.promises
    assert promises.create_if_absent
    assert promises.atomic_replace
    assert promises.versioned_reads
    assert promises.tested


# Publish.


@pytest.mark.parametrize("method", ["create", "replace", "write_unique"])
@pytest.mark.parametrize("size", [0, 1, 200_000, 12 * MB + 1])
def test_a_file_is_what_was_written(files: FileManager, folder: str, method: str, size: int) -> None:
    content = os.urandom(size)
    path = f"{folder}/deep/{method}"
    getattr(files, method)(path, [content[: size // 3], memoryview(content)[size // 3 :]])
    assert read(files, path) == content
    (info,) = files.file_infos([path])
    assert (info.type, info.size) == (FileType.File, size)
    assert names(files, f"{folder}/deep") == [method]


DUCK = "🦆"
# What URLs, XML, signatures and globs take for something else.
NAMES = [
    "a+b",
    "a b",
    "100%",
    "%2F",
    "%41",
    "a&b=c",
    "<x>&amp;'\"",
    "x#y?z",
    "~",
    "*[a]{b}",
    "ü",
    "u\u0308",
    "日本",
    DUCK,
]


def test_names_are_taken_as_they_are(files: FileManager, folder: str) -> None:
    within = f"{folder}/a +%20ü&"
    taken = NAMES
    if uses_libhdfs(files):  # it would make another name of this one
        taken = [name for name in NAMES if name != DUCK]
        with pytest.raises(StateStoreError, match="Use hdfs-native"):
            files.create(f"{within}/{DUCK}", [b""])
    paths = [f"{within}/{name}" for name in taken]
    for path in paths:
        files.create(path, [path.encode()])
        with pytest.raises(FileExistsError):
            files.create(path, [b"not this"])
    assert names(files, within) == sorted(taken)
    assert [info.type for info in files.file_infos(paths)] == [FileType.File] * len(paths)
    for path in paths[::2]:
        files.replace(path, [path.encode(), b"!"])
    assert [read(files, path) for path in paths] == [
        path.encode() + b"!" * (1 - number % 2) for number, path in enumerate(paths)
    ]
    files.write_unique(f"{within}/long {NAMES[6]}", [os.urandom(6 * MB)])
    assert len(read(files, f"{within}/long {NAMES[6]}")) == 6 * MB
    files.delete(paths)
    assert names(files, within) == [f"long {NAMES[6]}"]


def test_a_file_is_replaced(files: FileManager, folder: str) -> None:
    for content in (b"old" * 1000, b"new", os.urandom(9 * MB), b""):
        files.replace(f"{folder}/file", [content])
        assert read(files, f"{folder}/file") == content
    assert names(files, folder) == ["file"]


@pytest.mark.parametrize("method", ["create", "replace", "write_unique"])
@pytest.mark.parametrize("size", [0, 12 * MB])
def test_content_that_fails_publishes_nothing(files: FileManager, folder: str, method: str, size: int) -> None:
    with pytest.raises(Failure):
        getattr(files, method)(f"{folder}/file", failing(size))
    assert names(files, folder) == []
    with pytest.raises(FileNotFoundError):
        files.open_file(f"{folder}/file")


@pytest.mark.parametrize("size", [0, 12 * MB])
def test_a_replace_that_fails_leaves_the_old_file(files: FileManager, folder: str, size: int) -> None:
    files.replace(f"{folder}/file", [b"old"])
    with pytest.raises(Failure):
        files.replace(f"{folder}/file", failing(size))
    assert read(files, f"{folder}/file") == b"old"
    assert names(files, folder) == ["file"]


# Create if absent.


def test_one_of_many_racers_creates_a_file(place: Place, files: FileManager, folder: str) -> None:
    together = threading.Barrier(WRITERS)
    managers = of_writers(place, files)

    def race(writer: int) -> list[bool]:
        won = []
        for number in range(ROUNDS):
            together.wait()
            try:
                managers[writer].create(f"{folder}/{number}", [f"{writer} of {number}".encode()])
                won.append(True)
            except FileExistsError:
                won.append(False)
        return won

    with ThreadPoolExecutor(WRITERS) as pool:
        outcomes = list(pool.map(race, range(WRITERS)))
    for number in range(ROUNDS):
        (winner,) = [writer for writer in range(WRITERS) if outcomes[writer][number]]
        assert read(files, f"{folder}/{number}") == f"{winner} of {number}".encode()
    assert len(names(files, folder)) == ROUNDS


def test_a_large_file_is_created_once(place: Place, files: FileManager, folder: str) -> None:
    contents = [bytes([writer]) * (12 * MB) for writer in range(WRITERS // 2)]
    together = threading.Barrier(len(contents))

    def race(writer: FileManager, content: bytes) -> bool:
        together.wait()
        try:
            writer.create(f"{folder}/file", [content])
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(len(contents)) as pool:
        outcomes = list(pool.map(race, of_writers(place, files), contents))
    assert outcomes.count(True) == 1
    assert read(files, f"{folder}/file") == contents[outcomes.index(True)]
    with pytest.raises(FileExistsError):
        files.create(f"{folder}/file", [b"later"])


# Read.


def test_a_file_is_read_in_pieces_of_any_size_and_again(files: FileManager, folder: str) -> None:
    content = os.urandom(20 * MB + 7)
    files.write_unique(f"{folder}/file", [content])
    for given in (None, len(content)):
        file = files.open_file(f"{folder}/file", given)
        assert file.size in (None, len(content))
        position = 0
        for size in (1, 7, 100_000, 3 * MB, 11 * MB, 8 * MB):
            buffer = bytearray(size)
            count = file.readinto(buffer)
            assert count == min(size, len(content) - position)
            assert buffer[:count] == content[position : position + count]
            position += count
        assert position == len(content)
        assert file.readinto(bytearray(10)) == 0
        file.rewind()
        start = bytearray(1000)
        assert file.readinto(start) == 1000
        assert start == content[:1000]
        file.close()
        file.close()


def test_a_file_is_read_whole_as_soon_as_it_is_written(files: FileManager, folder: str) -> None:
    for number in range(ROUNDS):
        files.write_unique(f"{folder}/{number}", [b"x" * (1 + number % 3)])
        assert read(files, f"{folder}/{number}") == b"x" * (1 + number % 3)


def test_readers_of_a_file_that_is_overwritten_meet_one_version(files: FileManager, folder: str) -> None:
    """As Spark overwrites N.delta: what is read is the old file or a new one, or an error says that it changed."""
    size = 12 * MB
    path = f"{folder}/file"
    files.replace(path, [bytes(size)])
    stop = threading.Event()

    def overwrite() -> None:
        number = 0
        while not stop.is_set():
            number = number % 250 + 1
            files.replace(path, [bytes([number]) * (size - number)])

    whole = 0
    errors = []
    with ThreadPoolExecutor(1) as pool:
        writer = pool.submit(overwrite)
        try:
            for _ in range(20):
                try:
                    content = read(files, path)
                except StateStoreError as error:
                    errors.append(error)
                    continue
                whole += 1
                assert len(content) == size - content[0]
                assert content.count(content[0]) == len(content)
        finally:
            stop.set()
        writer.result()
    assert all(path in str(error) for error in errors)
    assert whole or errors
    assert len(read(files, path)) >= size - 250  # nobody overwrites it now


def test_what_is_missing(files: FileManager, folder: str) -> None:
    files.write_unique(f"{folder}/file", [b"content"])
    for path in (f"{folder}/other", f"{folder}/no/such/file"):
        with pytest.raises(FileNotFoundError):
            files.open_file(path)
    paths = [f"{folder}/other", f"{folder}/file", f"{folder}/no/such/file"] * 9  # more than are asked for at once
    infos = files.file_infos(paths)
    assert [info.path for info in infos] == paths
    assert [info.type for info in infos] == [FileType.NotFound, FileType.File, FileType.NotFound] * 9
    assert files.file_infos([]) == []
    assert files.list_folder(f"{folder}/no/such") == []


# Delete.


def test_many_files_are_listed_and_deleted(files: FileManager, folder: str) -> None:
    many = MANY if not uses_libhdfs(files) else 101  # Hadoop's client asks for all pages itself
    numbers = [f"{number:05}" for number in range(many)]
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(lambda name: files.write_unique(f"{folder}/{name}", [name.encode()]), numbers))
    assert names(files, folder) == numbers
    kept = numbers[::100]
    gone = [f"{folder}/{name}" for name in numbers if name not in kept]
    missing = [f"{folder}/{uuid.uuid4()}" for _ in range(50)]
    files.delete([*missing, *gone])
    assert names(files, folder) == kept
    files.delete(gone)
    files.delete([])
    assert names(files, folder) == kept


# Time.


def test_the_age_of_a_file_is_known(files: FileManager, folder: str) -> None:
    before = files.now_ns(folder)
    files.write_unique(f"{folder}/file", [b"content"])
    after = files.now_ns(folder)
    (info,) = files.file_infos([f"{folder}/file"])
    second = 1_000_000_000  # S3 tells its time in seconds
    assert before - second <= info.mtime_ns <= after + second
    (listed,) = files.list_folder(folder)
    assert listed.mtime_ns == pytest.approx(info.mtime_ns, abs=second)
