"""The typed errors. Each message names the file, the byte offset where there is one, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class StateStoreError(Exception):
    """Base of all errors that hdfsstore raises on purpose.

    Attributes:
        path: the file or folder that the error is about, or None.
        offset: the byte offset in that file, or None. In a compressed file it is the offset in the compressed bytes
            where a compressed block is at fault, and the message says so where it counts decompressed bytes.
        remedy: what the reader of the message can do next, or None.
    """

    def __init__(
        self, message: str, path: str | None = None, offset: int | None = None, remedy: str | None = None
    ) -> None:
        self.message = message
        self.path = path
        self.offset = offset
        self.remedy = remedy
        super().__init__(message, path, offset, remedy)

    def __str__(self) -> str:
        text = self.message
        if self.path is not None:
            at = "" if self.offset is None else f", byte {self.offset}"
            text = f"{self.path}{at}: {text}"
        elif self.offset is not None:
            text = f"byte {self.offset}: {text}"
        return text if self.remedy is None else f"{text}. {self.remedy}"


class CorruptFileError(StateStoreError):
    """The bytes of a file are not what its format, checksum or declared lengths say."""


@contextmanager
def remedied(remedy: str) -> Iterator[None]:
    """Adds what to do next to the error of a damaged file that does not say so itself."""
    try:
        yield
    except CorruptFileError as error:
        raise CorruptFileError(error.message, error.path, error.offset, error.remedy or remedy) from error


class SizeLimitError(StateStoreError):
    """What was given is more than a table, a file or a row has room for; the message has the limit."""


class AddressSpaceError(StateStoreError):
    """A local image cannot be mapped, as the process may not have so much address space (ulimit -v, RLIMIT_AS)."""


class UnsupportedVersionError(StateStoreError):
    """A log or file was written in a newer format version than this release knows."""


class UnsupportedTypeError(StateStoreError):
    """A column has a type that this release cannot decode, encode or hash; the message names the field."""


class SchemaMismatchError(StateStoreError):
    """The rows do not fit the schema, or there is no schema for them; the message says what the rows look like."""


class UnsupportedProviderError(StateStoreError):
    """The checkpoint's state is kept by a provider that this release cannot read."""


class UnsupportedQueryError(StateStoreError):
    """A stateful query cannot run like this: the Spark release, kind of session, trigger, mode or plan is named."""


class BatchNotAvailableError(StateStoreError):
    """The batch was never committed, or retention has removed what it needs."""


class MissingFileError(StateStoreError):
    """A file that others depend on is not there, though files before and after it are."""


class CheckpointNotFoundError(StateStoreError):
    """There is no checkpoint at the path, or it lacks the part that was asked for (operator, store, partition)."""


class StateStoreClosedError(StateStoreError):
    """The store was committed, aborted or closed: it is used once. Get another one from the provider."""


class CheckpointIdMismatchError(StateStoreError):
    """A unique id is not the one that the log, or the file, holds for that version; the message has both."""


class BatchAlreadyLoggedError(StateStoreError):
    """The log has an entry of that batch: entries are written once. Another run of the query may have written it."""


class LogMismatchError(StateStoreError):
    """Spark's log of a query and ours tell of different batches: the query has run without us since."""


class ImageDamagedError(CorruptFileError):
    """A block of a local image does not match its checksum: the image is dropped and built anew."""


class UserFunctionError(StateStoreError):
    """The user's stateful function raised: the message names the batch and the key or partition. `__cause__` has it."""
