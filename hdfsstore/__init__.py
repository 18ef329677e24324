"""The state of Spark's streaming queries, opened from Python at native speed."""

from hdfsstore.checkpoint.checkpoint import Batch, Checkpoint
from hdfsstore.checkpoint.commit_log import CommitLog
from hdfsstore.checkpoint.operators import Operator, Store
from hdfsstore.errors import (
    BatchAlreadyLoggedError,
    BatchNotAvailableError,
    CheckpointIdMismatchError,
    CheckpointNotFoundError,
    CorruptFileError,
    MissingFileError,
    SchemaMismatchError,
    StateStoreError,
    UnsupportedProviderError,
    UnsupportedTypeError,
    UnsupportedVersionError,
)

__all__ = [
    "Batch",
    "BatchAlreadyLoggedError",
    "BatchNotAvailableError",
    "Checkpoint",
    "CheckpointIdMismatchError",
    "CheckpointNotFoundError",
    "CommitLog",
    "CorruptFileError",
    "MissingFileError",
    "Operator",
    "SchemaMismatchError",
    "StateStoreError",
    "Store",
    "UnsupportedProviderError",
    "UnsupportedTypeError",
    "UnsupportedVersionError",
]
