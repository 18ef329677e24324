"""Files that appear whole or not at all, and are removed with their checksum files."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import resource
import shutil
import subprocess
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pytest
from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.arrow_files import ArrowFileManager
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.local_files import LocalFileManager
from hdfsstore.fs.location import resolve
from hdfsstore.fs.publish import publish, remove, remove_leftovers
from hdfsstore.fs.temporary_names import TEMPORARY_NAME
from tests.support.fsspec_folder import Folder

LOCAL = LocalFileManager()
SIDES = (".f.crc", "f.crc", ".f.crc.crc")
posix = pytest.mark.skipif(sys.platform == "win32", reason="forks")
on_linux_x86_64 = pytest.mark.skipif(
    not os.environ.get("CI") and (platform.machine() != "x86_64" or sys.platform != "linux"),
    reason="numbers of system calls",
)


def on(folder: Folder) -> ArrowFileManager:
    return ArrowFileManager(folder.filesystem)


@pytest.fixture(params=["local", "subtree", "fsspec-local", "hdfs-native", "libhdfs", "unknown", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[FileManager, str, Path]:
    """A filesystem, a folder on it, and where that folder really is."""
    folder = str(tmp_path)
    fs = {
        "local": lambda: (LOCAL, folder),
        "subtree": lambda: resolve((SubTreeFileSystem(str(tmp_path.parent), LocalFileSystem()), tmp_path.name)),
        "fsspec-local": lambda: resolve((Folder(Path("/"), "file").filesystem, folder)),
        "hdfs-native": lambda: (on(Folder(tmp_path)), ""),
        "libhdfs": lambda: (on(Folder(tmp_path, can_replace=False)), ""),
        "unknown": lambda: (on(Folder(tmp_path, "sftp")), ""),
        "s3": lambda: (on(Folder(tmp_path, "s3")), ""),
    }[request.param]()
    return *fs, tmp_path


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@pytest.mark.parametrize(
    "content",
    [b"new", bytearray(b"new"), memoryview(b"new"), pa.py_buffer(b"new"), [b"n", pa.py_buffer(b"e"), b"", b"w"]],
    ids=["bytes", "bytearray", "memoryview", "Buffer", "pieces"],
)
def test_content(place: tuple[FileManager, str, Path], content: object) -> None:
    fs, folder, real = place
    publish(fs, f"{folder}/f", content, overwrite=True)  # type: ignore[arg-type]
    assert names(real) == ["f"]
    assert (real / "f").read_bytes() == b"new"


def test_makes_the_folder(tmp_path: Path) -> None:
    for fs, folder in ((LOCAL, f"{tmp_path}/local/b"), (on(Folder(tmp_path)), "/hdfs/b")):
        publish(fs, f"{folder}/f", b"new", overwrite=False)
    assert (tmp_path / "local/b/f").read_bytes() == (tmp_path / "hdfs/b/f").read_bytes() == b"new"


def test_overwrite_removes_stale_checksum_files(place: tuple[FileManager, str, Path]) -> None:
    fs, folder, real = place
    for name in ("f", "g.crc", *SIDES):
        (real / name).write_bytes(b"old")
    publish(fs, f"{folder}/f", b"new", overwrite=True)
    assert names(real) == ["f", "g.crc"]
    assert (real / "f").read_bytes() == b"new"


def test_without_overwrite(place: tuple[FileManager, str, Path]) -> None:
    fs, folder, real = place
    for name in SIDES:
        (real / name).write_bytes(b"of a file that is gone")
    publish(fs, f"{folder}/f", b"first", overwrite=False)
    assert names(real) == ["f"]
    (real / "f.crc").write_bytes(b"of the first")
    with pytest.raises(FileExistsError) as caught:
        publish(fs, f"{folder}/f", b"second", overwrite=False)
    assert caught.value.errno == errno.EEXIST
    assert names(real) == ["f", "f.crc"]
    assert (real / "f").read_bytes() == b"first"


def test_unique_name_asks_for_nothing_else(tmp_path: Path) -> None:
    fs = Folder(tmp_path, "s3")
    publish(on(fs), "/1_a.delta", b"new", overwrite=False, unique_name=True)
    assert fs.written == ["/1_a.delta"]
    publish(LOCAL, f"{tmp_path}/2_a.delta", b"new", overwrite=False, unique_name=True)
    assert names(tmp_path) == ["1_a.delta", "2_a.delta"]


def test_an_error_of_the_content_publishes_nothing(place: tuple[FileManager, str, Path]) -> None:
    fs, folder, real = place
    (real / "f").write_bytes(b"old")

    def pieces() -> Iterator[bytes]:
        yield b"half of"
        raise KeyError("it")

    with pytest.raises(KeyError):
        publish(fs, f"{folder}/f", pieces(), overwrite=True)
    assert names(real) == ["f"]
    assert (real / "f").read_bytes() == b"old"


def race_for(path: Path, *, overwrite: bool) -> tuple[list[bytes], int]:
    """Eight threads write a file at once: the contents of those that have won, and how many have lost."""
    contents = [bytes([i]) * 100_000 for i in range(8)]
    won: list[bytes] = []
    lost: list[FileExistsError] = []
    start = threading.Barrier(len(contents))

    def race(content: bytes) -> None:
        start.wait()
        try:
            publish(LOCAL, str(path), content, overwrite=overwrite)
            won.append(content)
        except FileExistsError as error:
            lost.append(error)

    threads = [threading.Thread(target=race, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return won, len(lost)


@pytest.mark.parametrize("overwrite", [False, True])
def test_racers(tmp_path: Path, overwrite: bool) -> None:
    won, lost = race_for(tmp_path / "f", overwrite=overwrite)
    assert (len(won), lost) == ((8, 0) if overwrite else (1, 7))
    assert (tmp_path / "f").read_bytes() in won
    assert names(tmp_path) == ["f"]


def in_child(work: Callable[[], None]) -> None:
    """Runs it in a forked process, which may then give up rights and limits; its assertions fail the test."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def become_nobody(folder: Path) -> None:
    """A user who may pass the folders above this one: pytest makes them for their owner alone."""
    for parent in folder.parents:
        if parent.stat().st_mode & 0o077 == 0:
            parent.chmod(0o755)
    os.setuid(65534)


