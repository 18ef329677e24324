"""Large objects go to S3 in parts, several at once.

    request          answer lost                                  the upload fails
    create upload    another one is begun; the lost one stays     nothing is to be done
                     for the clean-up (leftovers.py)
    upload part      it is sent again                             the upload is aborted
    complete         it is asked again. If the upload is unknown  the upload is aborted
                     then, its object is looked at
    abort            it is asked again                            it stays for the clean-up

An object appears by `complete` and is whole then. Each part that ends after its upload was aborted aborts it again,
because S3 may keep such a part.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from hdfsstore.errors import SizeLimitError, StateStoreError
from hdfsstore.fs.s3.bucket import Bucket
from hdfsstore.fs.s3.failures import S3Failure
from hdfsstore.fs.threads import Job

if TYPE_CHECKING:
    from typing_extensions import Buffer

log = logging.getLogger("hdfsstore.fs.s3")

# Parts but the last one have this size: it is the least that S3 allows, and some servers want them all alike.
PART = 5 << 20
_MOST_PARTS = 10_000
_PARALLEL = 4
_ABORT_S = 2.0


def parts(content: Iterable[Buffer]) -> Iterator[bytearray]:
    """Cuts content into parts. There is one at least, which may be empty."""
    part = bytearray()
    for piece in content:
        rest = memoryview(piece).cast("B")
        while len(part) + len(rest) > PART:
            room = PART - len(part)
            part += rest[:room]
            rest = rest[room:]
            yield part
            part = bytearray()
        part += rest
    yield part


class Upload:
    """One upload, from its beginning to complete() or abort(). Memory: _PARALLEL + 1 parts."""

    def __init__(self, bucket: Bucket, key: str, arguments: dict[str, Any]) -> None:
        self._bucket = bucket
        self._key = key
        answer = bucket.ask("create upload", "create_multipart_upload", key, {"Key": key, **arguments})
        self._id: str = answer["UploadId"]
        self._sent: list[dict[str, Any]] = []
        self._on_the_way: deque[Job[dict[str, Any]]] = deque()
        self._lock = threading.Lock()
        self._aborted = False

    def send(self, content: Iterable[bytearray]) -> None:
        """Sends all parts, and waits for them."""
        for number, part in enumerate(content, 1):
            if number > _MOST_PARTS:
                raise SizeLimitError(
                    f"a file of more than {_MOST_PARTS * PART >> 30} GB does not fit the parts of an upload",
                    self._bucket.uri(self._key),
                    remedy="Use more partitions",
                )
            while len(self._on_the_way) >= _PARALLEL:
                self._wait_for_one()
            job = Job(self._sender(number, part))
            try:
                job.start()
            except RuntimeError as error:
                raise StateStoreError(
                    f"a part needs a thread, and the system has none: {error}",
                    self._bucket.uri(self._key),
                    remedy="Raise the limit of processes and threads (ulimit -u)",
                ) from error
            self._on_the_way.append(job)
        while self._on_the_way:
            self._wait_for_one()

    def complete(self, arguments: dict[str, Any]) -> None:
        """Makes the object of the parts.

        Raises:
            S3Failure: it was refused. NoSuchUpload: the upload has ended, maybe by an earlier try.
        """
        self._bucket.ask(
            "complete upload",
            "complete_multipart_upload",
            self._key,
            {
                "Key": self._key,
                "UploadId": self._id,
                "MultipartUpload": {"Parts": self._sent},
                **self._bucket.of_objects,
                **arguments,
            },
        )

    def abort(self) -> None:
        """Gives the upload up. Parts that are on the way abort it again when they have ended.

        A server that hangs does not hold up the caller: the abort goes on behind it.
        """
        with self._lock:
            self._aborted = True
        job = Job(lambda: abort_upload(self._bucket, self._key, self._id))
        try:
            job.start()
        except RuntimeError as error:
            log.warning("%s: an unfinished upload is left behind: %s", self._bucket.uri(self._key), error)
        else:
            job.wait(_ABORT_S)

    def _wait_for_one(self) -> None:
        job = self._on_the_way[0]
        while not job.wait(1):  # a signal that arrives just before a wait does not end it
            pass
        self._sent.append(job.result())
        self._on_the_way.popleft()

    def _sender(self, number: int, part: bytearray) -> Any:
        def send() -> dict[str, Any]:
            try:
                answer = self._bucket.ask(
                    "PUT part",
                    "upload_part",
                    self._key,
                    {"Key": self._key, "UploadId": self._id, "PartNumber": number, **self._bucket.of_objects},
                    body=part,
                )
                return {"ETag": answer["ETag"], "PartNumber": number}
            finally:
                with self._lock:
                    aborted = self._aborted
                if aborted:
                    abort_upload(self._bucket, self._key, self._id)

        return send


def abort_upload(bucket: Bucket, key: str, upload_id: str) -> None:
    """Aborts an upload. What cannot be aborted is logged and stays for the clean-up."""
    try:
        bucket.ask(
            "abort upload",
            "abort_multipart_upload",
            key,
            {"Key": key, "UploadId": upload_id, **bucket.of_all},
        )
    except S3Failure as found:
        if found.status != 404:  # it has ended
            log.warning("%s: an unfinished upload is left behind: %s", bucket.uri(key), found)
    except StateStoreError as error:
        log.warning("%s: an unfinished upload is left behind: %s", bucket.uri(key), error)
