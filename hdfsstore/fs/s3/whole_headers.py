"""Lets a botocore client see that an answer was cut in its headers.

Python's http.client ends the headers at an empty line, or where the connection ends. So an answer that was cut there
lacks the headers behind the cut, and nobody is told: a list without its Content-Length is empty, an object without its
metadata is somebody else's.
"""

from __future__ import annotations

from http.client import HTTPResponse, RemoteDisconnected
from typing import Any

from botocore.awsrequest import (
    AWSHTTPConnection,
    AWSHTTPConnectionPool,
    AWSHTTPSConnection,
    AWSHTTPSConnectionPool,
)


def require_whole_headers(client: Any) -> None:
    """From now on, botocore raises a ConnectionClosedError for an answer that was cut in its headers."""
    client._endpoint.http_session._pool_classes_by_scheme.update(http=_Pool, https=_SecurePool)


class _Lines:
    """The lines of an answer, for http.client. It keeps the last one."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.last = b""

    def readline(self, limit: int) -> bytes:
        self.last = self.answer.readline(limit)
        return self.last


class _Response(HTTPResponse):
    """An answer whose headers end with an empty line."""

    fp: Any

    def begin(self) -> None:
        lines = self.fp = _Lines(self.fp)
        try:
            super().begin()
        finally:
            self.fp = lines.answer
        if lines.last not in (b"\r\n", b"\n"):
            raise RemoteDisconnected("The answer was cut in its headers")


class _Connection(AWSHTTPConnection):  # type: ignore[misc]
    response_class = _Response


class _SecureConnection(AWSHTTPSConnection):  # type: ignore[misc]
    response_class = _Response


class _Pool(AWSHTTPConnectionPool):  # type: ignore[misc]
    ConnectionCls = _Connection


class _SecurePool(AWSHTTPSConnectionPool):  # type: ignore[misc]
    ConnectionCls = _SecureConnection
