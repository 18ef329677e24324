"""The files of any pyarrow.fs.FileSystem, fsspec's among them: what has no FileManager of its own.

    filesystem          how a file is written                         create if absent    replace
    HDFS by fsspec      .<name>.<uuid>.tmp, then a rename             one racer wins      not promised: hdfs-native
                                                                                          has a rename that replaces,
                                                                                          others set aside
    HDFS by pyarrow's   .<name>.<uuid>.tmp, then a rename             looks first: its    not promised: the same, and
    HadoopFileSystem                                                  move deletes a      set aside
                                                                      file in its way
    S3                  one stream of the whole content               looks first         by one request, or by parts
                                                                                          that are put together last
    GCS, Azure          one stream of the whole content               looks first         not promised: Azure's stream
                                                                                          empties the old object first,
                                                                                          and both publish a part
    any other           .<name>.<uuid>.tmp, then a rename             looks first         not promised: the old file is
                                                                                          set aside for a moment, as
                                                                                          .<name>.<uuid>.tmp.old

The content is whole before a stream to an object is opened: an exception within it would publish a part. What lies
under the name afterwards is looked at, because some renames say nothing when they fail (fsspec's webhdfs), and others
fail when they have only lost the answer.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pyarrow.fs import FileInfo, FileSystem, FileType, FSSpecHandler, PyFileSystem

from hdfsstore.errors import StateStoreError
from hdfsstore.fs import typed_errors
from hdfsstore.fs.arrow_forks import jvm_is_of_parent, pid_of
from hdfsstore.fs.arrow_reading import ArrowReader
from hdfsstore.fs.file_manager import Promises
from hdfsstore.fs.request_metrics import RequestMetrics
from hdfsstore.fs.temporary_names import temporary_name, temporary_path

if TYPE_CHECKING:
    from typing_extensions import Buffer

log = logging.getLogger("hdfsstore.publish")

# Each read from a server is a request, so this much is read ahead.
_READ_AHEAD = 8 << 20
_HDFS = {"hdfs", "viewfs"}
_S3 = {"s3", "s3a"}
_OBJECT_STORES = _S3 | {"gcs", "gs", "abfs", "abfss", "az", "oci", "oss", "obs", "cos"}
_NOTHING = Promises(create_if_absent=False, atomic_replace=False, versioned_reads=False, tested=False)
# What says where a filesystem is, of the options that it was made with. Others may be credentials.
_PLACES = ("endpoint_override", "endpoint_url", "account_name", "host", "port")


class ArrowFileManager(ArrowReader):
    """A FileManager.

    Args:
        fs: no SubTreeFileSystem.
    """

    def __init__(self, fs: FileSystem) -> None:
        super().__init__(fs, _READ_AHEAD)
        self.requests = RequestMetrics()
        self._kind = kind_of(fs)
        is_hdfs = self._kind in _HDFS and not _is_of_hadoop(fs)
        self._is_of_hadoop = self._kind in _HDFS and not is_hdfs
        self._replaces = is_hdfs
        self._pid = pid_of(_client_of(fs))
        self.identity = f"{self._kind}://{_place(fs)}"
        self.promises = Promises(
            create_if_absent=is_hdfs,
            atomic_replace=self._kind in _S3,
            versioned_reads=False,
            tested=False,
        )

    @property
    def filesystem(self) -> FileSystem:
        # Of a folder, pyarrow makes HadoopFileSystem anew in a child. Some systems do not find the JVM by its name.
        is_of_parent = self._pid != os.getpid() or (self._is_of_hadoop and jvm_is_of_parent())
        if self._kind in _HDFS and is_of_parent:
            raise StateStoreError(
                "this process was forked from one that has used this filesystem, whose threads do not survive that",
                self.identity,
                remedy="Use a URI with hdfs-native (`client` of the storage options), or HDFS in the child alone",
            )
        return super().filesystem

    def create(self, path: str, content: Iterable[Buffer]) -> None:
        with typed_errors.writing(path):
            if self._info(path).type != FileType.NotFound:
                raise typed_errors.already_there(path)
        if self._kind in _OBJECT_STORES:
            self._put(path, content, is_new=True)
        else:
            self._publish(path, content, overwrite=False)

    def replace(self, path: str, content: Iterable[Buffer]) -> None:
        if self._kind in _OBJECT_STORES:
            self._put(path, content, is_new=False)
        else:
            self._publish(path, content, overwrite=True)

    def write_unique(self, path: str, content: Iterable[Buffer]) -> None:
        if self._kind in _OBJECT_STORES:
            self._put(path, content, is_new=True)
        else:
            self._publish(path, content, overwrite=True)

    def delete(self, paths: Sequence[str]) -> None:
        undeleted = typed_errors.Undeleted()
        for path in paths:
            try:
                self.filesystem.delete_file(path)
            except FileNotFoundError:
                log.debug("%s was gone already", path)
            except Exception as error:  # noqa: BLE001 fsspec's filesystems have errors of their own
                if not self._is_missing(path):  # HadoopFileSystem has one error for all cases
                    undeleted.add(path, error)
        undeleted.check()

    def abort_unfinished(self, folder: str, grace_ns: int) -> int:  # noqa: ARG002 - a list shows what is unfinished
        return 0

    def now_ns(self, folder: str) -> int:
        probe = f"{folder}/{temporary_name('now')}"
        with typed_errors.writing(probe):
            try:
                with self.filesystem.open_output_stream(probe, compression=None):
                    pass
                return self._info(probe).mtime_ns or time.time_ns()  # some filesystems tell no times
            finally:
                self._try_to_delete(probe)

    def _put(self, path: str, content: Iterable[Buffer], *, is_new: bool) -> None:
        whole = b"".join(content)
        try:
            with typed_errors.writing(path):
                with self.filesystem.open_output_stream(path, compression=None) as file:
                    file.write(whole)
                if self._kind not in _S3 and (size := self._info(path).size) != len(whole):
                    raise OSError(f"{size} of {len(whole)} bytes have arrived")
        except BaseException:
            if is_new and self._kind not in _S3:
                self._try_to_delete(path)
            raise

    def _publish(self, path: str, content: Iterable[Buffer], *, overwrite: bool) -> None:
        temporary = temporary_path(path)
        try:
            with typed_errors.writing(path):
                self.filesystem.create_dir(path.rpartition("/")[0], recursive=True)
                file = self.filesystem.open_output_stream(temporary, compression=None)
            size = 0
            try:
                for piece in content:
                    whole = bytes(piece)  # other buffers are slow
                    with typed_errors.writing(path):
                        file.write(whole)
                    size += len(whole)
            finally:
                with typed_errors.writing(path):
                    file.close()  # publishes even a partial file, hence the temporary name
            with typed_errors.writing(path):
                self._rename(temporary, path, size, overwrite=overwrite)
        except BaseException:
            self._try_to_delete(temporary)
            raise

    def _rename(self, temporary: str, path: str, size: int, *, overwrite: bool) -> None:
        """Renames a whole new file. FileExistsError: the name is taken, without overwrite."""
        refused = self._move(temporary, path, overwrite=overwrite)
        left, there = self.filesystem.get_file_info([temporary, path])
        if left.type == FileType.NotFound:
            if there.type != FileType.File or there.size not in (size, None):
                raise refused or OSError(f"after the rename from {temporary} the file is not there")
        elif there.type == FileType.NotFound or (overwrite and there.type != FileType.File):
            raise refused or OSError(f"the rename from {temporary} has done nothing")
        elif overwrite:
            self._set_aside(temporary, path)
        else:
            raise typed_errors.already_there(path)

    def _set_aside(self, temporary: str, path: str) -> None:
        """Renames a file over an earlier one, on a filesystem that does so in two steps only."""
        aside = f"{temporary}.old"  # no name that the clean-up of leftovers knows: it may be the only copy
        refused = self._move(path, aside)
        if self._info(path).type != FileType.NotFound:
            raise refused or OSError(f"the rename to {aside} has done nothing")
        refused = self._move(temporary, path)
        if self._info(path).type == FileType.NotFound:
            undone = self._move(aside, path)
            lost = f", and neither could the old one, which is {aside} now: {undone}" if undone else ""
            raise OSError(f"the new file could not be renamed: {refused}{lost}")
        self._try_to_delete(aside)

    def _move(self, source: str, target: str, *, overwrite: bool = False) -> Exception | None:
        """Asks for a rename, and returns the error of it. What has happened must be looked at."""
        try:
            if overwrite and self._replaces:
                self.filesystem.handler.fs.mv(source, target, overwrite=True)
            else:
                self.filesystem.move(source, target)
        except Exception as error:  # noqa: BLE001 fsspec's filesystems have errors of their own
            return error
        return None

    def _info(self, path: str) -> FileInfo:
        return self.filesystem.get_file_info([path])[0]

    def _is_missing(self, path: str) -> bool:
        """Whether it is certain that there is no such file.

        HadoopFileSystem's get_file_info says so of any error, and to open a folder has the error of a missing file.
        """
        try:
            if self._info(path).type != FileType.NotFound:
                return False
            self.filesystem.open_input_file(path).close()
        except FileNotFoundError:
            return True
        except Exception:  # noqa: BLE001 fsspec's filesystems have errors of their own
            return False
        return False

    def _try_to_delete(self, path: str) -> None:
        """Cleans up after an error without hiding that error. Maintenance deletes a file that stays."""
        try:
            self.delete([path])
        except StateStoreError as error:
            log.warning("%s is left behind: %s", path, error)


def kind_of(fs: FileSystem) -> str:
    """The filesystem's scheme."""
    if isinstance(fs, PyFileSystem) and isinstance(fs.handler, FSSpecHandler):
        protocol = fs.handler.fs.protocol
        return str(protocol if isinstance(protocol, str) else protocol[0])
    return str(fs.type_name)


def _client_of(fs: FileSystem) -> object:
    """What has the threads: pyarrow makes a new object round it for each use of a folder of it (SubTreeFileSystem)."""
    return fs.handler.fs if isinstance(fs, PyFileSystem) and isinstance(fs.handler, FSSpecHandler) else fs


def _is_of_hadoop(fs: FileSystem) -> bool:
    """Whether it is a HadoopFileSystem, maybe as fsspec wraps it."""
    if isinstance(fs, PyFileSystem):
        return isinstance(getattr(getattr(fs.handler, "fs", None), "fs", None), FileSystem)
    return True


def _place(fs: FileSystem) -> str:
    """Where the filesystem is, without any credentials."""
    options: Any = {}
    if isinstance(fs, PyFileSystem):
        options = getattr(getattr(fs.handler, "fs", None), "storage_options", {})
    else:
        arguments = fs.__reduce__()[1]
        options = next((each for each in arguments if isinstance(each, dict)), {})
    places = (str(options[key]) for key in _PLACES if options.get(key))
    return ":".join(place.rpartition("://")[2].rpartition("@")[2] for place in places)
