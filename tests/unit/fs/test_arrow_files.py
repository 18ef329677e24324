"""Files on filesystems that only pyarrow or fsspec knows: what a failed rename or stream leaves."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyarrow.fs import GcsFileSystem, S3FileSystem

from hdfsstore.errors import StateStoreError
from hdfsstore.fs import arrow_files
from hdfsstore.fs.arrow_files import ArrowFileManager
from hdfsstore.fs.file_manager import Promises
from hdfsstore.fs.publish import remove_leftovers
from hdfsstore.fs.temporary_names import TEMPORARY_NAME
from tests.support.fsspec_folder import Folder

KEPT = {"f": b"old"}


class LostAnswers(Folder):
    """It renames, and the answer is lost."""

    def mv(self, source: str, target: str, overwrite: bool = False, **options: object) -> None:
        super().mv(source, target, overwrite, **options)
        raise TimeoutError("the connection was reset")


class Silent(Folder):
    """It says nothing of a rename that has failed, as fsspec's webhdfs."""

    def mv(self, *_: object, **__: object) -> None:
        pass


class Refusing(Folder):
    """It refuses all renames but the first ones."""

    allowed = 0

    def mv(self, source: str, target: str, overwrite: bool = False, **options: object) -> None:
        if self.allowed == 0:
            raise RuntimeError("an error of the library's own kind")
        self.allowed -= 1
        super().mv(source, target, overwrite, **options)


