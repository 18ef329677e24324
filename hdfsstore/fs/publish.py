"""Publishes files whole or not at all, and removes files together with their checksum files.

    filesystem                     how                                           overwrite=False
    local, HDFS, any other         .<name>.<uuid>.tmp in the same folder, then   local and HDFS: one of any number of
                                   a link (local) or a rename                    racers wins; other ones: checked before
    S3, GCS, Azure                 one PUT of the whole content                  checked before: pyarrow has no PUT that
                                                                                 fails where there is an object

A published file survives the end of the process and, on a local filesystem, a power cut (durable.py). HDFS and object
stores have replicated a file when it is closed. The temporary names are Spark's (CheckpointFileManager.scala).
"""

from __future__ import annotations

import errno
import logging
import os
import re
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
from pyarrow.fs import FileSystem, FileType, FSSpecHandler, PyFileSystem, SubTreeFileSystem

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.checksum_files import hadoop_name, spark_name
from hdfsstore.fs.durable import make_folder, sync_folder

if TYPE_CHECKING:
    from typing_extensions import Buffer

log = logging.getLogger("hdfsstore.publish")

Content: TypeAlias = "Buffer | Iterable[Buffer]"

# Names of files that a killed writer leaves behind, of Spark and of this package.
TEMPORARY_NAME = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\.tmp")

_LOCAL = {"local", "file"}
_HDFS = {"hdfs", "viewfs"}
_OBJECT_STORES = {"s3", "s3a", "gcs", "gs", "abfs", "abfss", "az", "oci", "oss", "obs", "cos"}
_NO_LINKS = {errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK}
_REMEDIES = {
    errno.ENOSPC: "Free space there",
    errno.EDQUOT: "Free space there, or raise the quota",
    errno.EFBIG: "Raise the limit of a file's size (ulimit -f, or the filesystem's own)",
    errno.EROFS: "The filesystem is mounted read-only",
    errno.EACCES: "Grant the right to write there",
    errno.EPERM: "Grant the right to write there",
}


def publish(fs: FileSystem, path: str, content: Content, *, overwrite: bool, unique_name: bool = False) -> None:
    """Writes a file that appears under its name whole or not at all. Its folder is made if it is missing.

    After an error nothing is left, and what was under the name before is as it was (its checksum files may be gone:
    they are removed first, as they would deny the new content). Only where a local folder cannot be synced, at the very
    end, the new file is there, and an error says that it may not outlive a power cut.

    Args:
        content: bytes, or pieces that are taken one by one. An object store gets them joined.
        overwrite: replaces an earlier file. This is atomic except on pyarrow's HadoopFileSystem: libhdfs has no rename
            that replaces, so the old file is deleted just before the new one takes its name.
        unique_name: the name has an id that was made for this file. Nothing is looked for or removed, so that an object
            store gets a single PUT.

    Raises:
        FileExistsError: the name is taken, without overwrite. On an object store, on a local filesystem without hard
            links, and on filesystems that only fsspec knows, a racer that comes between the check and the write is
            overwritten.
        StateStoreError: the filesystem fails (full, read-only, no rights, ...).
    """
    fs, path = _unwrapped(fs, path)
    pieces = _pieces(content)
    kind = _kind(fs)
    if kind in _OBJECT_STORES:
        _put(fs, path, b"".join(pieces), overwrite, unique_name)
    elif kind in _LOCAL:
        _publish_local(Path(path), pieces, overwrite, unique_name)
    else:
        _publish_renamed(fs, path, pieces, overwrite, unique_name)


def remove(fs: FileSystem, paths: Iterable[str], names: Collection[str] | None = None) -> None:
    """Deletes files, each after its checksum files: the other way round, a kill could leave one without its file.

    Args:
        paths: of the files. Missing ones are passed over.
        names: the names in their folder, if the caller has listed it. Other names are not looked for.

    Raises:
        StateStoreError: the filesystem fails. The paths before that one are gone.
    """
    for given in paths:
        target, path = _unwrapped(fs, given)
        folder, slash, name = path.rpartition("/")
        with _typed_errors(path):
            for each in (*_checksum_names(name), name):
                if names is None or each in names:
                    _delete(target, folder + slash + each)


def _publish_local(path: Path, pieces: Iterable[Buffer], overwrite: bool, unique_name: bool) -> None:
    with _typed_errors(str(path)):
        if not overwrite and not unique_name and path.exists():
            raise _exists(str(path))
        temporary = path.with_name(_temporary_name(path.name))
        try:
            _write_local(temporary, pieces)
            # Removed before the file takes its name: a kill in between leaves the old file without checksums, which
            # readers accept. Removed later, a kill would leave the new file beside checksums that do not match.
            for checksum_name in () if unique_name else _checksum_names(path.name):
                path.with_name(checksum_name).unlink(missing_ok=True)
            if overwrite or unique_name:
                temporary.replace(path)
            else:
                _link(temporary, path)
            sync_folder(path.parent)
        except BaseException:
            _try_to_delete(temporary)
            raise


