"""Makes objects: whole or not at all, and, where that is asked, only if the name is free.

up to 5 MB      one PUT
larger          parts (multipart.py)
create          the PUT, or the completion of the parts, has If-None-Match: *. Each object has an owner's token in its
                metadata. Where the server says that the name is taken, the token tells whether it is by this call,
                whose answer was lost, or by another one.
replace         a call whose outcome is unknown may still take effect. Nothing more is written under that name by
                this process until that is over (unknown_outcomes.py).
"""

from __future__ import annotations

import errno
import itertools
import uuid
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from hdfsstore.fs.s3.bucket import Bucket
from hdfsstore.fs.s3.failures import S3Failure
from hdfsstore.fs.s3.multipart import Upload, parts
from hdfsstore.fs.unknown_outcomes import Tries, UnknownOutcomes

if TYPE_CHECKING:
    from typing_extensions import Buffer

_OWNER = "hdfsstore-owner"
_ABSENT = {"IfNoneMatch": "*"}
# Of a completion: it was completed before, or given up by the server because another writer was quicker.
_NO_UPLOAD = "NoSuchUpload"


class Writer:
    """Writes the objects of a bucket. Any number of threads may use it."""

    def __init__(self, bucket: Bucket, unknown: UnknownOutcomes) -> None:
        self._bucket = bucket
        self._unknown = unknown

    def create(self, key: str, content: Iterable[Buffer]) -> None:
        """Raises: FileExistsError: the name is taken."""
        self._unknown.check(key)
        self._write(key, content, uuid.uuid4().hex, _ABSENT, nullcontext())

    def replace(self, key: str, content: Iterable[Buffer]) -> None:
        self._unknown.check(key)
        owner = uuid.uuid4().hex
        self._write(key, content, owner, {}, self._unknown.of(key, lambda: owner_of(self._bucket, key) == owner))

    def write_unique(self, key: str, content: Iterable[Buffer]) -> None:
        self._write(key, content, uuid.uuid4().hex, {}, nullcontext())

    def _write(
        self,
        key: str,
        content: Iterable[Buffer],
        owner: str,
        condition: dict[str, str],
        last: AbstractContextManager[Tries | None],
    ) -> None:
        """Makes an object. `last` surrounds the request by which it appears."""
        cut = parts(content)
        first = next(cut)
        second = next(cut, None)
        arguments = {"Metadata": {_OWNER: owner}, **self._bucket.of_writes}
        try:
            if second is None:
                with last as tries:
                    given = {"Key": key, **arguments, **condition}
                    self._bucket.ask("PUT", "put_object", key, given, body=first, tries=tries)
            else:
                self._in_parts(key, itertools.chain((first, second), cut), owner, arguments, condition, last)
        except S3Failure as found:
            taken = found.status == 412 or found.code == _NO_UPLOAD
            holder = owner_of(self._bucket, key) if condition and taken else None
            if holder is None:
                raise self._bucket.error(found, key) from None
            if holder != owner:
                raise FileExistsError(errno.EEXIST, "there is such a file already", self._bucket.uri(key)) from None

    def _in_parts(
        self,
        key: str,
        content: Iterator[bytearray],
        owner: str,
        arguments: dict[str, Any],
        condition: dict[str, str],
        last: AbstractContextManager[Tries | None],
    ) -> None:
        upload = Upload(self._bucket, key, arguments)
        try:
            upload.send(content)
            with last:  # an upload is completed once, however often that is asked
                upload.complete(condition)
        except S3Failure as found:
            if found.code != _NO_UPLOAD or owner_of(self._bucket, key) != owner:
                upload.abort()
                raise
        except BaseException:
            upload.abort()
            raise


def owner_of(bucket: Bucket, key: str) -> str | None:
    """The owner's token of an object, "" if it has none; None if there is no object."""
    try:
        answer = bucket.ask("HEAD", "head_object", key, {"Key": key, **bucket.of_objects})
    except S3Failure as found:
        if found.status == 404:
            return None
        raise bucket.error(found, key) from None
    return str(answer["Metadata"].get(_OWNER, ""))