class Full(Folder):
    """A stream takes half of what it is given, and empties an older file when it is opened, as Azure's."""

    def open(self, path: str, mode: str) -> object:
        file = super().open(path, mode)
        if mode == "wb":
            write = file.write  # type: ignore[attr-defined]

            class Stream:
                closed = False

                def write(self, content: bytes) -> int:
                    write(content[: len(content) // 2])
                    raise OSError("no space")

                def close(self) -> None:
                    self.closed = True
                    file.close()  # type: ignore[attr-defined]

            return Stream()
        return file


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(params=["hdfs", "sftp"])
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def old_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")


@pytest.mark.parametrize("of_hadoop", [False, True])
def test_a_pair_of_a_parent_is_refused_whether_its_jvm_is_found_or_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, of_hadoop: bool
) -> None:
    monkeypatch.setattr(arrow_files, "_is_of_hadoop", lambda _: of_hadoop)
    fs = ArrowFileManager(Folder(tmp_path, "hdfs").filesystem)
    assert fs.file_infos(["/f"])[0].size == 3
    monkeypatch.setattr(os, "getpid", lambda: 0)
    with pytest.raises(StateStoreError, match="was forked from one that has used this filesystem"):
        fs.file_infos(["/f"])


def test_an_answer_that_was_lost_is_no_failure(tmp_path: Path, protocol: str) -> None:
    fs = ArrowFileManager(LostAnswers(tmp_path, protocol).filesystem)
    fs.replace("/f", [b"new"])
    fs.create("/g", [b"first"])
    with pytest.raises(FileExistsError):
        fs.create("/g", [b"second"])
    assert content(tmp_path) == {"f": b"new", "g": b"first"}


def test_a_rename_that_has_done_nothing_is_an_error(tmp_path: Path, protocol: str) -> None:
    fs = ArrowFileManager(Silent(tmp_path, protocol).filesystem)
    for write in (lambda: fs.replace("/f", [b"new"]), lambda: fs.create("/g", [b"new"])):
        with pytest.raises(StateStoreError, match="nothing") as caught:
            write()
        assert caught.value.remedy
    assert content(tmp_path) == KEPT


def test_a_refused_rename_leaves_the_old_file(tmp_path: Path, protocol: str) -> None:
    fs = ArrowFileManager(Refusing(tmp_path, protocol).filesystem)
    for write in (fs.replace, fs.write_unique, fs.create):
        with pytest.raises(StateStoreError if write != fs.create else FileExistsError):
            write("/f", [b"new"])
    with pytest.raises(StateStoreError, match="library's own kind"):
        fs.create("/g", [b"new"])
    assert content(tmp_path) == KEPT


def test_a_filesystem_that_cannot_replace_sets_the_old_file_aside(tmp_path: Path, protocol: str) -> None:
    folder = Refusing(tmp_path, protocol, can_replace=False)
    folder.allowed = 3
    fs = ArrowFileManager(folder.filesystem)
    fs.replace("/f", [b"n", b"ew"])
    assert content(tmp_path) == {"f": b"new"}


@pytest.mark.parametrize("failing", [2, 3])
def test_an_old_file_that_was_set_aside_comes_back(tmp_path: Path, failing: int) -> None:
    """The renames are: to the name, which is refused; the old file aside; to the name; the old file back."""

    class Failing(Folder):
        calls = 0

        def mv(self, source: str, target: str, overwrite: bool = False, **options: object) -> None:
            self.calls += 1
            if self.calls == failing:
                raise RuntimeError("this one fails")
            super().mv(source, target, overwrite, **options)

    fs = ArrowFileManager(Failing(tmp_path, "sftp", can_replace=False).filesystem)
    with pytest.raises(StateStoreError, match="this one fails"):
        fs.replace("/f", [b"new"])
    assert content(tmp_path) == KEPT


def test_an_old_file_that_cannot_come_back_is_named(tmp_path: Path) -> None:
    folder = Refusing(tmp_path, "sftp", can_replace=False)
    folder.allowed = 2  # the refused one, and the one aside
    with pytest.raises(StateStoreError, match="neither could the old one") as caught:
        ArrowFileManager(folder.filesystem).replace("/f", [b"new"])
    (name,) = content(tmp_path)
    assert TEMPORARY_NAME.fullmatch(name.removesuffix(".old"))
    assert name in str(caught.value)
    assert content(tmp_path) == {name: b"old"}


def test_the_clean_up_leaves_an_old_file_that_a_killed_writer_has_set_aside(tmp_path: Path) -> None:
    class Killed(Folder):
        def mv(self, source: str, target: str, overwrite: bool = False, **options: object) -> None:
            super().mv(source, target, overwrite, **options)
            raise KeyboardInterrupt

    os.utime(tmp_path / "f", (1, 1))
    fs = ArrowFileManager(Killed(tmp_path, can_replace=False).filesystem)
    with pytest.raises(KeyboardInterrupt):
        fs.replace("/f", [b"new"])
    remove_leftovers(fs, "/", fs.list_folder("/"))
    assert list(content(tmp_path).values()) == [b"old"]


@pytest.mark.parametrize("protocol", ["s3", "gs", "abfs", "sftp"])
def test_content_that_fails_is_never_begun(tmp_path: Path, protocol: str) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise KeyError("it")

    fs = ArrowFileManager(Full(tmp_path, protocol).filesystem)
    for write in (fs.replace, fs.write_unique):
        with pytest.raises((KeyError, StateStoreError)):
            write("/f", pieces())
    with pytest.raises((KeyError, StateStoreError)):
        fs.create("/g", pieces())
    assert content(tmp_path) == KEPT


@pytest.mark.parametrize("protocol", ["gs", "abfs"])
def test_a_part_of_a_new_object_is_deleted(tmp_path: Path, protocol: str) -> None:
    fs = ArrowFileManager(Full(tmp_path, protocol).filesystem)
    for write in (fs.create, fs.write_unique):
        with pytest.raises(StateStoreError, match="no space"):
            write("/g", [b"new"])
    assert content(tmp_path) == KEPT
    assert not fs.promises.atomic_replace
    with pytest.raises(StateStoreError, match="no space"):
        fs.replace("/f", [b"new"])  # what is not promised: the old object is lost


def test_each_file_that_cannot_be_deleted_counts(tmp_path: Path, protocol: str) -> None:
    class Guarded(Folder):
        def rm(self, path: str) -> None:
            if "kept" in path:
                raise PermissionError("no")
            super().rm(path)

    for name in ("kept-1", "kept-2", "g"):
        (tmp_path / name).write_bytes(b"")
    fs = ArrowFileManager(Guarded(tmp_path, protocol).filesystem)
    with pytest.raises(StateStoreError, match=r"nor could 1 others") as caught:
        fs.delete(["/kept-1", "/absent", "/f", "/kept-2", "/g"])
    assert caught.value.path == "/kept-1"
    assert sorted(content(tmp_path)) == ["kept-1", "kept-2"]
    fs.delete(["/absent"])


def test_the_time_is_that_of_a_file_made_there(tmp_path: Path) -> None:
    fs = ArrowFileManager(Folder(tmp_path, "sftp").filesystem)
    before = fs.file_infos(["/f"])[0].mtime_ns
    assert fs.now_ns("/") >= before - 1_000_000
    assert content(tmp_path) == KEPT


def test_identity_and_promises() -> None:
    key = {"access_key": "AKIA", "secret_key": "s3cr3t", "region": "x"}
    plain = ArrowFileManager(S3FileSystem(endpoint_override="http://user:s3cr3t@h:9", **key))
    assert plain.identity == "s3://h:9"
    assert plain.promises == Promises(False, True, False, False)
    gcs = ArrowFileManager(GcsFileSystem(anonymous=True, endpoint_override="h:1"))
    assert (gcs.identity, gcs.promises) == ("gcs://h:1", Promises(False, False, False, False))
    options = {"host": "h", "port": "22", "password": "s3cr3t"}
    other = ArrowFileManager(Folder(Path("/"), "sftp", storage_options=options).filesystem)
    assert (other.identity, other.promises) == ("sftp://h:22", Promises(False, False, False, False))
    assert ArrowFileManager(Folder(Path("/")).filesystem).promises == Promises(True, False, False, False)
