"""Defines the typed errors. Each message names the file, the byte offset if there is one, and a remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class StateStoreError(Exception):
    """Base of all errors that hdfsstore raises on purpose.

    Attributes:
        path: the file or folder of the error, or None.
        offset: the byte offset in that file, or None. If a compressed block is damaged, it counts compressed bytes; the
            message says so if it counts decompressed bytes.
        remedy: what the user can do next, or None.
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
    """The bytes of a file do not match its format, checksum or declared lengths."""


@contextmanager
def remedied(remedy: str) -> Iterator[None]:
    """Adds a remedy to a CorruptFileError that has none."""
    try:
        yield
    except CorruptFileError as error:
        raise CorruptFileError(error.message, error.path, error.offset, error.remedy or remedy) from error


class SizeLimitError(StateStoreError):
    """The data is larger than a table, a file or a row can be; the message has the limit."""


class AddressSpaceError(StateStoreError):
    """A local image cannot be mapped: the limit of the process's address space is too low (ulimit -v, RLIMIT_AS)."""


class UnsupportedVersionError(StateStoreError):
    """A log or file has a newer format version than this release knows."""


class UnsupportedTypeError(StateStoreError):
    """A column has a type that this release cannot decode, encode or hash; the message names the field."""


class SchemaMismatchError(StateStoreError):
    """The rows do not fit the schema, or have no schema; the message describes the rows."""


class UnsupportedProviderError(StateStoreError):
    """This release cannot read the state of the checkpoint's provider."""


class UnsupportedQueryError(StateStoreError):
    """A stateful query cannot run like this; the message names the Spark release, session, trigger, mode or plan."""


class BatchNotAvailableError(StateStoreError):
    """The batch was never committed, or retention has removed what it needs."""


class MissingFileError(StateStoreError):
    """A file that others need is missing, though files before and after it exist."""


class CheckpointNotFoundError(StateStoreError):
    """There is no checkpoint at the path, or it has no such operator, store or partition."""


class StateStoreClosedError(StateStoreError):
    """The store was committed, aborted or closed. A store is used once: get another one from the provider."""


class CheckpointIdMismatchError(StateStoreError):
    """A unique id differs from the one in the log or in the file of that version; the message has both."""


class BatchAlreadyLoggedError(StateStoreError):
    """The log already has an entry of the batch, which another run of the query may have written."""


class LogMismatchError(StateStoreError):
    """Spark's log and that of hdfsstore have different batches: the query has run without hdfsstore since."""


class ImageDamagedError(CorruptFileError):
    """A block of a local image does not match its checksum. The image is dropped and built anew."""


class UserFunctionError(StateStoreError):
    """The user's stateful function raised `__cause__`; the message names the batch and the key or partition."""


class FileSystemTimeoutError(StateStoreError):
    """A storage has not answered within the timeout, or has failed until then; nothing is known of the last try.

    Attributes:
        tries: how often the call was tried; 0: it was refused, because an earlier one is still under way.
    """

    def __init__(
        self,
        message: str,
        path: str | None = None,
        offset: int | None = None,
        remedy: str | None = None,
        tries: int = 1,
    ) -> None:
        super().__init__(message, path, offset, remedy)
        self.tries = tries


class FileChangedError(StateStoreError):
    """A file was replaced while it was read. Whoever reads it from its start reads the new one."""


class UnsupportedSettingError(StateStoreError):
    """A setting of a filesystem, about security or the place of data, cannot be honoured; the message names it."""


class RepairUnderWayError(StateStoreError):
    """An in-place repair is changing the checkpoint, or was killed while it did; the remedy says how it is ended."""


class NotPromisedError(StateStoreError):
    """The filesystem does not keep a promise that the work needs; the message says which one."""


class RepairError(StateStoreError):
    """A repair is refused: it would lose data, or it cannot be done like this. Nothing was changed."""


class PlacementError(RepairError):
    """Rows of the state are not where the rule of their operator puts them, or the operator has no rule known here."""