def _write_local(path: Path, pieces: Iterable[Buffer]) -> None:
    try:
        file = path.open("xb", buffering=0)
    except FileNotFoundError:
        make_folder(path.parent)
        file = path.open("xb", buffering=0)
    with file:
        for piece in pieces:
            rest = memoryview(piece).cast("B")
            while len(rest):
                rest = rest[file.write(rest) :]
        os.fsync(file.fileno())


def _link(temporary: Path, path: Path) -> None:
    """Renames a file. FileExistsError: the name is taken."""
    try:
        path.hardlink_to(temporary)
    except FileExistsError:
        raise _exists(str(path)) from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if path.exists():
            raise _exists(str(path)) from None
        temporary.replace(path)
    else:
        temporary.unlink()


def _publish_renamed(fs: FileSystem, path: str, pieces: Iterable[Buffer], overwrite: bool, unique_name: bool) -> None:
    folder, slash, name = path.rpartition("/")
    temporary = folder + slash + _temporary_name(name)
    with _typed_errors(path):
        fs.create_dir(folder, recursive=True)
        if not overwrite and not unique_name and _is_there(fs, path):
            raise _exists(path)
        try:
            # The end of the `with` publishes even a partial file, hence the temporary name. Only bytes are fast.
            with fs.open_output_stream(temporary, compression=None) as file:
                for piece in pieces:
                    file.write(bytes(piece))
            if not unique_name:
                _remove_checksum_files(fs, path)
            if overwrite:
                _replace(fs, temporary, path)
            else:
                _move(fs, temporary, path)
        except BaseException:
            _try_to_delete(temporary, fs)
            raise


def _move(fs: FileSystem, temporary: str, path: str) -> None:
    """Renames a file. FileExistsError: the name is taken."""
    try:
        fs.move(temporary, path)
    except OSError:
        if _is_there(fs, path):  # libhdfs does not say why
            raise _exists(path) from None
        raise


def _replace(fs: FileSystem, temporary: str, path: str) -> None:
    """Renames a file over an earlier one."""
    try:
        if _kind(fs) in _HDFS and isinstance(fs, PyFileSystem):
            fs.handler.fs.mv(temporary, path, overwrite=True)  # hdfs-native's
        else:
            fs.move(temporary, path)
    except OSError:
        if not _is_there(fs, path):
            raise
        fs.delete_file(path)
        fs.move(temporary, path)


def _put(fs: FileSystem, path: str, content: bytes, overwrite: bool, unique_name: bool) -> None:
    with _typed_errors(path):
        if not unique_name:
            if not overwrite and _is_there(fs, path):
                raise _exists(path)
            _remove_checksum_files(fs, path)
        with fs.open_output_stream(path, compression=None) as file:
            file.write(content)


def _remove_checksum_files(fs: FileSystem, path: str) -> None:
    folder, slash, name = path.rpartition("/")
    for info in fs.get_file_info([folder + slash + checksum_name for checksum_name in _checksum_names(name)]):
        if info.type != FileType.NotFound:
            _delete(fs, info.path)


def _checksum_names(name: str) -> Sequence[str]:
    return hadoop_name(spark_name(name)), spark_name(name), hadoop_name(name)


def _temporary_name(name: str) -> str:
    return f".{name}.{uuid.uuid4()}.tmp"


def _is_there(fs: FileSystem, path: str) -> bool:
    return bool(fs.get_file_info(path).type != FileType.NotFound)


def _delete(fs: FileSystem, path: str) -> None:
    try:
        fs.delete_file(path)
    except FileNotFoundError:
        log.debug("%s was gone already", path)


def _try_to_delete(temporary: str | Path, fs: FileSystem | None = None) -> None:
    """Cleans up after an error without hiding that error. Maintenance deletes a file that stays."""
    try:
        if fs is None:
            Path(temporary).unlink(missing_ok=True)
        else:
            _delete(fs, str(temporary))
    except (OSError, pa.ArrowException) as error:
        log.warning("%s is left behind: %s", temporary, error)


def _pieces(content: Content) -> Iterable[Buffer]:
    try:
        return (memoryview(content),)  # type: ignore[arg-type]
    except TypeError:
        return content  # type: ignore[return-value]


def _kind(fs: FileSystem) -> str:
    """The filesystem's scheme."""
    if isinstance(fs, PyFileSystem) and isinstance(fs.handler, FSSpecHandler):
        protocol = fs.handler.fs.protocol
        return str(protocol if isinstance(protocol, str) else protocol[0])
    return str(fs.type_name)


def _unwrapped(fs: FileSystem, path: str) -> tuple[FileSystem, str]:
    while isinstance(fs, SubTreeFileSystem):
        fs, path = fs.base_fs, fs.base_path.rstrip("/") + "/" + path.lstrip("/")
    return fs, path


def _exists(path: str) -> FileExistsError:
    return FileExistsError(errno.EEXIST, "there is such a file already", path)


@contextmanager
def _typed_errors(path: str) -> Iterator[None]:
    try:
        yield
    except FileExistsError:
        raise
    except (OSError, pa.ArrowException) as error:
        number = error.errno if isinstance(error, OSError) else None
        remedy = _REMEDIES.get(number or 0, "Check that the filesystem can be reached, and the rights to write there")
        raise StateStoreError(f"it could not be written or removed: {error}", path, remedy=remedy) from error
