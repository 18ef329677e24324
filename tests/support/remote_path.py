"""A path on a FileManager with those methods of pathlib.Path that tests of stores use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import PurePosixPath
from types import SimpleNamespace

from pyarrow.fs import FileType

from hdfsstore.fs.file_manager import FileManager


@dataclass(frozen=True, eq=False)
class RemotePath:
    files: FileManager
    path: str

    def __str__(self) -> str:
        return self.path

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePath) and self.path == other.path

    def __hash__(self) -> int:
        return hash(self.path)

    def __lt__(self, other: RemotePath) -> bool:
        return self.path < other.path

    def __truediv__(self, name: str) -> RemotePath:
        return RemotePath(self.files, f"{self.path}/{name}")

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    @property
    def stem(self) -> str:
        return PurePosixPath(self.path).stem

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.path).suffix

    def with_name(self, name: str) -> RemotePath:
        return RemotePath(self.files, str(PurePosixPath(self.path).with_name(name)))

    def iterdir(self) -> Iterator[RemotePath]:
        return (self / info.base_name for info in self.files.list_folder(self.path))

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        """Of a folder that does not exist too: nothing."""
        with suppress(FileNotFoundError):
            yield from (path for path in self.iterdir() if fnmatch(path.name, pattern))

    def stat(self) -> SimpleNamespace:
        (info,) = self.files.file_infos([self.path])
        return SimpleNamespace(st_size=info.size)

    def exists(self) -> bool:
        (info,) = self.files.file_infos([self.path])
        return info.type != FileType.NotFound

    def read_text(self) -> str:
        return self.read_bytes().decode()

    def read_bytes(self) -> bytes:
        file = self.files.open_file(self.path)
        content = bytearray(self.stat().st_size)
        size = file.readinto(content)
        file.close()
        return bytes(content[:size])

    def write_bytes(self, content: bytes) -> None:
        self.files.replace(self.path, [content])

    def unlink(self, missing_ok: bool = False) -> None:
        if not missing_ok:
            self.files.open_file(self.path).close()
        self.files.delete([self.path])
