"""The files of the local disk, or of what is mounted there.

    create           .<name>.<uuid>.tmp in the same folder, then a link: one of any number of racers wins
    replace          the same, and a rename
    power cut        a file that was written is still there, whole (durable.py)
    no hard links    create uses Linux's rename that does not replace. Where that is missing too, it looks first, and
                     then renames: a racer in between is overwritten

An open file stays the one that was opened, also when another one takes its name.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING

from pyarrow.fs import LocalFileSystem

from hdfsstore.fs import typed_errors
from hdfsstore.fs.arrow_reading import ArrowReader
from hdfsstore.fs.durable import make_folder, sync_folder
from hdfsstore.fs.file_manager import Promises
from hdfsstore.fs.request_metrics import RequestMetrics
from hdfsstore.fs.temporary_names import temporary_name

if TYPE_CHECKING:
    from typing_extensions import Buffer

log = logging.getLogger("hdfsstore.publish")

_NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK}
_NO_RENAMES = {errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM}
_AT_FDCWD = -100
_RENAME_NOREPLACE = 1


class LocalFileManager(ArrowReader):
    """A FileManager. Paths are absolute."""

    identity = "file:"
    promises = Promises(create_if_absent=True, atomic_replace=True, versioned_reads=True, tested=True)

    def __init__(self) -> None:
        super().__init__(LocalFileSystem(), read_ahead=0)
        self.requests = RequestMetrics()

    def create(self, path: str, content: Iterable[Buffer]) -> None:
        _publish(Path(path), content, _link)

    def replace(self, path: str, content: Iterable[Buffer]) -> None:
        _publish(Path(path), content, Path.replace)

    def write_unique(self, path: str, content: Iterable[Buffer]) -> None:
        _publish(Path(path), content, Path.replace)

    def delete(self, paths: Sequence[str]) -> None:
        undeleted = typed_errors.Undeleted()
        for path in paths:
            try:
                Path(path).unlink()
            except FileNotFoundError:
                log.debug("%s was gone already", path)
            except OSError as error:
                undeleted.add(path, error)
        undeleted.check()

    def abort_unfinished(self, folder: str, grace_ns: int) -> int:  # noqa: ARG002 - a list shows what is unfinished
        return 0

    def now_ns(self, folder: str) -> int:  # noqa: ARG002 the machine has one clock
        return time.time_ns()


def _publish(path: Path, content: Iterable[Buffer], rename: Callable[[Path, Path], object]) -> None:
    temporary = path.with_name(temporary_name(path.name))
    try:
        file = _new_file(temporary, path)
        try:
            for piece in content:
                _write(file, piece, path)
            with typed_errors.writing(str(path)):
                os.fsync(file.fileno())
        finally:
            with typed_errors.writing(str(path)):
                file.close()
        with typed_errors.writing(str(path)):
            rename(temporary, path)
            sync_folder(path.parent)
    except BaseException:
        _try_to_delete(temporary)
        raise


def _new_file(temporary: Path, path: Path) -> FileIO:
    with typed_errors.writing(str(path)):
        try:
            return temporary.open("xb", buffering=0)
        except FileNotFoundError:
            make_folder(path.parent)
            return temporary.open("xb", buffering=0)


def _write(file: FileIO, piece: Buffer, path: Path) -> None:
    rest = memoryview(piece).cast("B")
    with typed_errors.writing(str(path)):
        while len(rest):
            rest = rest[file.write(rest) :]


def _link(temporary: Path, path: Path) -> None:
    """Renames a file. FileExistsError: the name is taken."""
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        if not _is_same(temporary, path):  # NFS asks again after a lost answer, and then finds its own link
            raise typed_errors.already_there(str(path)) from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if not _renamed_unless_there(temporary, path):
            if path.exists():
                raise typed_errors.already_there(str(path)) from None
            temporary.replace(path)
        return
    _try_to_delete(temporary)


def _is_same(temporary: Path, path: Path) -> bool:
    try:
        return path.samefile(temporary)
    except OSError as error:
        log.debug("%s: the file that took the name cannot be looked at: %s", path, error)
        return False


def _renamed_unless_there(temporary: Path, path: Path) -> bool:
    """Renames a file by renameat2 with RENAME_NOREPLACE. False: the system or the filesystem has no such thing."""
    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    if renameat2 is None:
        return False
    if renameat2(_AT_FDCWD, os.fsencode(temporary), _AT_FDCWD, os.fsencode(path), _RENAME_NOREPLACE) == 0:
        return True
    number = ctypes.get_errno()
    if number == errno.EEXIST:
        raise typed_errors.already_there(str(path))
    if number not in _NO_RENAMES:
        raise OSError(number, os.strerror(number), str(path))
    return False


def _try_to_delete(temporary: Path) -> None:
    """Cleans up without an error of its own. Maintenance deletes a file that stays."""
    try:
        temporary.unlink(missing_ok=True)
    except OSError as error:
        log.warning("%s is left behind: %s", temporary, error)
