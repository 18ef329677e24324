"""What is read from a remote storage twice is asked for once, wherever it is kept meanwhile."""

from __future__ import annotations

import random
import resource
import signal
import struct
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from hdfsstore.errors import CorruptFileError
from hdfsstore.fs import kept_input
from hdfsstore.fs.kept_input import kept
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.fs.reading import Input, open_input
from tests.support.remote_files import RemoteFiles

CONTENT = random.Random(4).randbytes(300_000)


def read_all(source: Input | kept_input.KeptInput, size: int) -> bytes:
    content, buffer = bytearray(), memoryview(bytearray(size))
    while n := source.readinto(buffer):
        content += buffer[:n]
    source.finish()
    return bytes(content)


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "file").write_bytes(CONTENT)
    return str(tmp_path / "file")


@pytest.mark.parametrize("in_memory", [1, 100_000, 1_000_000])
@pytest.mark.parametrize("size", [1000, 70_000, 400_000])
def test_a_second_read_asks_for_nothing(path: str, in_memory: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_input, "_IN_MEMORY", in_memory)
    files = RemoteFiles()
    with closing(kept(files, open_input(files, path, ()))) as source:
        assert read_all(source, size) == CONTENT
        Path(path).unlink()
        for _ in range(2):
            source.rewind()
            assert read_all(source, size) == CONTENT
    assert files.requests.snapshot().requests == {"GET": 1}


@contextmanager
def small_files(size: int) -> Iterator[None]:
    """Lets no file of this process grow further, as a full disk does: also not the log of the run, so not for long."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


@pytest.mark.parametrize("room", [0, 100_000, len(CONTENT) - 1])
@pytest.mark.parametrize("size", [1000, 70_000, 400_000])
def test_without_room_the_storage_is_read_again(
    path: str, room: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_input, "_IN_MEMORY", 1)
    files = RemoteFiles()
    with closing(kept(files, open_input(files, path, ()))) as source, small_files(room):
        assert read_all(source, size) == CONTENT
        source.rewind()
        assert source._copy is None
        assert read_all(source, size) == CONTENT


def test_the_first_read_is_checked(path: str) -> None:
    checks = [zlib.crc32(CONTENT[at : at + 512]) for at in range(0, len(CONTENT), 512)]
    Path(path).with_name(".file.crc").write_bytes(struct.pack(f">4si{len(checks)}I", b"crc\0", 512, *checks))
    content = bytearray(CONTENT)
    content[200_000] ^= 1
    Path(path).write_bytes(content)
    files = RemoteFiles()
    with closing(kept(files, open_input(files, path))) as source, pytest.raises(CorruptFileError):
        read_all(source, 70_000)


def test_a_local_file_is_not_copied(path: str) -> None:
    files = LocalFileManager()
    with closing(open_input(files, path)) as source:
        assert kept(files, source) is source
