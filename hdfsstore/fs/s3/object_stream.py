"""Reads bytes of one version of an object, one after the other.

first request     its answer tells the size, and the ETag if it is not known
answer cut        the rest is asked for, with If-Match. 412: the object was replaced
"""

from __future__ import annotations

import logging
import re
import time
from typing import Any

from urllib3.response import HTTPResponse

from hdfsstore.fs.calls import Progress
from hdfsstore.fs.s3.bucket import Bucket
from hdfsstore.fs.s3.failures import S3Failure

log = logging.getLogger("hdfsstore.fs.s3")

_PIECE = 1 << 20  # of a body: each is progress
_CONTENT_RANGE = re.compile(r"bytes (?P<start>\d+)-\d+/(?P<size>\d+)")


class ObjectStream:
    """The bytes of an object from `start` to `end`, or to its own end, for one thread.

    Between two reads the answer stays open. If the server does not wait so long, the rest is asked for.

    Attributes:
        size: of the object, once something was read.
        etag: of the version that is read; None: that of the first answer.
    """

    def __init__(self, bucket: Bucket, key: str, start: int, end: int, etag: str | None) -> None:
        self._bucket = bucket
        self._key = key
        self._at = start
        self._end = end
        self._body: Any = None
        self.etag = etag
        self.size = 0

    @property
    def is_open(self) -> bool:
        """Whether more bytes are on the way."""
        return self._body is not None

    def readinto(self, buffer: bytearray | memoryview, /) -> int:
        """Fills the buffer with the next bytes. Returns their number, which is smaller only at the end.

        Raises:
            S3Failure: 404, 412 or 416 tell of the object, any other status of trouble.
            FileSystemTimeoutError: there was no further byte until the deadline.
        """
        with memoryview(buffer) as view:
            target = _Target(view, self._at)
            if self._body is None or not self._goes_on(target):

                def take(answer: dict[str, Any]) -> None:
                    self._begin(answer)
                    self._read(target)

                self._bucket.ask("GET", "get_object", self._key, self._arguments, then=take, progress=target.progress)
            return self._at - target.start

    def close(self) -> None:
        """Ends the answer. A later read asks for the rest."""
        body, self._body = self._body, None
        if body is not None:
            body.close()

    def _arguments(self) -> dict[str, Any]:
        version = {} if self.etag is None else {"IfMatch": self.etag}
        return {"Key": self._key, "Range": f"bytes={self._at}-{self._end - 1}", **version, **self._bucket.of_objects}

    def _goes_on(self, target: _Target) -> bool:
        """Reads in the open answer. Returns False if it was cut."""
        began = time.monotonic()
        try:
            with self._bucket.failures():
                self._read(target)
        except S3Failure as found:
            if not found.may_pass:
                raise
            log.debug("%s: the rest from %d on is asked for after %s", self._bucket.uri(self._key), self._at, found)
            return False
        finally:
            self._bucket.requests.waited(time.monotonic() - began)
        return True

    def _begin(self, answer: dict[str, Any]) -> None:
        """Looks at what the answer is about."""
        self._body = answer["Body"]
        at = _CONTENT_RANGE.fullmatch(answer.get("ContentRange", ""))
        try:
            if not at and "ContentLength" not in answer:
                raise S3Failure("the answer has no length", remedy="Use a server, or a proxy, that sends one")
            start, size = (int(at["start"]), int(at["size"])) if at else (0, int(answer["ContentLength"]))
            if start != self._at:
                raise S3Failure("the server does not honour Range", remedy="Use a server, or a proxy, that does")
            if self.etag not in (None, answer["ETag"]):
                raise S3Failure("the object was replaced", status=412)
        except S3Failure:
            self.close()
            raise
        self.etag, self.size = answer["ETag"], size
        self._end = min(self._end, size)

    def _read(self, target: _Target) -> None:
        end = min(target.start + len(target.view), self._end)
        try:
            while self._at < end:
                at = self._at - target.start
                with target.view[at : at + min(_PIECE, end - self._at)] as piece:
                    got = self._fill(piece)
                self._at += got
                self._bucket.requests.read(got)
                target.progress.at(self._at)
        except BaseException:
            self.close()  # it may be further than what was read
            raise
        if self._at == self._end:
            self.close()

    def _fill(self, piece: memoryview) -> int:
        """Receives the next bytes where they are wanted: the client's own `read` and `readinto` copy them."""
        answer = self._body._raw_stream
        if not isinstance(answer, HTTPResponse):  # of a handler that answers in the server's place, as in tests
            content = self._body.read(len(piece))
            piece[: len(content)] = content
            return self._not_cut(len(content))
        source: Any = answer._fp  # http.client's
        with answer._error_catcher():  # an error in it ends the connection
            return self._not_cut(source.readinto(piece))

    def _not_cut(self, got: int) -> int:
        if not got:
            raise S3Failure(
                f"the answer was cut {self._end - self._at} bytes before its end",
                may_pass=True,
                remedy="Check the connection to the server",
            )
        return got


class _Target:
    """Where the bytes from `start` on are wanted."""

    def __init__(self, view: memoryview, start: int) -> None:
        self.view = view
        self.start = start
        self.progress = Progress()