@posix
def test_a_folder_that_may_be_written_and_not_listed(tmp_path: Path) -> None:
    tmp_path.chmod(0o333)

    def work() -> None:
        if os.getuid() == 0:
            become_nobody(tmp_path)
        publish(LOCAL, f"{tmp_path}/f", b"new", overwrite=True)
        publish(LOCAL, f"{tmp_path}/sub/f", b"new", overwrite=False)

    in_child(work)
    tmp_path.chmod(0o755)
    assert names(tmp_path) == ["f", "sub"]


@posix
@pytest.mark.parametrize("overwrite", [False, True])
def test_read_only_folder(tmp_path: Path, overwrite: bool) -> None:
    (tmp_path / "f").write_bytes(b"old")
    if not overwrite:
        (tmp_path / "f").unlink()
    tmp_path.chmod(0o555)
    before = names(tmp_path)

    def work() -> None:
        if os.getuid() == 0:
            become_nobody(tmp_path)
        for act in (
            lambda: publish(LOCAL, f"{tmp_path}/f", b"new", overwrite=overwrite),
            lambda: publish(LOCAL, f"{tmp_path}/sub/f", b"new", overwrite=overwrite),
            lambda: remove(LOCAL, [f"{tmp_path}/f"]) if overwrite else publish(LOCAL, "/proc/f", b"", overwrite=True),
        ):
            with pytest.raises(StateStoreError) as caught:
                act()
            assert caught.value.path is not None
            assert caught.value.remedy is not None

    in_child(work)
    assert names(tmp_path) == before
    tmp_path.chmod(0o755)
    publish(LOCAL, f"{tmp_path}/f", b"new", overwrite=overwrite)
    assert (tmp_path / "f").read_bytes() == b"new"


