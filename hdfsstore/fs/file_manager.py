"""What all code above holds in the place of a filesystem, named after Spark's CheckpointFileManager.

Each kind of storage has one class with these methods. It does what its storage does best, once, and says what it
promises. Files with checksums beside them are a matter of reading.py and publish.py, not of a FileManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from pyarrow.fs import FileInfo

from hdfsstore.fs.request_metrics import RequestMetrics

if TYPE_CHECKING:
    from typing_extensions import Buffer


@dataclass(frozen=True, slots=True)
class Promises:
    """What a kind of storage keeps, whatever fails and whoever else writes."""

    create_if_absent: bool
    """Of any number of racers for one name one wins, and the others get a FileExistsError."""
    atomic_replace: bool
    """A replace that fails leaves the old file, and no reader meets a missing file or a part of one."""
    versioned_reads: bool
    """All that an OpenFile reads is of one version of the file."""
    tested: bool
    """This project's tests of these promises run on such a storage."""


class OpenFile(Protocol):
    """A file that is read from its start to its end by one thread at a time, or at places by any number of threads."""

    @property
    def size(self) -> int | None:
        """The file's bytes, if that is known without a further request."""

    def readinto(self, buffer: bytearray | memoryview, /) -> int:
        """Fills the buffer with the next bytes. Returns their number, which is smaller only at the file's end."""

    def rewind(self) -> None:
        """Goes back to the start."""

    def read_at(self, offset: int, size: int) -> Buffer:
        """Bytes of the file, of the same version as all else that is read. The range must lie in the file.

        Any number of threads may call it. It does not change what `readinto` reads next.
        """

    def close(self) -> None:
        """Gives back what the file holds. It may be closed more than once."""


@runtime_checkable
class FileManager(Protocol):
    """The files of one place: a local disk, a bucket, an HDFS.

    Any number of threads may call its methods. Folders are made by the methods that write, as they are needed.

    All methods raise a StateStoreError, with the path and a remedy, where the storage fails. They name other errors.
    """

    @property
    def identity(self) -> str:
        """Equal for the same storage, with scheme and endpoint, or account, and bucket; never a credential."""

    @property
    def promises(self) -> Promises:
        """What may be built upon here."""

    @property
    def requests(self) -> RequestMetrics:
        """Counts the requests of this FileManager; none, where files are not reached by requests of ours."""

    def list_folder(self, folder: str) -> list[FileInfo]:
        """The folder's entries, sorted by base_name; none if the folder is missing."""

    def file_infos(self, paths: Sequence[str]) -> list[FileInfo]:
        """What is known of each path, in the same order; FileType.NotFound if there is nothing.

        mtime_ns is set where the storage says it, and 0 or None elsewhere.
        """

    def open_file(self, path: str, size: int | None = None) -> OpenFile:
        """Opens a file for reading.

        Args:
            size: in bytes, if the caller has listed it. This saves a request.

        Raises:
            FileNotFoundError: there is no such file.
        """

    def create(self, path: str, content: Iterable[Buffer]) -> None:
        """Writes a file that appears whole or not at all, unless the name is taken.

        Where promises.create_if_absent is False, a racer that comes between the check and the write is overwritten.

        Raises:
            FileExistsError: the name is taken.
        """

    def replace(self, path: str, content: Iterable[Buffer]) -> None:
        """Writes a file that appears whole or not at all, in the place of an older one if there is one."""

    def write_unique(self, path: str, content: Iterable[Buffer]) -> None:
        """Writes a file that appears whole or not at all. The name has an id made for this file: nothing is looked for.

        The same content may be written again under the same name.
        """

    def delete(self, paths: Sequence[str]) -> None:
        """Deletes files, in any order. Missing ones are no error. The outcome of each is looked at.

        Raises:
            StateStoreError: some could not be deleted. It names one, and says how many they are. All others are gone.
        """

    def abort_unfinished(self, folder: str, grace_ns: int) -> int:
        """Gives up what writers that are dead have begun below a folder, where a list does not show it as a file.

        Args:
            grace_ns: what is younger is left alone, by the storage's own clock.

        Returns:
            How many there were.
        """

    def now_ns(self, folder: str) -> int:
        """The time on the storage's own clock in nanoseconds since 1970, to be compared with a file's mtime_ns.

        Args:
            folder: where the files are. HDFS tells its time by a file that is made there for this, and deleted.
        """
