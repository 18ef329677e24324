"""The steps by which a file is written to HDFS, as calls that may be tried again."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from hdfsstore.fs.hdfs.client import HdfsClient, HdfsError, WritableFile
from hdfsstore.fs.temporary_names import temporary_path

if TYPE_CHECKING:
    from typing_extensions import Buffer

log = logging.getLogger("hdfsstore.fs.hdfs")

# So many bytes are sent by one call. A file of at most so many is sent again if that has failed.
_CHUNK = 8 << 20
_TRIES_WITH_ALL_REPLICAS = 2


class Write:
    """Writes a small file under a new temporary name, which it returns. It may be tried again."""

    def __init__(self, path: str, content: bytes) -> None:
        self._path = path
        self._content = content
        self._tries = 0

    def __call__(self, client: HdfsClient) -> str:
        self._tries += 1
        temporary, file = create_temporary(client, self._path, one_replica=self._tries > _TRIES_WITH_ALL_REPLICAS)
        try:
            if self._content:
                file.write(self._content)
            file.close()
        except HdfsError:
            with suppress(HdfsError):  # maintenance deletes it later
                client.delete(temporary)
            raise
        except FileNotFoundError as error:
            raise _deleted(error) from error
        return temporary


class Rename:
    """A rename that may be tried again."""

    def __init__(self, temporary: str, path: str, *, overwrite: bool) -> None:
        self._temporary = temporary
        self._path = path
        self._overwrite = overwrite
        self._unanswered = False

    def __call__(self, client: HdfsClient) -> None:
        try:
            client.rename(self._temporary, self._path, overwrite=self._overwrite)
        except FileNotFoundError:
            if not self._unanswered:
                raise
            log.debug("%s: the rename was carried out, though its answer was lost", self._path)
        except HdfsError:
            self._unanswered = True
            raise


def create_temporary(client: HdfsClient, path: str, *, one_replica: bool = False) -> tuple[str, WritableFile]:
    temporary = temporary_path(path)
    try:
        return temporary, client.create(temporary, one_replica=one_replica)
    except (FileExistsError, FileNotFoundError) as error:  # neither is about `path`
        raise HdfsError(type(error).__name__, str(error), may_pass=False) from error


def append(file: WritableFile, chunk: bytes, _: HdfsClient) -> None:
    try:
        file.write(chunk)
    except FileNotFoundError as error:
        raise _deleted(error) from error


def finish(file: WritableFile, _: HdfsClient) -> None:
    try:
        file.close()
    except FileNotFoundError as error:
        raise _deleted(error) from error


def _deleted(error: FileNotFoundError) -> HdfsError:
    """The error of a temporary file that is gone: FileNotFoundError would be about the file that is written."""
    return HdfsError("FileNotFound", str(error), may_pass=False)


def clock(client: HdfsClient, folder: str) -> int:
    temporary = Write(f"{folder.rstrip('/')}/clock", b"")(client)
    now: int = client.info(temporary).mtime_ns
    client.delete(temporary)
    return now


def chunks_of(content: Iterable[Buffer]) -> Iterator[bytes]:
    """Joins pieces to bytes, which hdfs-native takes many times faster than other buffers."""
    pieces: list[memoryview] = []
    size = 0
    for piece in content:
        rest = memoryview(piece).cast("B")
        while size + len(rest) > _CHUNK:
            pieces.append(rest[: _CHUNK - size])
            rest = rest[_CHUNK - size :]
            yield b"".join(pieces)
            pieces, size = [], 0
        pieces.append(rest)
        size += len(rest)
    if size:
        yield b"".join(pieces)