@posix
def test_file_too_large(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        with pytest.raises(StateStoreError, match="too large") as caught:
            publish(LOCAL, f"{tmp_path}/f", b"x" * 100_001, overwrite=True)
        assert caught.value.remedy is not None
        assert "ulimit -f" in caught.value.remedy
        publish(LOCAL, f"{tmp_path}/g", b"x" * 100_000, overwrite=True)

    in_child(work)
    assert names(tmp_path) == ["f", "g"]
    assert (tmp_path / "f").read_bytes() == b"old"


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small filesystem")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_full_disk(small_disk: Path) -> None:
    publish(LOCAL, f"{small_disk}/f", b"old", overwrite=False)
    for content in (b"x" * 100_000, [b"x" * 30_000] * 3):
        with pytest.raises(StateStoreError, match="No space left") as caught:
            publish(LOCAL, f"{small_disk}/f", content, overwrite=True)
        assert caught.value.remedy == "Free space there"
        assert names(small_disk) == ["f"]
        assert (small_disk / "f").read_bytes() == b"old"
    publish(LOCAL, f"{small_disk}/f", b"x" * 30_000, overwrite=True)
    assert (small_disk / "f").stat().st_size == 30_000


def deny(*numbers: int) -> None:
    """Makes the kernel answer EPERM to system calls of these numbers in this process, as some filesystems do."""

    class Step(ctypes.Structure):
        _fields_ = (("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint))

    class Program(ctypes.Structure):
        _fields_ = (("size", ctypes.c_ushort), ("steps", ctypes.POINTER(Step)))

    to_refusal = [Step(0x15, len(numbers) - i, 0, number) for i, number in enumerate(numbers)]
    steps = [
        Step(0x20, 0, 0, 0),  # the number of the system call
        *to_refusal,
        Step(0x06, 0, 0, 0x7FFF0000),
        Step(0x06, 0, 0, 0x00050000 | errno.EPERM),
    ]
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
    program = Program(len(steps), (Step * len(steps))(*steps))
    assert libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0, ctypes.get_errno()  # PR_SET_SECCOMP


LINK, LINKAT, RENAMEAT2 = 86, 265, 316


@on_linux_x86_64
@pytest.mark.parametrize("denied", [(LINK, LINKAT), (LINK, LINKAT, RENAMEAT2)])
def test_without_hard_links(tmp_path: Path, denied: tuple[int, ...]) -> None:
    def work() -> None:
        deny(*denied)
        with pytest.raises(PermissionError):
            (tmp_path / "g").hardlink_to(tmp_path)
        publish(LOCAL, f"{tmp_path}/f", b"first", overwrite=False)
        with pytest.raises(FileExistsError):
            publish(LOCAL, f"{tmp_path}/f", b"second", overwrite=False)
        with pytest.raises(FileExistsError):
            LOCAL.create(f"{tmp_path}/f", [b"third"])
        with pytest.raises(StateStoreError):
            LOCAL.create(f"{tmp_path}/f/g", [b"third"])

    in_child(work)
    assert names(tmp_path) == ["f"]
    assert (tmp_path / "f").read_bytes() == b"first"


@on_linux_x86_64
def test_racers_without_hard_links(tmp_path: Path) -> None:
    def work() -> None:
        deny(LINK, LINKAT)
        for number in range(50):
            won, lost = race_for(tmp_path / str(number), overwrite=False)
            assert (len(won), lost) == (1, 7)
            assert (tmp_path / str(number)).read_bytes() == won[0]

    in_child(work)


def test_a_lost_answer_to_a_link_is_no_lost_race(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS sends a request again when its answer is lost. The name is taken then, by the first of the two."""
    link = Path.hardlink_to

    def linked_twice(path: Path, target: Path) -> None:
        link(path, target)
        link(path, target)

    monkeypatch.setattr(Path, "hardlink_to", linked_twice)
    publish(LOCAL, f"{tmp_path}/f", b"first", overwrite=False)
    with pytest.raises(FileExistsError):
        LOCAL.create(f"{tmp_path}/f", [b"second"])
    assert names(tmp_path) == ["f"]
    assert (tmp_path / "f").read_bytes() == b"first"


def test_what_is_created_is_not_reported_as_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path), missing_ok)

    monkeypatch.setattr(Path, "unlink", broken)
    LOCAL.create(f"{tmp_path}/f", [b"content"])
    assert (tmp_path / "f").read_bytes() == b"content"


def test_a_file_in_the_folders_place(place: tuple[FileManager, str, Path]) -> None:
    fs, folder, real = place
    (real / "f").write_bytes(b"")
    with pytest.raises(StateStoreError):
        publish(fs, f"{folder}/f/g", b"new", overwrite=True)
    assert names(real) == ["f"]


def test_a_folder_in_the_files_place(place: tuple[FileManager, str, Path]) -> None:
    fs, folder, real = place
    (real / "f").mkdir()
    with pytest.raises(StateStoreError):
        publish(fs, f"{folder}/f", b"new", overwrite=True)
    assert names(real) == ["f"]
    assert names(real / "f") == []


def test_remove(place: tuple[FileManager, str, Path]) -> None:
    fs, folder, real = place
    for name in ("f", "g", "h", ".h.crc", *SIDES):
        (real / name).write_bytes(b"old")
    remove(fs, [f"{folder}/f", f"{folder}/absent"])
    assert names(real) == [".h.crc", "g", "h"]
    remove(fs, [f"{folder}/g", f"{folder}/h"], names={"h", ".h.crc"})
    assert names(real) == ["g"]


def test_temporary_names() -> None:
    for name in ("4", "1.delta", "1_a.snapshot", "a.b"):
        found = TEMPORARY_NAME.fullmatch(f".{name}.{uuid.uuid4()}.tmp")
        assert found is not None
        assert found["name"] == name
    for name in (
        "4",
        f"4.{uuid.uuid4()}.tmp",
        ".4.tmp",
        f"..{uuid.uuid4()}",
        f".4.{uuid.uuid4()}.tmp.crc",
        ".4.ab.tmp",
    ):
        assert not TEMPORARY_NAME.fullmatch(name)


class InTheFuture(LocalFileManager):
    """A storage whose clock is two days ahead of this machine's."""

    def now_ns(self, folder: str) -> int:
        return super().now_ns(folder) + 2 * 24 * 3600 * 10**9


def test_leftovers_are_deleted_a_day_later_by_the_storages_clock(tmp_path: Path) -> None:
    left = [f".{name}.{uuid.uuid4()}.tmp" for name in ("4", "5", ".4.crc")]
    others = ["4", f".{left[0]}.crc", f"4.{uuid.uuid4()}.tmp", ".crc"]
    for name in (*left, *others):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / f".6.{uuid.uuid4()}.tmp").mkdir()
    before = names(tmp_path)
    remove_leftovers(LOCAL, str(tmp_path), LOCAL.list_folder(str(tmp_path)))
    assert names(tmp_path) == before
    os.utime(tmp_path / left[1], (1, 1))
    remove_leftovers(LOCAL, str(tmp_path), LOCAL.list_folder(str(tmp_path)))
    assert names(tmp_path) == sorted({*before} - {left[1]})
    ahead = InTheFuture()
    remove_leftovers(ahead, str(tmp_path), ahead.list_folder(str(tmp_path)))
    assert names(tmp_path) == sorted({*before} - {*left, others[1]})


@pytest.mark.thorough
def test_a_million_names_are_deleted_in_pages(tmp_path: Path) -> None:
    class Counting(LocalFileManager):
        pages: ClassVar[Counter[int]] = Counter()

        def delete(self, paths: Sequence[str]) -> None:
            self.pages[len(paths)] += 1

    class AllButChecksums(frozenset[str]):
        def __contains__(self, name: object) -> bool:
            return not str(name).endswith(".crc")

    fs = Counting()
    remove(fs, (f"/d/{number}" for number in range(1_000_500)), AllButChecksums())
    assert fs.pages == {1000: 1000, 500: 1}
    fs.pages.clear()
    remove(fs, (f"/d/{number}" for number in range(1_500)))
    assert fs.pages == {3000: 1, 1000: 1, 1500: 1, 500: 1}
    (tmp_path / "f").write_bytes(b"")
    (tmp_path / "d").mkdir()
    with pytest.raises(StateStoreError, match="nor could 1 others") as caught:
        remove(LOCAL, [f"{tmp_path}/d", f"{tmp_path}/absent", f"{tmp_path}/d", f"{tmp_path}/f"], {"d", "f", "absent"})
    assert caught.value.path == f"{tmp_path}/d"
    assert names(tmp_path) == ["d"]


@posix
def test_a_killed_writer_leaves_a_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"old")
    child = os.fork()
    if child == 0:

        def pieces() -> Iterator[bytes]:
            yield b"half"
            os.kill(os.getpid(), 9)

        publish(LOCAL, f"{tmp_path}/f", pieces(), overwrite=True)
    os.waitpid(child, 0)
    left, name = names(tmp_path)
    assert name == "f"
    found = TEMPORARY_NAME.fullmatch(left)
    assert found is not None
    assert found["name"] == "f"
    assert (tmp_path / "f").read_bytes() == b"old"
