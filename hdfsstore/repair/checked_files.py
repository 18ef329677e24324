"""Writes files that appear only if a check passes at that moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from hdfsstore.fs.file_manager import FileManager

if TYPE_CHECKING:
    from typing_extensions import Buffer


class _CheckedFiles:
    """A FileManager that checks when a file's content is whole, right before it gets its name."""

    def __init__(self, fs: FileManager, check: Callable[[], object]) -> None:
        self.plain = fs
        self._check = check

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)

    def create(self, path: str, content: Iterable[Buffer]) -> None:
        self.plain.create(path, self._checked(content))

    def replace(self, path: str, content: Iterable[Buffer]) -> None:
        self.plain.replace(path, self._checked(content))

    def write_unique(self, path: str, content: Iterable[Buffer]) -> None:
        self.plain.write_unique(path, self._checked(content))

    def _checked(self, content: Iterable[Buffer]) -> Iterator[Buffer]:
        yield from content
        self._check()


def checked_files(fs: FileManager, check: Callable[[], object]) -> FileManager:
    """The same files. What the check raises keeps a file from appearing."""
    return cast(FileManager, _CheckedFiles(fs, check))


def without_checks(fs: FileManager) -> FileManager:
    """The FileManager itself, by whose class readers tell what is local."""
    return fs.plain if isinstance(fs, _CheckedFiles) else fs
