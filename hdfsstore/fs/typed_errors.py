"""Turns the errors of filesystems into StateStoreErrors, with the path and a remedy."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from hdfsstore.errors import StateStoreError

_REMEDIES = {
    errno.ENOSPC: "Free space there",
    errno.EDQUOT: "Free space there, or raise the quota",
    errno.EFBIG: "Raise the limit of a file's size (ulimit -f, or the filesystem's own)",
    errno.EROFS: "The filesystem is mounted read-only",
    errno.EACCES: "Grant the right to write there",
    errno.EPERM: "Grant the right to write there",
}


@contextmanager
def reading(path: str) -> Iterator[None]:
    """All errors of a filesystem are typed, except FileNotFoundError."""
    try:
        yield
    except (FileNotFoundError, StateStoreError):
        raise
    except Exception as error:
        raise StateStoreError(
            f"the filesystem failed: {error}", path, remedy="Check that it can be reached, and the rights to read there"
        ) from error


@contextmanager
def writing(path: str) -> Iterator[None]:
    """All errors of a filesystem are typed, except FileExistsError."""
    try:
        yield
    except (FileExistsError, StateStoreError):
        raise
    except Exception as error:
        number = error.errno if isinstance(error, OSError) else None
        remedy = _REMEDIES.get(number or 0, "Check that the filesystem can be reached, and the rights to write there")
        raise StateStoreError(f"it could not be written or removed: {error}", path, remedy=remedy) from error


def already_there(path: str) -> FileExistsError:
    """The error of a name that is taken."""
    return FileExistsError(errno.EEXIST, "there is such a file already", path)


class Undeleted:
    """Counts the files that could not be deleted, and keeps the error of the first."""

    def __init__(self) -> None:
        self._count = 0
        self._first: tuple[str, Exception] | None = None

    def add(self, path: str, error: Exception) -> None:
        self._count += 1
        self._first = self._first or (path, error)

    def check(self) -> None:
        """Raises a StateStoreError if there are any."""
        if self._first is not None:
            path, error = self._first
            others = f" (nor could {self._count - 1} others)" if self._count > 1 else ""
            remedy = "Check that the filesystem can be reached, and the rights to delete files there"
            raise StateStoreError(f"it could not be deleted{others}: {error}", path, remedy=remedy) from error
