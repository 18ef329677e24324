"""Reads one version of an object, by ranges.

first request     the object's first bytes, or all of it. The answer tells the size and the ETag
further ranges    with If-Match, several at once (RangeReader). 412: the object was replaced
answer cut        the rest of the range is asked for, with If-Match
"""

from __future__ import annotations

import errno
import re
from contextlib import closing
from typing import Any

from hdfsstore.errors import FileChangedError, StateStoreError
from hdfsstore.fs.calls import Progress
from hdfsstore.fs.range_reader import BLOCK, RangeReader
from hdfsstore.fs.s3.bucket import Bucket
from hdfsstore.fs.s3.failures import S3Failure, hidden_object

# So much is asked for at first, where the size is not known or is large.
_FIRST = 1 << 20
_PIECE = 1 << 20
_CONTENT_RANGE = re.compile(r"bytes (?P<start>\d+)-\d+/(?P<size>\d+)")
_NO_SUCH_RANGE = 416


def open_object(bucket: Bucket, key: str, size: int | None) -> RangeReader:
    """Opens an object for reading.

    Args:
        size: if it is known. A small object then is one request.

    Raises:
        FileNotFoundError: there is no such object.
    """
    length = _FIRST if size is None or size > BLOCK else max(size, 1)
    first = _Range(bucket, key, 0, length, None)
    try:
        content = first.read()
    except S3Failure as found:
        if found.status == 404 and found.code != "NoSuchBucket":
            raise FileNotFoundError(errno.ENOENT, "there is no such file", bucket.uri(key)) from None
        if found.status != _NO_SUCH_RANGE:
            raise _typed(found, bucket, key) from None
        content = bytearray()  # of an empty object there is no first byte

    def read_range(offset: int, length: int) -> bytearray:
        try:
            return _Range(bucket, key, offset, length, first.etag).read()
        except S3Failure as found:
            raise _typed(found, bucket, key, was_there=True) from None

    return RangeReader(content, first.size, read_range, path=bucket.uri(key))


def _typed(found: S3Failure, bucket: Bucket, key: str, *, was_there: bool = False) -> StateStoreError:
    if found.status == 412 or (was_there and found.status in (404, _NO_SUCH_RANGE)):
        return FileChangedError("the object was replaced while it was read", bucket.uri(key), remedy="Read it again")
    return bucket.error(hidden_object(found), key)


class _Range:
    """Bytes of an object. A try goes on where the one before was cut.

    Attributes:
        size: of the object, once it is read.
        etag: of the version that is read; None: that of the first answer.
    """

    def __init__(self, bucket: Bucket, key: str, start: int, length: int, etag: str | None) -> None:
        self._bucket = bucket
        self._key = key
        self._start = start
        self._buffer = bytearray(length)
        self._filled = 0
        self._progress = Progress()
        self.etag = etag
        self.size = 0

    def read(self) -> bytearray:
        """Raises: S3Failure: 404, 412 or 416 tell of the object, any other status of trouble."""
        self._bucket.ask("GET", "get_object", self._key, self._arguments, then=self._take, progress=self._progress)
        return self._buffer

    def _arguments(self) -> dict[str, Any]:
        wanted = f"bytes={self._start + self._filled}-{self._start + len(self._buffer) - 1}"
        version = {} if self.etag is None else {"IfMatch": self.etag}
        return {"Key": self._key, "Range": wanted, **version, **self._bucket.of_objects}

    def _take(self, answer: dict[str, Any]) -> None:
        with closing(answer["Body"]) as body:
            self._check(answer)
            self._read(body)

    def _check(self, answer: dict[str, Any]) -> None:
        """Looks at what the answer is about."""
        at = _CONTENT_RANGE.fullmatch(answer.get("ContentRange", ""))
        start, size = (int(at["start"]), int(at["size"])) if at else (0, int(answer["ContentLength"]))
        if start != self._start + self._filled:
            raise S3Failure("the server does not honour Range", remedy="Use a server, or a proxy, that does")
        if self.etag not in (None, answer["ETag"]):
            raise S3Failure("the object was replaced", status=412)
        self.etag, self.size = answer["ETag"], size
        del self._buffer[max(size - self._start, 0) :]

    def _read(self, body: Any) -> None:
        with memoryview(self._buffer) as view:
            while self._filled < len(view):
                piece = body.read(min(_PIECE, len(view) - self._filled))
                if not piece:
                    raise S3Failure(
                        f"the answer was cut after {self._filled} of {len(view)} bytes",
                        may_pass=True,
                        remedy="Check the connection to the server",
                    )
                view[self._filled : self._filled + len(piece)] = piece
                self._filled += len(piece)
                self._bucket.requests.read(len(piece))
                self._progress.at(self._filled)
