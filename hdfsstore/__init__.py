"""The state of Spark's streaming queries, opened from Python at native speed."""

from hdfsstore.checkpoint.checkpoint import Batch, Checkpoint
from hdfsstore.checkpoint.operators import Operator, Store
from hdfsstore.errors import (
    BatchNotAvailableError,
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
    "BatchNotAvailableError",
    "Checkpoint",
    "CheckpointNotFoundError",
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
