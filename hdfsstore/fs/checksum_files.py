"""Checks a file `name` against the checksum files beside it, while it is read from start to end.

`.name.crc`, written by Hadoop's local file systems (ChecksumFileSystem.java):

    bytes  content
    4      "crc" and a zero byte
    4      int32 BE: bytes of the file that one checksum covers, 512 by default
    4 n    uint32 BE: the CRC-32 (zlib's polynomial) of each such chunk; the last one may be shorter

`name.crc`, written by Spark 4.1 and later (ChecksumCheckpointFileManager.scala), JSON:

    {"algorithm":"CRC32C","value":-123,"mainFileSize":456,"timestampMs":...,"creator":{...}}

where value is the CRC-32C of the whole file as a signed int32.
"""

from __future__ import annotations

import json
import logging
import zlib
from typing import Protocol

from hdfsstore._cext.crc32 import first_bad_chunk
from hdfsstore._cext.crc32c import crc32c
from hdfsstore.errors import CorruptFileError

log = logging.getLogger("hdfsstore.checksum_files")

REMEDY = "The file or its checksum file was damaged or changed after it was written: restore both from a copy"
MAGIC = b"crc\0"


class Check(Protocol):
    """Takes the bytes of a file in order, and raises CorruptFileError if a checksum does not match."""

    def update(self, data: memoryview) -> None: ...

    def finish(self) -> None:
        """Checks the end of the file."""


def hadoop_name(name: str) -> str:
    return f".{name}.crc"


def spark_name(name: str) -> str:
    return f"{name}.crc"


def hadoop_check(path: str, checksum_path: str, content: bytes) -> Check | None:
    """The check of a `.name.crc`. As Hadoop does, one that is no checksum file is ignored with a warning."""
    if len(content) < 8 or not content.startswith(MAGIC):
        log.warning(f"{checksum_path}: not a checksum file; {path} is read unchecked")
        return None
    chunk = int.from_bytes(content[4:8], "big", signed=True)
    if chunk <= 0:
        raise CorruptFileError(f"a checksum for every {chunk} bytes", checksum_path, 4, REMEDY)
    if len(content) % 4:
        raise CorruptFileError("the last checksum is cut off", checksum_path, len(content) // 4 * 4, REMEDY)
    return _ChunkCheck(path, checksum_path, chunk, memoryview(content)[8:])


def spark_check(path: str, checksum_path: str, content: bytes) -> Check | None:
    """The check of a `name.crc`. One with another algorithm than CRC32C is ignored with a warning."""
    try:
        fields = json.loads(content)
        algorithm, value, size = fields["algorithm"], fields["value"], fields["mainFileSize"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptFileError(f"not a checksum file of Spark: {error!r}", checksum_path, remedy=REMEDY) from error
    if algorithm != "CRC32C":
        log.warning(f"{checksum_path}: unknown algorithm; {path} is read unchecked")
        return None
    if type(value) is not int or type(size) is not int:
        raise CorruptFileError("value and mainFileSize must be integers", checksum_path, remedy=REMEDY)
    return _WholeCheck(path, checksum_path, value & 0xFFFFFFFF, size)


class _ChunkCheck:
    def __init__(self, path: str, checksum_path: str, chunk: int, sums: memoryview) -> None:
        self._path = path
        self._checksum_path = checksum_path
        self._chunk = chunk
        self._sums = sums
        self._index = 0  # of the current chunk
        self._begun = 0  # bytes of it so far
        self._crc = 0  # and their CRC

    def update(self, data: memoryview) -> None:
        if self._begun:
            rest = data[: self._chunk - self._begun]
            self._add(rest)
            data = data[len(rest) :]
        whole = len(data) // self._chunk
        if whole:
            sums = self._sums[4 * self._index : 4 * (self._index + whole)]
            covered = len(sums) // 4
            bad = first_bad_chunk(data[: covered * self._chunk], sums, self._chunk)
            if bad >= 0:
                raise self._mismatch(self._index + bad)
            if covered < whole:
                raise self._uncovered(self._index + covered)
            self._index += whole
            data = data[whole * self._chunk :]
        if len(data):
            self._add(data)

    def finish(self) -> None:
        if self._begun:
            self._end_chunk()
        count = len(self._sums) // 4
        if self._index < count:
            raise CorruptFileError(
                f"the file ends after {self._index} of the {count} chunks in {self._checksum_path}",
                self._path,
                self._index * self._chunk,
                REMEDY,
            )

    def _add(self, data: memoryview) -> None:
        self._crc = zlib.crc32(data, self._crc)
        self._begun += len(data)
        if self._begun == self._chunk:
            self._end_chunk()

    def _end_chunk(self) -> None:
        expected = self._sums[4 * self._index : 4 * self._index + 4]
        if not len(expected):
            raise self._uncovered(self._index)
        if int.from_bytes(expected, "big") != self._crc:
            raise self._mismatch(self._index)
        self._index += 1
        self._begun = self._crc = 0

    def _mismatch(self, index: int) -> CorruptFileError:
        at = index * self._chunk
        return CorruptFileError(f"the checksum in {self._checksum_path} does not match", self._path, at, REMEDY)

    def _uncovered(self, index: int) -> CorruptFileError:
        at = index * self._chunk
        return CorruptFileError(f"{self._checksum_path} has no checksum from here on", self._path, at, REMEDY)


class _WholeCheck:
    def __init__(self, path: str, checksum_path: str, value: int, size: int) -> None:
        self._path = path
        self._checksum_path = checksum_path
        self._value = value
        self._size = size
        self._crc = 0
        self._seen = 0

    def update(self, data: memoryview) -> None:
        self._crc = crc32c(data, self._crc)
        self._seen += len(data)

    def finish(self) -> None:
        if self._seen != self._size:
            what = f"{self._seen} bytes where {self._checksum_path} says {self._size}"
            raise CorruptFileError(what, self._path, min(self._seen, self._size), REMEDY)
        if self._crc != self._value:
            what = f"the CRC-32C of the whole file is {self._crc:#010x}, {self._checksum_path} says {self._value:#010x}"
            raise CorruptFileError(what, self._path, None, REMEDY)
