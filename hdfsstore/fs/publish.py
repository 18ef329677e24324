"""Publishes files whole or not at all, and removes files together with their checksum files.

How a file gets its name, and what is promised, is the matter of each FileManager (local_files.py, arrow_files.py, ...).

    overwrite    before                        when the content is whole     then
    no           the name must be free         checksum files are deleted    FileManager.create
    yes                                        checksum files are deleted    FileManager.replace
    unique name                                                              FileManager.write_unique

Checksum files of an earlier file would deny the new one. They are deleted before it takes its name: a kill in between
leaves the old file without checksums, which readers accept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from pyarrow.fs import FileInfo, FileType

from hdfsstore.fs import typed_errors
from hdfsstore.fs.checksum_files import hadoop_name, spark_name
from hdfsstore.fs.file_manager import FileManager
from hdfsstore.fs.temporary_names import TEMPORARY_NAME

if TYPE_CHECKING:
    from typing_extensions import Buffer

Content: TypeAlias = "Buffer | Iterable[Buffer]"

# So many files are deleted at once.
_PAGE = 1000
# No file takes as long to write.
_GRACE_NS = 24 * 3600 * 10**9


def publish(fs: FileManager, path: str, content: Content, *, overwrite: bool, unique_name: bool = False) -> None:
    """Writes a file that appears under its name whole or not at all. Its folder is made if it is missing.

    After an error nothing is left, and what was under the name before is as it was (its checksum files may be gone),
    as far as the FileManager promises it. Only where a local folder cannot be synced, at the very end, the new file is
    there, and an error says that it may not outlive a power cut.

    Args:
        content: bytes, or pieces that are taken one by one. An object store gets them joined.
        overwrite: replaces an earlier file.
        unique_name: the name has an id that was made for this file. Nothing is looked for or removed, so that an object
            store gets a single PUT.

    Raises:
        FileExistsError: the name is taken, without overwrite. Where the FileManager does not promise to create only if
            absent, a racer that comes between the check and the write is overwritten.
        StateStoreError: the filesystem fails (full, read-only, no rights, ...).
    """
    pieces = _pieces(content)
    if unique_name:
        fs.write_unique(path, pieces)
    elif overwrite:
        fs.replace(path, _then_without_checksums(fs, path, pieces))
    elif fs.file_infos([path])[0].type != FileType.NotFound:
        raise typed_errors.already_there(path)
    else:
        fs.create(path, _then_without_checksums(fs, path, pieces))


def remove(fs: FileManager, paths: Iterable[str], names: Collection[str] | None = None) -> None:
    """Deletes files, each after its checksum files: the other way round, a kill could leave one without its file.

    Args:
        paths: of the files, taken by the thousand. Missing ones are passed over.
        names: the names in their folder, if the caller has listed it. Other names are not looked for.

    Raises:
        StateStoreError: the filesystem fails. The thousands before are gone.
    """
    rest = iter(paths)
    while page := list(islice(rest, _PAGE)):
        for doomed in ([side for path in page for side in _checksum_paths(path)], page):
            there = [path for path in doomed if names is None or path.rpartition("/")[2] in names]
            if there:
                fs.delete(there)


def abort_unfinished(fs: FileManager, folder: str) -> None:
    """Gives up what writers that are dead have begun below a folder, and what is not listed there as a file.

    Raises:
        StateStoreError: the filesystem fails.
    """
    fs.abort_unfinished(folder, _GRACE_NS)


def remove_leftovers(fs: FileManager, folder: str, infos: Iterable[FileInfo]) -> None:
    """Deletes the temporary files that killed writers, of Spark or of this package, have left in a folder.

    A file of the last 24 hours may still be written. Its age is told by the storage's own clock.

    Args:
        folder: the folder.
        infos: its entries, as FileManager.list_folder gives them.

    Raises:
        StateStoreError: the filesystem fails.
    """
    names = {info.base_name: info for info in infos if info.type == FileType.File}
    found = [info for name, info in names.items() if TEMPORARY_NAME.fullmatch(name) and info.mtime_ns]
    if found:
        newest = fs.now_ns(folder) - _GRACE_NS
        remove(fs, [info.path for info in found if info.mtime_ns < newest], names)


def _then_without_checksums(fs: FileManager, path: str, pieces: Iterable[Buffer]) -> Iterator[Buffer]:
    """The pieces. When they have been taken, the file's checksum files are deleted."""
    yield from pieces
    fs.delete(_checksum_paths(path))


def _checksum_paths(path: str) -> Sequence[str]:
    folder, slash, name = path.rpartition("/")
    names = hadoop_name(spark_name(name)), spark_name(name), hadoop_name(name)
    return [folder + slash + checksum_name for checksum_name in names]


def _pieces(content: Content) -> Iterable[Buffer]:
    try:
        return (memoryview(content),)  # type: ignore[arg-type]
    except TypeError:
        return content  # type: ignore[return-value]
