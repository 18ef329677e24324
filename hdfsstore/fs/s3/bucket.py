"""The requests to one bucket: a client for each process, tries and deadlines, typed errors, and the server's clock."""

from __future__ import annotations

import base64
import binascii
import io
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import Any

from hdfsstore.errors import StateStoreError
from hdfsstore.fs.calls import Calls, Progress
from hdfsstore.fs.request_metrics import RequestMetrics
from hdfsstore.fs.s3.client import connect_timeout_s, keys_of, make_client, proxy_of, request_timeout_s
from hdfsstore.fs.s3.failures import S3Failure, failure, may_pass
from hdfsstore.fs.s3.settings import Encryption, S3Settings
from hdfsstore.fs.unknown_outcomes import Tries

_SERVER_SIDE = {Encryption.SSE_S3: "AES256", Encryption.SSE_KMS: "aws:kms", Encryption.DSSE_KMS: "aws:kms:dsse"}


class Bucket:
    """Any number of threads may use it, and a forked child too.

    Attributes:
        of_writes: the arguments of each request that makes an object.
        of_objects: the arguments of each request that reads an object, or makes one of parts.
        of_all: the arguments of each request.
    """

    def __init__(self, name: str, settings: S3Settings, requests: RequestMetrics) -> None:
        self.name = name
        self.requests = requests
        self.settings = settings
        self.of_all = {"RequestPayer": "requester"} if settings.requester_pays else {}
        self.of_objects = {**self.of_all, **_customer_key(settings, f"s3://{name}")}
        self.of_writes = {**self.of_objects, **_of_new_objects(settings)}
        self._secrets = settings.secrets()
        self._calls = Calls(
            settings.timeout_s,
            requests,
            may_pass,
            identity=settings.identity(name),
            attempt_s=connect_timeout_s(settings) + request_timeout_s(settings),
        )
        self._use(make_client(settings))
        self._clock: tuple[int, int] | None = None  # the server's, and ours when it was read

    def client(self) -> Any:
        """This process's client. A forked child uses none of its parent's connections."""
        process, client = self._made
        if process != os.getpid():
            client = make_client(self.settings)
            self._use(client)
        return client

    def renew(self, settings: S3Settings) -> None:
        """Makes later requests with a client of these settings. Those under way end with the client that they have."""
        self.settings = settings
        self._secrets = settings.secrets()
        self._use(make_client(settings))

    def _use(self, client: Any) -> None:
        self._made = (os.getpid(), client)
        self._calls.proxy = proxy_of(client)

    def uri(self, key: str) -> str:
        return f"s3://{self.name}/{key}"

    def ask(
        self,
        kind: str,
        operation: str,
        key: str,
        arguments: dict[str, Any] | Callable[[], dict[str, Any]],
        *,
        body: bytes | bytearray | None = None,
        then: Callable[[Any], object] | None = None,
        progress: Progress | None = None,
        tries: Tries | None = None,
    ) -> Any:
        """Makes a request, again and again while its failure may pass.

        Args:
            kind: for the metrics.
            operation: the method of botocore's client.
            key: of the object, for the errors.
            arguments: of the operation, but the bucket. They may be made anew for each try.
            body: is sent.
            then: is called with the answer, as a part of the try: it reads a body, or looks at the outcome.
            progress: of the body that `then` reads. The deadline counts from its last byte, or else from the last one
                that was sent. An answer that trickles in, or its head, has to be there before.
            tries: takes notice of those that the server leaves waiting.

        Returns:
            botocore's answer.

        Raises:
            S3Failure: the request has failed for good.
            FileSystemTimeoutError: it has failed until the deadline, or there was no answer.
        """

        sending = None if body is None else Progress()

        def work() -> Any:
            sent = {} if sending is None or body is None else {"Body": _Body(body, sending)}
            given = arguments() if callable(arguments) else arguments
            try:
                with self.failures():
                    answer = getattr(self.client(), operation)(Bucket=self.name, **given, **sent)
            except S3Failure as found:
                if tries is not None and found.hangs:
                    tries.hanging += 1
                raise
            self._read_clock(answer["ResponseMetadata"].get("HTTPHeaders", {}))
            if body is not None:
                self.requests.written(len(body))
            return answer

        def look(answer: Any) -> None:
            if then is not None:
                with self.failures():
                    then(answer)

        return self._calls.call(
            kind, self.uri(key), work, repeatable=True, on_thread=True, progress=progress or sending, then=look
        )

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Raises the errors of botocore, urllib3 and sockets as the S3Failure that they mean."""
        try:
            yield
        except (S3Failure, StateStoreError):
            raise
        except Exception as error:
            found = failure(error, [*self._secrets, *keys_of(self._made[1])])
            if found is None:
                raise
            self._read_clock(found.headers)
            try:
                raise found from found.__cause__
            finally:
                del found  # else it holds this frame and is held by it, with the buffers of the frames below

    def error(self, found: S3Failure, key: str) -> StateStoreError:
        """The typed error of a failure."""
        error = StateStoreError(str(found), self.uri(key), remedy=found.remedy)
        error.__cause__ = found.__cause__
        error.__suppress_context__ = True
        return error

    def now_ns(self) -> int:
        """The server's clock, which has whole seconds. It was read from an answer; without one the server is asked."""
        if self._clock is None:
            try:
                self.ask("HEAD", "head_bucket", "", {})
            except S3Failure as found:
                if self._clock is None:
                    raise self.error(found, "") from None
        if self._clock is None:
            raise StateStoreError(
                "the server's answers have no Date", self.uri(""), remedy="Ask for the header at the proxy or server"
            )
        server, ours = self._clock
        return server + time.monotonic_ns() - ours

    def _read_clock(self, headers: dict[str, str]) -> None:
        date = headers.get("date")
        if date is None:
            return
        try:
            seconds = parsedate_to_datetime(date).timestamp()
        except ValueError:
            return
        self._clock = (int(seconds) * 10**9, time.monotonic_ns())


class _Body(io.BytesIO):
    """The body of a try. It is read to be signed, and once more to be sent: both count as bytes that have passed."""

    def __init__(self, content: bytes | bytearray, progress: Progress) -> None:
        super().__init__(content)
        self._progress = progress
        self._passed = 0

    def read(self, size: int | None = -1, /) -> bytes:
        piece = super().read(size)
        self._passed += len(piece)
        self._progress.at(self._passed)
        return piece


def _of_new_objects(settings: S3Settings) -> dict[str, Any]:
    chosen: dict[str, Any] = {}
    if settings.encryption in _SERVER_SIDE:
        chosen["ServerSideEncryption"] = _SERVER_SIDE[settings.encryption]
    if settings.encryption in (Encryption.SSE_KMS, Encryption.DSSE_KMS):
        if settings.kms_key_id:
            chosen["SSEKMSKeyId"] = settings.kms_key_id
        if settings.kms_context:
            chosen["SSEKMSEncryptionContext"] = settings.kms_context
    if settings.acl:
        chosen["ACL"] = settings.acl
    if settings.storage_class:
        chosen["StorageClass"] = settings.storage_class
    return chosen


def _customer_key(settings: S3Settings, uri: str) -> dict[str, Any]:
    if settings.encryption is not Encryption.SSE_C:
        return {}
    try:
        key = base64.b64decode(settings.customer_key.reveal() if settings.customer_key else "", validate=True)
    except binascii.Error:
        key = b""
    if len(key) != 32:
        raise StateStoreError(
            "SSE-C needs a key of 32 bytes in base64, and this is none",
            uri,
            remedy="Give such a key (fs.s3a.encryption.key)",
        )
    return {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": key}
