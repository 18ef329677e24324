"""Writes files that appear only if a check passes at that moment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from hdfsstore.fs.file_manager import FileManager

if TYPE_CHECKING:
    from typing_extensions import Buffer


class _CheckedFiles:
    """A FileManager that checks when a file's content is whole, right before it gets its name, and right after."""

    def __init__(
        self, fs: FileManager, check: Callable[[], object], written: Callable[[FileManager, str], object]
    ) -> None:
        self.plain = fs
        self._check = check
        self._written = written

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plain, name)

    def create(self, path: str, content: Iterable[Buffer]) -> None:
        self.plain.create(path, self._checked(content))
        self._written(self.plain, path)

    def replace(self, path: str, content: Iterable[Buffer]) -> None:
        self.plain.replace(path, self._checked(content))
        self._written(self.plain, path)

    def write_unique(self, path: str, content: Iterable[Buffer]) -> None:
        self.plain.write_unique(path, self._checked(content))
        self._written(self.plain, path)

    def _checked(self, content: Iterable[Buffer]) -> Iterator[Buffer]:
        yield from content
        self._check()


def checked_files(
    fs: FileManager,
    check: Callable[[], object],
    written: Callable[[FileManager, str], object] = lambda _fs, _path: None,
) -> FileManager:
    """The same files.

    Args:
        check: what it raises keeps a file from appearing.
        written: is told of each file that has appeared.
    """
    return cast(FileManager, _CheckedFiles(fs, check, written))


def without_checks(fs: FileManager) -> FileManager:
    """The FileManager itself, by whose class readers tell what is local."""
    return fs.plain if isinstance(fs, _CheckedFiles) else fs
