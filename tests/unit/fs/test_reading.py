"""Locations, folders and checked reading."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow.fs import FileType, LocalFileSystem, SubTreeFileSystem

from hdfsstore._cext.crc32c import crc32c
from hdfsstore.errors import CorruptFileError, StateStoreError
from hdfsstore.fs.arrow_files import ArrowFileManager
from hdfsstore.fs.file_manager import Promises
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.fs.location import resolve
from hdfsstore.fs.reading import Input, open_input, read_file
from tests.support.remote_files import RemoteFiles

LOCAL = LocalFileManager()
CONTENT = bytes(range(256)) * 9 + b"the end"  # 5 chunks of 512, the last one short


def hadoop_side(content: bytes, chunk: int = 512) -> bytes:
    sums = [zlib.crc32(content[at : at + chunk]).to_bytes(4, "big") for at in range(0, len(content), chunk)]
    return b"crc\0" + chunk.to_bytes(4, "big") + b"".join(sums)


def spark_side(content: bytes, **changed: object) -> bytes:
    value = crc32c(content)
    signed = value - (1 << 32) if value >> 31 else value
    fields = {"algorithm": "CRC32C", "value": signed, "mainFileSize": len(content), "timestampMs": 1, "creator": {}}
    return json.dumps(fields | changed).encode()


def write(folder: Path, content: bytes = CONTENT, hadoop: bytes | None = None, spark: bytes | None = None) -> str:
    (folder / "f").write_bytes(content)
    if hadoop is not None:
        (folder / ".f.crc").write_bytes(hadoop)
    if spark is not None:
        (folder / "f.crc").write_bytes(spark)
    return str(folder / "f")


def drain(source: Input, step: int) -> bytes:
    read = b""
    buffer = bytearray(step)
    while n := source.readinto(buffer):
        read += buffer[:n]
    return read


def flipped(content: bytes, at: int) -> bytes:
    changed = bytearray(content)
    changed[at] ^= 1
    return bytes(changed)


@pytest.mark.parametrize(
    "spell",
    [
        str,
        Path,
        lambda p: p.as_uri(),
        lambda p: f"file:{p}",
        lambda p: (LocalFileSystem(), str(p)),
        lambda p: (LOCAL, str(p)),
        lambda p: f"{p}/",
    ],
)
def test_resolve(tmp_path: Path, spell: Callable[[Path], object]) -> None:
    fs, path = resolve(spell(tmp_path))
    assert isinstance(fs, LocalFileManager)
    assert path == tmp_path.as_posix()


def test_resolve_relative_and_odd_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert resolve("a b%20c")[1] == (tmp_path / "a b%20c").as_posix()
    assert resolve("/")[1] == "/"


@pytest.mark.parametrize("uri", ["nosuch://x/y", "file:///a b"])
def test_resolve_unknown_uri(uri: str) -> None:
    with pytest.raises(StateStoreError, match="from_uri") as caught:
        resolve(uri)
    assert caught.value.path == uri


def test_resolve_wrong_pair() -> None:
    with pytest.raises(TypeError, match="FileSystem"):
        resolve(("file", "/x"))  # type: ignore[arg-type]


def test_list_folder(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "a").write_bytes(b"12")
    infos = LOCAL.list_folder(str(tmp_path))
    assert [(i.base_name, i.type, i.size) for i in infos] == [("a", FileType.File, 2), ("b", FileType.Directory, None)]
    assert LOCAL.list_folder(str(tmp_path / "none")) == []
    with pytest.raises(StateStoreError) as caught:
        LOCAL.list_folder(str(tmp_path / "a"))
    assert caught.value.path == str(tmp_path / "a")


@pytest.mark.parametrize("step", [1, 7, 511, 512, 513, 1024, 1300, 1 << 20])
@pytest.mark.parametrize("content", [b"", CONTENT, CONTENT[:512], CONTENT[:1024]], ids=len)
def test_reads_in_steps_of_any_size(tmp_path: Path, step: int, content: bytes) -> None:
    path = write(tmp_path, content, hadoop_side(content), spark_side(content))
    with open_input(LOCAL, path) as source:
        for _ in range(2):
            assert drain(source, step) == content
            assert source.readinto(bytearray(step)) == 0
            source.finish()
            source.rewind()


@pytest.mark.parametrize("step", [100, 512, 1300, 1 << 20])
@pytest.mark.parametrize("at", [0, 511, 512, 1500, len(CONTENT) - 1])
def test_changed_byte_is_found_by_hadoops_checksum_file(tmp_path: Path, at: int, step: int) -> None:
    path = write(tmp_path, flipped(CONTENT, at), hadoop_side(CONTENT))
    with open_input(LOCAL, path) as source, pytest.raises(CorruptFileError, match=r"\.f\.crc") as caught:
        drain(source, step)
    assert (caught.value.path, caught.value.offset) == (path, at // 512 * 512)


def test_every_cut_and_every_growth_is_found(tmp_path: Path) -> None:
    for hadoop, spark in [(hadoop_side(CONTENT), None), (None, spark_side(CONTENT))]:
        for content in [CONTENT[:0], CONTENT[:512], CONTENT[:-1], CONTENT + b"x", CONTENT + bytes(1024)]:
            with pytest.raises(CorruptFileError):
                read_file(LOCAL, write(tmp_path, content, hadoop, spark))
        (tmp_path / ".f.crc").unlink(missing_ok=True)


def test_sparks_checksum(tmp_path: Path) -> None:
    assert read_file(LOCAL, write(tmp_path, CONTENT, None, spark_side(CONTENT))) == CONTENT
    with pytest.raises(CorruptFileError, match="CRC-32C"):
        read_file(LOCAL, write(tmp_path, flipped(CONTENT, 700), None, spark_side(CONTENT)))


def test_finish_checks_what_was_not_read(tmp_path: Path) -> None:
    damaged = flipped(CONTENT, len(CONTENT) - 1)
    for hadoop, spark in [(hadoop_side(CONTENT), None), (None, spark_side(CONTENT))]:
        path = write(tmp_path, damaged, hadoop, spark)
        with open_input(LOCAL, path) as source:
            assert source.readinto(bytearray(600)) == 600
            with pytest.raises(CorruptFileError):
                source.finish()
        (tmp_path / ".f.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("side", [b"", b"crc", b"crc\0\0\0", b"xrc\0\0\0\2\0"])
def test_no_checksum_file_of_hadoop_is_ignored_with_a_warning_as_hadoop_does(
    tmp_path: Path, side: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path, CONTENT, side)
    assert read_file(LOCAL, path) == CONTENT
    assert ".f.crc: not a checksum file" in caplog.text


@pytest.mark.parametrize("chunk", [b"\0\0\0\0", b"\xff\xff\xff\xff"])
def test_senseless_chunk_size(tmp_path: Path, chunk: bytes) -> None:
    path = write(tmp_path, CONTENT, b"crc\0" + chunk + hadoop_side(CONTENT)[8:])
    with pytest.raises(CorruptFileError) as caught:
        open_input(LOCAL, path)
    assert (caught.value.path, caught.value.offset) == (str(tmp_path / ".f.crc"), 4)


def test_huge_chunk_size_allocates_nothing(tmp_path: Path) -> None:
    with pytest.raises(CorruptFileError):
        read_file(LOCAL, write(tmp_path, CONTENT, b"crc\0\x7f\xff\xff\xff" + hadoop_side(CONTENT)[8:]))


@pytest.mark.parametrize("size", range(9, 28))
def test_cut_checksum_file(tmp_path: Path, size: int) -> None:
    with pytest.raises(CorruptFileError):
        read_file(LOCAL, write(tmp_path, CONTENT, hadoop_side(CONTENT)[:size]))


@pytest.mark.parametrize(
    "side",
    [b"", b"{", b"[]", b"{}", b"\xff\xfe", spark_side(CONTENT, value="1"), spark_side(CONTENT, mainFileSize=None)],
)
def test_damaged_checksum_of_spark(tmp_path: Path, side: bytes) -> None:
    with pytest.raises(CorruptFileError) as caught:
        read_file(LOCAL, write(tmp_path, CONTENT, None, side))
    assert caught.value.path == str(tmp_path / "f.crc")


def test_unknown_algorithm_is_ignored_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(tmp_path, CONTENT, None, spark_side(CONTENT, algorithm="XXH3", value=1))
    assert read_file(LOCAL, path) == CONTENT
    assert "f.crc: unknown algorithm" in caplog.text


def test_siblings_tell_which_checksum_files_exist(tmp_path: Path) -> None:
    path = write(tmp_path, flipped(CONTENT, 3), hadoop_side(CONTENT))
    assert read_file(LOCAL, path, siblings={"f"}) == flipped(CONTENT, 3)
    with pytest.raises(CorruptFileError):
        read_file(LOCAL, path, siblings={"f", ".f.crc"})
    # One that was there when the folder was listed and is gone by now.
    assert read_file(LOCAL, path, siblings={"f", "f.crc"}) == flipped(CONTENT, 3)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        open_input(LOCAL, str(tmp_path / "none"))


def test_error_of_the_filesystem(tmp_path: Path) -> None:
    with pytest.raises(StateStoreError, match="filesystem") as caught:
        open_input(LOCAL, str(tmp_path))
    assert caught.value.path == str(tmp_path)
    assert caught.value.remedy


def test_filesystem_without_seeking(tmp_path: Path) -> None:
    write(tmp_path, CONTENT, hadoop_side(CONTENT), spark_side(CONTENT))
    with open_input(ArrowFileManager(SubTreeFileSystem(str(tmp_path), LocalFileSystem())), "f") as source:
        for _ in range(2):
            buffer = pa.allocate_buffer(len(CONTENT))
            assert source.readinto(memoryview(buffer)[:1000]) == 1000
            source.rewind()
        assert source.readinto(buffer) == len(CONTENT)
        assert buffer.to_pybytes() == CONTENT


def test_reading_never_writes(tmp_path: Path) -> None:
    path = write(tmp_path, CONTENT, hadoop_side(CONTENT))
    before = {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in tmp_path.iterdir()}
    read_file(LOCAL, path)
    LOCAL.list_folder(str(tmp_path))
    assert {p: (p.stat().st_mtime_ns, p.stat().st_size) for p in tmp_path.iterdir()} == before


@pytest.mark.parametrize("size", [1000, 1 << 20])
def test_an_open_file_stays_the_one_that_was_opened(tmp_path: Path, size: int) -> None:
    path = str(tmp_path / "f")
    LOCAL.replace(path, [b"a" * size])
    with open_input(LOCAL, path) as source:
        head = bytearray(100)
        assert source.readinto(head) == 100
        LOCAL.replace(path, [b"b" * (2 * size)])
        for _ in range(2):
            source.rewind()
            content = bytearray(2 * size)
            assert source.readinto(content) == size
            assert content[:size] == b"a" * size
    LOCAL.delete([path, path])
    assert LOCAL.promises == Promises(True, True, True, True)


def test_a_file_that_is_replaced_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(CONTENT)
    remote = RemoteFiles()
    remote.replace_while_read("^f$")
    assert read_file(remote, f"{tmp_path}/f") == CONTENT
    assert remote.is_replaced
