"""Makes objects: whole or not at all, and on a condition.

up to 5 MB      one PUT
larger          parts (multipart.py)
create          the PUT, or the completion of the parts, has If-None-Match: *. Each object has an owner's token in its
                metadata. Where the server says that the name is taken, the token tells whether it is by this call,
                whose answer was lost, or by another one.
replace         the same. If the name is taken by another object, it is asked again, with If-Match and the ETag of that
                object. So a try that hangs, and is carried out later, is refused where anybody has written a newer
                object. A server that knows no conditions is asked without (unknown_outcomes.py does what it can).
"""

from __future__ import annotations

import errno
import itertools
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from hdfsstore.fs.s3.bucket import Bucket
from hdfsstore.fs.s3.failures import S3Failure, hidden_object
from hdfsstore.fs.s3.multipart import Upload, parts
from hdfsstore.fs.unknown_outcomes import Tries, UnknownOutcomes

if TYPE_CHECKING:
    from typing_extensions import Buffer

_OWNER = "hdfsstore-owner"
_Condition: TypeAlias = dict[str, str]
_ALWAYS: _Condition = {}
_ABSENT: _Condition = {"IfNoneMatch": "*"}
_MISSING, _NOT_MET, _NOT_KNOWN = 404, 412, 501
# Of a completion: it was completed before, or given up by the server because another writer was quicker.
_NO_UPLOAD = "NoSuchUpload"
_NO_BUCKET = "NoSuchBucket"
# So often a replace meets an object that others have written since it looked.
_MOST_RIVALS = 100


@dataclass(frozen=True, slots=True)
class Holder:
    """The object that has a name.

    Attributes:
        owner: the token of the call that wrote it; "" if it has none.
        etag: of its content.
    """

    owner: str
    etag: str


@dataclass(frozen=True, slots=True)
class _New:
    """An object that is ready to appear.

    Attributes:
        key, owner: its name, and the token of the call that writes it.
        appear: makes the request by which it appears.
        in_parts: its content is at the server.
    """

    key: str
    owner: str
    appear: Callable[[_Condition, Tries | None], object]
    in_parts: bool


class Writer:
    """Writes the objects of a bucket. Any number of threads may use it."""

    def __init__(self, bucket: Bucket, unknown: UnknownOutcomes) -> None:
        self._bucket = bucket
        self._unknown = unknown

    def create(self, key: str, content: Iterable[Buffer]) -> None:
        """Raises: FileExistsError: the name is taken."""
        self._unknown.check(key)
        self._write(key, content, self._create)

    def replace(self, key: str, content: Iterable[Buffer]) -> None:
        self._unknown.check(key)
        self._write(key, content, self._replace)

    def write_unique(self, key: str, content: Iterable[Buffer]) -> None:
        self._write(key, content, self._put)

    def _write(self, key: str, content: Iterable[Buffer], finish: Callable[[_New], None]) -> None:
        cut = parts(content)
        first = next(cut)
        second = next(cut, None)
        owner = uuid.uuid4().hex
        arguments = {"Metadata": {_OWNER: owner}, **self._bucket.of_writes}
        try:
            if second is None:

                def put(condition: _Condition, tries: Tries | None) -> None:
                    given = {"Key": key, **arguments, **condition}
                    self._bucket.ask("PUT", "put_object", key, given, body=first, tries=tries)

                return finish(_New(key, owner, put, in_parts=False))
            upload = Upload(self._bucket, key, arguments)
            try:
                upload.send(itertools.chain((first, second), cut))
                # An upload is completed once, however often that is asked.
                return finish(_New(key, owner, lambda condition, _: upload.complete(condition), in_parts=True))
            except BaseException:
                upload.abort()
                raise
        except S3Failure as found:
            raise self._bucket.error(found, key) from None

    def _put(self, new: _New) -> None:
        try:
            new.appear(_ALWAYS, None)
        except S3Failure as found:
            if found.code != _NO_UPLOAD or not self._is_there(new):
                raise

    def _create(self, new: _New) -> None:
        try:
            new.appear(_ABSENT, None)
        except S3Failure as found:
            holder = holder_of(self._bucket, new.key) if _is_about_the_name(found) else None
            if holder is None:
                raise
            if holder.owner != new.owner:
                uri = self._bucket.uri(new.key)
                raise FileExistsError(errno.EEXIST, "there is such a file already", uri) from None

    def _replace(self, new: _New) -> None:
        # Most names are free. A look is little beside the requests for parts, and spares them a refusal, after which
        # some servers want all parts again.
        condition = _unless_changed(holder_of(self._bucket, new.key)) if new.in_parts else _ABSENT
        for rivals in itertools.count(1):
            with self._unknown.of(new.key, lambda: self._is_there(new)) as tries:
                refusal = _refusal(new, condition, tries)
            if refusal is None:
                return
            if refusal.status == _NOT_KNOWN:
                condition = _ALWAYS
                continue
            holder = holder_of(self._bucket, new.key)
            if holder is not None and holder.owner == new.owner:
                return
            if refusal.code == _NO_UPLOAD or rivals == _MOST_RIVALS:
                raise refusal
            condition = _unless_changed(holder)

    def _is_there(self, new: _New) -> bool:
        holder = holder_of(self._bucket, new.key)
        return holder is not None and holder.owner == new.owner


def _refusal(new: _New, condition: _Condition, tries: Tries) -> S3Failure | None:
    """Has the object appear. Returns the failure if it may appear on another condition, or has done so already."""
    try:
        new.appear(condition, tries)
    except S3Failure as found:
        is_gone = "IfMatch" in condition and found.status == _MISSING and found.code != _NO_BUCKET
        if _is_about_the_name(found) or is_gone or (condition and found.status == _NOT_KNOWN):
            return found
        raise
    return None


def _is_about_the_name(found: S3Failure) -> bool:
    return found.status == _NOT_MET or found.code == _NO_UPLOAD


def _unless_changed(holder: Holder | None) -> _Condition:
    return _ABSENT if holder is None else {"IfMatch": holder.etag}


def holder_of(bucket: Bucket, key: str) -> Holder | None:
    """The object of a name; None if there is none."""
    try:
        answer = bucket.ask("HEAD", "head_object", key, {"Key": key, **bucket.of_objects})
    except S3Failure as found:
        if found.status == _MISSING:
            return None
        raise bucket.error(hidden_object(found), key) from None
    return Holder(str(answer["Metadata"].get(_OWNER, "")), answer["ETag"])
