"""Opens folders on a local disk that only this user may touch, and files in them, without following symlinks.

A folder is opened for each use and passed on as a file descriptor. File names are relative to it, so nobody can put
another folder in its place meanwhile. A folder that was deleted is made again at the next use.
"""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# Windows has no such flags, and no cache of images: root_path raises there.
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _NO_LINK
_OTHERS = 0o077


def root_path(local_dir: str | None) -> str:
    """The folder's absolute path; without one given, this user's below the system's folder for temporary files.

    Raises:
        OSError: the system cannot open files relative to a folder (Windows), or has no writable temporary folder.
    """
    if os.open not in os.supports_dir_fd:
        raise OSError(errno.ENOSYS, "this system does not open files relative to a folder", local_dir)
    parent = tempfile.gettempdir() if local_dir is None else os.fspath(local_dir)
    return str(Path(parent, f"hdfsstore-{os.geteuid()}" if local_dir is None else "").absolute())


@contextmanager
def open_root(path: str) -> Iterator[int]:
    """The folder at an absolute path, as a file descriptor. It is made with mode 0700 if it is missing.

    Folders above it may be symlinks, but not the folder itself.

    Raises:
        OSError: it cannot be made or opened, is a symlink, belongs to another user, or others have rights in it.
    """
    if not os.path.lexists(path):
        Path(path).mkdir(mode=0o700, parents=True, exist_ok=True)
    with _opened(path, None) as folder:
        yield folder


@contextmanager
def open_folder(parent: int, name: str, *, make: bool = False) -> Iterator[int]:
    """The folder `name` in the folder `parent`, as a file descriptor; with `make` made with mode 0700 if it is missing.

    Raises:
        OSError: as open_root; FileNotFoundError if it is missing and not made.
    """
    if make and stat_in(parent, name) is None:
        with suppress(FileExistsError):  # another process was faster; the folder is checked below
            os.mkdir(name, 0o700, dir_fd=parent)
    with _opened(name, parent) as folder:
        yield folder


@contextmanager
def _opened(name: str, parent: int | None) -> Iterator[int]:
    folder = os.open(name, _FOLDER, dir_fd=parent)
    try:
        check_owner(os.fstat(folder), name)
        yield folder
    finally:
        os.close(folder)


def check_owner(info: os.stat_result, path: str) -> None:
    """Raises PermissionError if a file or folder belongs to another user, or others have rights to it."""
    if info.st_uid != os.geteuid():
        raise PermissionError(errno.EPERM, f"it belongs to user {info.st_uid}, not to {os.geteuid()}", path)
    if info.st_mode & _OTHERS:
        mode = stat.S_IMODE(info.st_mode)
        raise PermissionError(
            errno.EPERM, f"its mode is {mode:04o}, and others than its owner must have no rights", path
        )


def names_in(folder: int) -> list[str]:
    """The names in a folder, in no order."""
    # Opened once more, as duplicates of a descriptor share one position in the listing, in forked children too.
    again = os.open(".", _FOLDER, dir_fd=folder)
    try:
        with os.scandir(again) as entries:
            return [entry.name for entry in entries]
    finally:
        os.close(again)


def stat_in(folder: int, name: str) -> os.stat_result | None:
    """The status of a name, of the link itself if it is a symlink; None if there is no such name."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def open_file(folder: int, name: str) -> int:
    """Opens a file for reading. A pipe does not block, and a symlink is not followed (ELOOP).

    Raises:
        OSError: as os.open; PermissionError if it belongs to another user or others have rights.
        IsADirectoryError: it is no regular file.
    """
    file = os.open(name, os.O_RDONLY | _NO_LINK, dir_fd=folder)
    try:
        info = os.fstat(file)
        if not stat.S_ISREG(info.st_mode):
            raise IsADirectoryError(errno.EISDIR, "it is no regular file", name)
        check_owner(info, name)
    except BaseException:
        os.close(file)
        raise
    return file


def create_file(folder: int, name: str) -> int:
    """Makes a new file of mode 0600, and opens it for writing."""
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_LINK, 0o600, dir_fd=folder)


def lock_file(folder: int, name: str) -> int:
    """Opens a file that only serves as a lock; makes it if it is missing."""
    return os.open(name, os.O_RDWR | os.O_CREAT | _NO_LINK, 0o600, dir_fd=folder)


def remove_file(folder: int, name: str) -> bool:
    """Unlinks a name, if it exists; of a symlink, the link. Returns whether it existed."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True


def write_all(file: int, data: memoryview) -> None:
    """Writes all bytes, with several calls if needed."""
    while data:
        data = data[os.write(file, data) :]
