"""The files of one HDFS.

create, replace         .<name>.<uuid>.tmp in the same folder, then a rename: neither client can take back a file
                        that is half written, so only the rename counts
a rename without        it is made again. If the temporary name is gone then, the first one was carried out:
an answer               nothing else takes that name away. One that was given up may still be carried out, so
                        nothing is written under its name by this process before that is known
                        (unknown_outcomes.py)
create                  the rename does not overwrite: one of any number of racers wins
read                    all ranges by the blocks that the file had when it was opened. If they can no longer be
                        read, the file is opened anew if it is still the same by length and time
a dead writer           leaves a file .<name>.<uuid>.tmp, which may be under construction. It can be deleted
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from pyarrow.fs import FileInfo, FileType

from hdfsstore.errors import FileSystemTimeoutError, StateStoreError
from hdfsstore.fs.ahead import InOrder
from hdfsstore.fs.calls import Calls
from hdfsstore.fs.file_manager import Promises
from hdfsstore.fs.hdfs.choose_client import choose
from hdfsstore.fs.hdfs.client import HdfsClient, HdfsError
from hdfsstore.fs.hdfs.per_process import PerProcess
from hdfsstore.fs.hdfs.ranges import Ranges, open_small
from hdfsstore.fs.hdfs.writing import Rename, Write, append, chunks_of, clock, create_temporary, finish
from hdfsstore.fs.range_reader import BLOCK, RangeReader
from hdfsstore.fs.request_metrics import RequestMetrics
from hdfsstore.fs.typed_errors import Undeleted
from hdfsstore.fs.unknown_outcomes import UnknownOutcomes

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from hdfsstore.fs.hdfs.settings import HdfsSettings

T = TypeVar("T")

log = logging.getLogger("hdfsstore.fs.hdfs")

_RIGHTS = "Grant the user of this process the rights, or act as another user (HADOOP_USER_NAME without Kerberos)"
_LOGIN = "Log in (kinit), or see that HADOOP_TOKEN_FILE_LOCATION names a file with a token that is still valid"
_REMEDIES = {
    "AccessControlException": _RIGHTS,
    "AuthorizationException": _RIGHTS,
    "GSSAPIError": _LOGIN,
    "InvalidToken": _LOGIN,
    "NoSASLMechanism": _LOGIN,
    "SASLError": _LOGIN,
    "SaslException": _LOGIN,
    "DSQuotaExceededException": "Delete files there, or let an administrator raise the quota of space",
    "NSQuotaExceededException": "Delete files there, or let an administrator raise the quota of names",
    "QuotaByStorageTypeExceededException": "Delete files there, or let an administrator raise the quota",
    "SafeModeException": "Wait until the NameNode has left safe mode (hdfs dfsadmin -safemode get)",
}
_UP = "Check that the NameNode and the DataNodes are up and can be reached from here"
_OTHER = "Check what is at this path in HDFS, and what the log of the NameNode says"
_INFOS_AT_ONCE = 8
_KMS = "KMS"
_KMS_REMEDY = "The file is in an encryption zone: see that hadoop.security.key.provider.path names its key server"


class HdfsFileManager:
    """A FileManager. Paths are absolute. It may be used in forked children: each process has a client of its own."""

    promises = Promises(create_if_absent=True, atomic_replace=True, versioned_reads=True, tested=True)

    def __init__(self, settings: HdfsSettings) -> None:
        chosen = choose(settings)
        self.identity = settings.url
        self.client_name = chosen.name
        self.requests = RequestMetrics()
        self._clients = PerProcess(chosen.make)
        self._calls = Calls(settings.timeout_s, self.requests, _may_pass, identity=self.identity)
        self._unknown = UnknownOutcomes(settings.timeout_s)

    def list_folder(self, folder: str) -> list[FileInfo]:
        try:
            infos = self._call("list", folder, lambda client: client.list_folder(folder))
        except FileNotFoundError:
            return []
        return sorted(infos, key=lambda info: info.base_name)

    def file_infos(self, paths: Sequence[str]) -> list[FileInfo]:
        if len(paths) == 1:
            return [self._info(paths[0])]
        infos = InOrder([partial(self._info, path) for path in paths], _INFOS_AT_ONCE)
        try:
            return list(infos)
        finally:
            infos.drop()

    def open_file(self, path: str, size: int | None = None) -> RangeReader:
        if size is None or size <= BLOCK:
            file, first = self._call("open", path, partial(open_small, path=path))
            if len(first) == file.size:
                self.requests.read(file.size)
                return RangeReader(first, file.size, file.read_range, path=path)
        info = self._info(path)  # of the file that is opened next, or of an older one
        file, _ = self._call("open", path, partial(open_small, path=path))
        return RangeReader(b"", file.size, Ranges(self._call, self.requests, path, file, info).read, path=path)

    def create(self, path: str, content: Iterable[Buffer]) -> None:
        self._publish(path, content, overwrite=False)

    def replace(self, path: str, content: Iterable[Buffer]) -> None:
        self._publish(path, content, overwrite=True)

    def write_unique(self, path: str, content: Iterable[Buffer]) -> None:
        self._publish(path, content, overwrite=True)

    def delete(self, paths: Sequence[str]) -> None:
        undeleted = Undeleted()
        for path in paths:
            self._unknown.check_deletion(path)
            try:
                # A deletion that hangs, or was given up, would hit what is written there later.
                with self._calls.writing(path), self._unknown.of_deletion((path,)):
                    self._untyped_call("delete", path, partial(_delete, path=path))
            except HdfsError as error:  # a timeout ends it: each further file would take as long
                undeleted.add(path, error)
        undeleted.check()

    def abort_unfinished(self, folder: str, grace_ns: int) -> int:  # noqa: ARG002 - a list shows what is unfinished
        return 0

    def now_ns(self, folder: str) -> int:
        return self._call("clock", folder, lambda client: clock(client, folder))

    def _info(self, path: str) -> FileInfo:
        try:
            return self._call("info", path, lambda client: client.info(path))
        except FileNotFoundError:
            return FileInfo(path, type=FileType.NotFound)

    def _publish(self, path: str, content: Iterable[Buffer], *, overwrite: bool) -> None:
        self._unknown.check(path)
        temporary = self._write(path, content)
        # A creation that is carried out late finds the name taken, or takes it as it would have in time.
        unknown = self._unknown.of(path, partial(self._is_gone, temporary)) if overwrite else nullcontext()
        try:
            with self._calls.writing(path), unknown:
                self._call("rename", path, Rename(temporary, path, overwrite=overwrite))
        except FileNotFoundError as error:
            raise StateStoreError(
                f"the file was written as {temporary}, which somebody has deleted",
                path,
                remedy="See that nothing else deletes files there that are being written",
            ) from error
        except FileSystemTimeoutError:
            raise  # the rename may still be carried out
        except BaseException:
            self._try_to_delete(temporary)
            raise

    def _is_gone(self, temporary: str) -> bool:
        return bool(self._info(temporary).type == FileType.NotFound)

    def _write(self, path: str, content: Iterable[Buffer]) -> str:
        """Writes a file under a temporary name, which it returns."""
        chunks = chunks_of(content)
        first, second = next(chunks, b""), next(chunks, None)
        if second is not None:
            return self._write_long(path, chain((first, second), chunks))
        temporary = self._call("write", path, Write(path, first))
        self.requests.written(len(first))
        return temporary

    def _write_long(self, path: str, chunks: Iterable[bytes]) -> str:
        temporary, file = self._call("create", path, lambda client: create_temporary(client, path))
        try:
            for chunk in chunks:
                self._call("write", path, partial(append, file, chunk), repeatable=False)
                self.requests.written(len(chunk))
            self._call("close", path, partial(finish, file), repeatable=False)
        except FileSystemTimeoutError:
            raise
        except BaseException:
            self._try_to_delete(temporary)
            raise
        return temporary

    def _try_to_delete(self, temporary: str) -> None:
        """Cleans up after an error without hiding that error. Maintenance deletes a file that stays."""
        try:
            self._call("delete", temporary, partial(_delete, path=temporary), repeatable=False)
        except StateStoreError as error:
            log.warning("%s is left behind: %s", temporary, error)

    def _call(self, kind: str, path: str, work: Callable[[HdfsClient], T], *, repeatable: bool = True) -> T:
        try:
            return self._untyped_call(kind, path, work, repeatable=repeatable)
        except HdfsError as error:
            raise _typed(path, error) from error

    def _untyped_call(self, kind: str, path: str, work: Callable[[HdfsClient], T], *, repeatable: bool = True) -> T:
        begun: list[HdfsClient] = []

        def run() -> T:
            begun.append(client := self._clients.get())
            try:
                return work(client)
            finally:
                begun.clear()

        try:
            return self._calls.call(kind, path, run, repeatable=repeatable, on_thread=True)
        except FileSystemTimeoutError:
            for client in list(begun):  # it hangs, maybe on a connection that is dead
                self._clients.forget(client)
            raise


def _delete(client: HdfsClient, path: str) -> None:
    client.delete(path)


def _may_pass(error: Exception) -> bool:
    return isinstance(error, HdfsError) and error.may_pass


def _typed(path: str, error: HdfsError) -> StateStoreError:
    remedy = _KMS_REMEDY if _KMS in str(error) else _REMEDIES.get(error.kind, _UP if error.may_pass else _OTHER)
    return StateStoreError(f"HDFS has failed: {error}", path, remedy=remedy)
