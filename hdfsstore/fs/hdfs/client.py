"""What a client of HDFS does for HdfsFileManager: single requests, without retries or deadlines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pyarrow.fs import FileInfo

if TYPE_CHECKING:
    from typing_extensions import Buffer


# In the NameNode's message when all DataNodes are lost for the moment, or full.
NO_DATANODE = "could only be "


class HdfsError(Exception):
    """A request has failed, and not because a name is missing (FileNotFoundError) or taken (FileExistsError).

    Attributes:
        kind: the last part of the name of the NameNode's exception (`SafeModeException`), or the client's own word.
        may_pass: the request may succeed if it is made again: a lost connection, safe mode.
    """

    def __init__(self, kind: str, message: str, *, may_pass: bool) -> None:
        self.kind = kind
        self.may_pass = may_pass
        super().__init__(f"{kind}: {message}" if message else kind)


class ReadableFile(Protocol):
    """A file that is open for reading: its blocks at the time when it was opened, whatever has its name later."""

    @property
    def size(self) -> int: ...

    def read_range(self, offset: int, size: int) -> Buffer:
        """Bytes of the file. The range must lie in it. Any number of threads may call this."""


class WritableFile(Protocol):
    """A new file. It keeps what was written even if close() is never called."""

    def write(self, content: bytes) -> None: ...

    def close(self) -> None: ...


class HdfsClient(Protocol):
    """Any number of threads may call the methods.

    All raise HdfsError and FileNotFoundError. A rename or delete that has raised an HdfsError that may pass may have
    been carried out all the same, or be carried out later.
    """

    def list_folder(self, folder: str) -> list[FileInfo]:
        """The folder's entries, in any order."""

    def info(self, path: str) -> FileInfo:
        """What is known of a path, with its time in milliseconds."""

    def open(self, path: str) -> ReadableFile: ...

    def create(self, path: str, *, one_replica: bool) -> WritableFile:
        """Makes a file, and the folders above it. FileExistsError: the name is taken.

        Args:
            one_replica: each block is written to one DataNode, and the NameNode then makes the other replicas. A
                DataNode that is lost is among the first of a block until the NameNode has noticed it.
        """

    def rename(self, source: str, target: str, *, overwrite: bool) -> None:
        """Gives a file another name, at once. FileExistsError: the name is taken, without overwrite."""

    def delete(self, path: str) -> None:
        """Deletes a file, if there is one."""
