"""Reads one version of an object, by ranges.

first request     the object's first bytes, or all of it. The answer tells the size and the ETag (ObjectStream)
what follows      with If-Match: ranges, several at once, or all of it by one request (RangeReader)
"""

from __future__ import annotations

import errno

import pyarrow as pa

from hdfsstore.errors import FileChangedError, StateStoreError
from hdfsstore.fs.ahead import share
from hdfsstore.fs.range_reader import BLOCK, RangeReader
from hdfsstore.fs.s3.bucket import Bucket
from hdfsstore.fs.s3.failures import S3Failure, hidden_object
from hdfsstore.fs.s3.object_stream import ObjectStream

# So much is asked for at first, where the size is not known or is large.
_FIRST = 1 << 20
_NO_SUCH_RANGE = 416


def open_object(bucket: Bucket, key: str, size: int | None) -> RangeReader:
    """Opens an object for reading.

    Args:
        size: if it is known. A small object then is one request, and a large one is where nothing may be ahead.

    Raises:
        FileNotFoundError: there is no such object.
    """
    at_once = size is not None and (size <= BLOCK or share() == 0)
    end = max(size, 1) if at_once and size is not None else _FIRST
    first = ObjectStream(bucket, key, 0, end, None)
    space = bytearray(end if end <= BLOCK else _FIRST)
    content: bytes | bytearray = b""  # an empty object has no first byte
    try:
        got = first.readinto(space)
        # It cannot be cut where it is: the error of an earlier try may be alive, and hold it.
        content = space if got == len(space) else bytes(memoryview(space)[:got])
    except S3Failure as found:
        if found.status == 404 and found.code != "NoSuchBucket":
            raise FileNotFoundError(errno.ENOENT, "there is no such file", bucket.uri(key)) from None
        if found.status != _NO_SUCH_RANGE:
            raise _typed(found, bucket, key) from None

    if first.size > end:
        first.close()  # it has grown since it was listed

    def read_range(offset: int, length: int) -> memoryview:
        # Unlike a bytearray's, this memory is not zeroed, and it is used again for later ranges.
        content = memoryview(pa.allocate_buffer(length)).cast("B")
        return content[: rest(offset, offset + length).readinto(content)]

    def rest(offset: int, end: int) -> _Rest:
        return _Rest(ObjectStream(bucket, key, offset, end, first.etag), bucket, key)

    return RangeReader(
        content,
        first.size,
        read_range,
        path=bucket.uri(key),
        open_stream=lambda offset: rest(offset, first.size),
        stream=_Rest(first, bucket, key) if first.is_open else None,
    )


class _Rest:
    """Bytes of an object after its first ones. Errors are typed."""

    def __init__(self, stream: ObjectStream, bucket: Bucket, key: str) -> None:
        self._stream = stream
        self._bucket = bucket
        self._key = key

    def readinto(self, buffer: memoryview, /) -> int:
        try:
            return self._stream.readinto(buffer)
        except S3Failure as found:
            raise _typed(found, self._bucket, self._key, was_there=True) from None

    def close(self) -> None:
        self._stream.close()


def _typed(found: S3Failure, bucket: Bucket, key: str, *, was_there: bool = False) -> StateStoreError:
    if found.status == 412 or (was_there and found.status in (404, _NO_SUCH_RANGE)):
        return FileChangedError("the object was replaced while it was read", bucket.uri(key), remedy="Read it again")
    return bucket.error(hidden_object(found), key)
