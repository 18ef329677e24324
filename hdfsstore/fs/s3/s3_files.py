"""The files of an S3 bucket."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pyarrow.fs import FileInfo

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.file_manager import Promises
from hdfsstore.fs.range_reader import RangeReader
from hdfsstore.fs.request_metrics import RequestMetrics
from hdfsstore.fs.s3 import deleting, leftovers, listing, object_reading
from hdfsstore.fs.s3.bucket import Bucket
from hdfsstore.fs.s3.settings import S3Settings
from hdfsstore.fs.s3.writing import Writer
from hdfsstore.fs.unknown_outcomes import UnknownOutcomes

if TYPE_CHECKING:
    from typing_extensions import Buffer


class S3FileManager:
    """A FileManager. Paths are `bucket/key`, without a slash before or after.

    It may be used after a fork: the child makes a client of its own at its first request.

    Attributes:
        bucket: the name.
        requests: what was asked of the server.
    """

    promises = Promises(create_if_absent=True, atomic_replace=True, versioned_reads=True, tested=True)

    def __init__(self, settings: S3Settings, bucket: str) -> None:
        self.bucket = bucket
        self.identity = settings.identity(bucket)
        self.requests = RequestMetrics()
        self._bucket = Bucket(bucket, settings, self.requests)
        self._unknown = UnknownOutcomes(settings.timeout_s, self._bucket.uri)
        self._writer = Writer(self._bucket, self._unknown)

    def list_folder(self, folder: str) -> list[FileInfo]:
        return listing.list_folder(self._bucket, self._key(folder))

    def file_infos(self, paths: Sequence[str]) -> list[FileInfo]:
        return listing.object_infos(self._bucket, [self._key(path) for path in paths])

    def open_file(self, path: str, size: int | None = None) -> RangeReader:
        return object_reading.open_object(self._bucket, self._key(path), size)

    def create(self, path: str, content: Iterable[Buffer]) -> None:
        self._writer.create(self._key(path), content)

    def replace(self, path: str, content: Iterable[Buffer]) -> None:
        self._writer.replace(self._key(path), content)

    def write_unique(self, path: str, content: Iterable[Buffer]) -> None:
        self._writer.write_unique(self._key(path), content)

    def delete(self, paths: Sequence[str]) -> None:
        deleting.delete_objects(self._bucket, self._unknown, map(self._key, paths))

    def renew(self, settings: S3Settings) -> None:
        """Takes the keys of these settings, which differ in nothing else, for each request from now on."""
        self._bucket.renew(settings)

    def abort_unfinished(self, folder: str, grace_ns: int) -> int:
        return leftovers.abort_leftovers(self._bucket, f"{self._key(folder)}/", grace_ns)

    def now_ns(self, folder: str) -> int:  # noqa: ARG002 - the server has one clock
        return self._bucket.now_ns()

    def _key(self, path: str) -> str:
        bucket, _, key = path.partition("/")
        if bucket != self.bucket:
            raise StateStoreError(
                f"this is no path of the bucket {self.bucket}", path, remedy="Open the location of that bucket"
            )
        return key
